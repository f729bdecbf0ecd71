//! Names under which a model knows the tools of servers.

/// What the vendors' wires take.
const NAME_BYTES_MAX: usize = 64;
/// Of a server's own name in it, so that the tool's keeps room.
const SERVER_BYTES_MAX: usize = 24;
/// Hexadecimal digits that tell names apart which would else be the same.
const MARK_DIGITS: usize = 8;

/// `mcp__server__tool`. Letters, digits, `_` and `-` are kept; where anything had to be changed or left
/// out, a mark made of the true names follows. So a name never depends on which other tools there are.
pub(super) fn of(server: &str, tool: &str) -> String {
    let whole = format!("mcp__{server}__{tool}");
    // `__` within a server's name could make two pairs one name.
    let is_plain = |text: &str| {
        text.bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
            && !text.is_empty()
    };
    if is_plain(server)
        && is_plain(tool)
        && !server.contains("__")
        && !server.ends_with('_')
        && !tool.starts_with('_')
        && whole.len() <= NAME_BYTES_MAX
    {
        return whole;
    }
    let digest = blake3::hash(format!("{server}\0{tool}").as_bytes()).to_hex();
    let mark = &digest[..MARK_DIGITS];
    let server = plain(server, SERVER_BYTES_MAX);
    let room = NAME_BYTES_MAX - "mcp__".len() - server.len() - "__".len() - 1 - MARK_DIGITS;
    format!("mcp__{server}__{}_{mark}", plain(tool, room))
}

fn plain(text: &str, room: usize) -> String {
    let keep = |c: char| {
        if c.is_ascii_alphanumeric() || c == '-' {
            c
        } else {
            '_'
        }
    };
    text.chars().take(room).map(keep).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn plain_names_stay_as_they_are() {
        assert_eq!(of("github", "create_issue"), "mcp__github__create_issue");
        assert_ne!(of("a", "get.user"), of("a", "get_user"));
        assert_ne!(of("a__b", "c"), of("a", "b__c"));
    }

    proptest! {
        #[test]
        fn every_name_is_taken_by_the_wires_and_stands_for_one_tool(
            pairs in proptest::collection::hash_set(("[a-c_.é -]{0,40}", "[a-c_./]{0,80}"), 2..20),
        ) {
            let mut seen = HashMap::new();
            for (server, tool) in pairs {
                let name = of(&server, &tool);
                prop_assert!(name.len() <= 64);
                prop_assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'));
                prop_assert_eq!(seen.insert(name, (server, tool)), None);
            }
        }
    }
}
