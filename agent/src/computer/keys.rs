//! Keys and characters, as the X server knows them.

/// What a key means: a number of X11's `keysymdef.h`.
pub(super) type Keysym = u32;

/// Characters beyond Latin-1 are their code point with this bit.
pub(super) const UNICODE: Keysym = 0x0100_0000;

pub(super) const SHIFT: Keysym = 0xffe1;

/// A key and what is held with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chord {
    pub(super) held: Vec<Keysym>,
    pub(super) key: Keysym,
}

const MODIFIERS: [(&str, Keysym); 12] = [
    ("ctrl", 0xffe3),
    ("control", 0xffe3),
    ("shift", SHIFT),
    ("alt", 0xffe9),
    ("option", 0xffe9),
    ("altgr", 0xfe03),
    ("meta", 0xffe7),
    ("super", 0xffeb),
    ("win", 0xffeb),
    ("windows", 0xffeb),
    ("cmd", 0xffeb),
    ("command", 0xffeb),
];

/// Names as pages and people have them and as X11 has them, in lower case and without what stands between words.
const NAMED: [(&str, Keysym); 63] = [
    ("enter", 0xff0d),
    ("return", 0xff0d),
    ("tab", 0xff09),
    ("backspace", 0xff08),
    ("delete", 0xffff),
    ("del", 0xffff),
    ("escape", 0xff1b),
    ("esc", 0xff1b),
    ("space", 0x20),
    ("left", 0xff51),
    ("arrowleft", 0xff51),
    ("up", 0xff52),
    ("arrowup", 0xff52),
    ("right", 0xff53),
    ("arrowright", 0xff53),
    ("down", 0xff54),
    ("arrowdown", 0xff54),
    ("home", 0xff50),
    ("end", 0xff57),
    ("pageup", 0xff55),
    ("prior", 0xff55),
    ("pagedown", 0xff56),
    ("next", 0xff56),
    ("insert", 0xff63),
    ("menu", 0xff67),
    ("contextmenu", 0xff67),
    ("print", 0xff61),
    ("printscreen", 0xff61),
    ("pause", 0xff13),
    ("capslock", 0xffe5),
    ("numlock", 0xff7f),
    ("scrolllock", 0xff14),
    ("f1", 0xffbe),
    ("f2", 0xffbf),
    ("f3", 0xffc0),
    ("f4", 0xffc1),
    ("f5", 0xffc2),
    ("f6", 0xffc3),
    ("f7", 0xffc4),
    ("f8", 0xffc5),
    ("f9", 0xffc6),
    ("f10", 0xffc7),
    ("f11", 0xffc8),
    ("f12", 0xffc9),
    ("plus", 0x2b),
    ("minus", 0x2d),
    ("equal", 0x3d),
    ("comma", 0x2c),
    ("period", 0x2e),
    ("slash", 0x2f),
    ("backslash", 0x5c),
    ("semicolon", 0x3b),
    ("apostrophe", 0x27),
    ("grave", 0x60),
    ("bracketleft", 0x5b),
    ("bracketright", 0x5d),
    ("kpenter", 0xff8d),
    ("kpmultiply", 0xffaa),
    ("kpadd", 0xffab),
    ("kpsubtract", 0xffad),
    ("kpdecimal", 0xffae),
    ("kpdivide", 0xffaf),
    ("underscore", 0x5f),
];

impl Chord {
    /// Reads `ctrl+shift+t`, `Enter`, `Page_Up`, `+`, `é`; a modifier by itself is a key like others.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut rest = text.trim();
        let mut held = Vec::new();
        while let Some((word, after)) = rest.split_once('+')
            && !after.is_empty()
            && let Some(modifier) = modifier(word)
        {
            held.push(modifier);
            rest = after;
        }
        let key = key(rest)?;
        held.dedup();
        Some(Self { held, key })
    }
}

/// Reads what is to be held while something else is done: `ctrl`, `ctrl+shift`.
pub(super) fn modifiers(text: &str) -> Option<Vec<Keysym>> {
    text.split('+').map(modifier).collect()
}

/// The key that writes a character. `None`: no key does, as with most control characters.
pub(super) fn of_char(c: char) -> Option<Keysym> {
    Some(match c {
        '\n' | '\r' => 0xff0d,
        '\t' => 0xff09,
        '\u{8}' => 0xff08,
        '\u{1b}' => 0xff1b,
        ' '..='~' | '\u{a0}'..='\u{ff}' => c.into(),
        c if c.is_control() => return None,
        c => UNICODE | u32::from(c),
    })
}

fn modifier(word: &str) -> Option<Keysym> {
    let word = plain(word);
    let found = MODIFIERS.iter().find(|(name, _)| *name == word);
    found.map(|(_, keysym)| *keysym)
}

fn key(word: &str) -> Option<Keysym> {
    let mut chars = word.chars();
    if let (Some(c), None) = (chars.next(), chars.next()) {
        return of_char(c);
    }
    let plain = plain(word);
    let named = NAMED.iter().find(|(name, _)| *name == plain);
    named.map(|(_, keysym)| *keysym).or_else(|| modifier(word))
}

fn plain(word: &str) -> String {
    // X11 says which of two: `Control_L`.
    let word = word.trim();
    let word = word
        .strip_suffix("_L")
        .or(word.strip_suffix("_R"))
        .unwrap_or(word);
    let plain = word.chars().filter(|c| !matches!(c, '_' | '-' | ' '));
    plain.flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chord(text: &str) -> (Vec<Keysym>, Keysym) {
        let chord = Chord::parse(text).unwrap_or_else(|| panic!("`{text}` is a key"));
        (chord.held, chord.key)
    }

    #[test]
    fn keys_have_the_names_of_pages_and_of_the_server() {
        assert_eq!(chord("ctrl+s"), (vec![0xffe3], 0x73));
        assert_eq!(chord("Control_L+Shift+T"), (vec![0xffe3, SHIFT], 0x54));
        assert_eq!(chord("ctrl++"), (vec![0xffe3], 0x2b));
        assert_eq!(chord("+"), (vec![], 0x2b));
        for name in ["Page_Up", "PageUp", "Prior"] {
            assert_eq!(chord(name), (vec![], 0xff55));
        }
        assert_eq!(chord("super"), (vec![], 0xffeb));
        assert_eq!(chord("KP_Add"), (vec![], 0xffab));
        assert_eq!(chord("я"), (vec![], UNICODE | 0x44f));
        assert_eq!(Chord::parse("ctrl+nothing"), None);
        assert_eq!(Chord::parse(""), None);
        assert_eq!(modifiers("ctrl+shift"), Some(vec![0xffe3, SHIFT]));
        assert_eq!(modifiers("ctrl+s"), None);
    }

    #[test]
    fn characters_have_keys() {
        assert_eq!(of_char('ß'), Some(0xdf));
        assert_eq!(of_char('€'), Some(UNICODE | 0x20ac));
        assert_eq!(of_char('\u{200d}'), Some(UNICODE | 0x200d));
        assert_eq!(of_char('👧'), Some(UNICODE | 0x1_f467));
        assert_eq!(of_char('\0'), None);
    }
}
