//! Keys and signals by the names that people give them.

/// Returns what a terminal sends for a key.
pub(super) fn bytes(key: &str) -> Result<Vec<u8>, String> {
    let lower = key.to_ascii_lowercase();
    let named: &[u8] = match lower.as_str() {
        "enter" | "return" => b"\r",
        "tab" => b"\t",
        "escape" | "esc" => b"\x1b",
        "backspace" => b"\x7f",
        "space" => b" ",
        "up" => b"\x1b[A",
        "down" => b"\x1b[B",
        "right" => b"\x1b[C",
        "left" => b"\x1b[D",
        "home" => b"\x1b[H",
        "end" => b"\x1b[F",
        "insert" => b"\x1b[2~",
        "delete" | "del" => b"\x1b[3~",
        "pageup" => b"\x1b[5~",
        "pagedown" => b"\x1b[6~",
        "f1" => b"\x1bOP",
        "f2" => b"\x1bOQ",
        "f3" => b"\x1bOR",
        "f4" => b"\x1bOS",
        "f5" => b"\x1b[15~",
        "f6" => b"\x1b[17~",
        "f7" => b"\x1b[18~",
        "f8" => b"\x1b[19~",
        "f9" => b"\x1b[20~",
        "f10" => b"\x1b[21~",
        "f11" => b"\x1b[23~",
        "f12" => b"\x1b[24~",
        _ => return composed(key, &lower),
    };
    Ok(named.to_vec())
}

fn composed(key: &str, lower: &str) -> Result<Vec<u8>, String> {
    let held = |prefixes: [&str; 3]| {
        prefixes
            .into_iter()
            .find_map(|held| lower.strip_prefix(held))
    };
    if let Some(rest) = held(["ctrl-", "ctrl+", "c-"]) {
        match rest.as_bytes() {
            [letter @ b'a'..=b'z'] => return Ok(vec![letter - b'a' + 1]),
            b"space" | b"@" => return Ok(vec![0]),
            b"[" => return Ok(vec![0x1b]),
            b"\\" => return Ok(vec![0x1c]),
            b"]" => return Ok(vec![0x1d]),
            b"_" => return Ok(vec![0x1f]),
            _ => {}
        }
    }
    if let Some(rest) = held(["alt-", "alt+", "m-"])
        && !rest.is_empty()
    {
        return Ok([b"\x1b".to_vec(), bytes(rest)?].concat());
    }
    let mut characters = key.chars();
    if let (Some(character), None) = (characters.next(), characters.next()) {
        return Ok(character.to_string().into_bytes());
    }
    let shown: String = key.chars().take(40).collect();
    Err(format!(
        "there is no key `{shown}`; a text is for `input`, keys are as `enter`, `ctrl-c`, `up`, `f1`"
    ))
}

/// Returns the number of a signal.
pub(super) fn signal(name: &str) -> Result<i32, String> {
    let upper = name.to_ascii_uppercase();
    let short = upper.strip_prefix("SIG").unwrap_or(&upper);
    Ok(match short {
        "HUP" | "1" => 1,
        "INT" | "2" => 2,
        "QUIT" | "3" => 3,
        "KILL" | "9" => 9,
        "USR1" | "10" => 10,
        "USR2" | "12" => 12,
        "TERM" | "15" => 15,
        "CONT" | "18" => 18,
        "STOP" | "19" => 19,
        "TSTP" | "20" => 20,
        _ => {
            let shown: String = name.chars().take(20).collect();
            return Err(format!(
                "`{shown}` is none of HUP, INT, QUIT, KILL, USR1, USR2, TERM, CONT, STOP and TSTP"
            ));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_what_terminals_send() {
        for (key, sent) in [
            ("enter", &b"\r"[..]),
            ("Ctrl-C", b"\x03"),
            ("C-d", b"\x04"),
            ("ctrl-[", b"\x1b"),
            ("alt-b", b"\x1bb"),
            ("alt-up", b"\x1b\x1b[A"),
            ("y", b"y"),
            ("é", "é".as_bytes()),
        ] {
            assert_eq!(bytes(key).as_deref(), Ok(sent), "{key}");
        }
        assert!(bytes("return to sender").is_err_and(|why| why.contains("`input`")));
        assert_eq!((signal("SIGint"), signal("TERM")), (Ok(2), Ok(15)));
        assert!(signal("BOOM").is_err());
    }
}
