//! Keys of rows: text whose parts are joined by `/`, so that a prefix is a question.
//!
//! Ids come from callers and from boxes, which may lie; they are escaped, so that no id reaches into
//! another's prefix. Positions have sixteen digits, so that keys sort as positions do.

use cocoonbox_events::LogId;

/// Escapes the separator and the escape character.
pub fn part(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '/' => out.push_str("%2F"),
            '%' => out.push_str("%25"),
            other => out.push(other),
        }
    }
    out
}

/// Joins parts to a key.
pub fn key(parts: &[&str]) -> String {
    parts
        .iter()
        .map(|text| part(text))
        .collect::<Vec<_>>()
        .join("/")
}

/// Joins parts to a prefix: what every key below them starts with.
pub fn prefix(parts: &[&str]) -> String {
    let mut out = key(parts);
    out.push('/');
    out
}

/// The text right behind every key with this prefix.
pub(crate) fn behind(prefix: &str) -> String {
    let mut out = prefix.strip_suffix('/').unwrap_or(prefix).to_owned();
    // The character that follows `/`.
    out.push('0');
    out
}

/// A position, fixed width.
pub fn pos(pos: u64) -> String {
    format!("{pos:016}")
}

/// A content block of the event at a position.
pub fn block(event_pos: u64, block: u32) -> String {
    format!("{event_pos:016}.{block:010}")
}

/// A time in microseconds, fixed width. Times before 1970 are all the same, and before every other.
pub fn time(us: i64) -> String {
    pos(u64::try_from(us).unwrap_or(0))
}

/// A log's id as it stands in keys.
pub fn log(id: LogId) -> String {
    id.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_cannot_reach_into_another_prefix() {
        let all = prefix(&["user-a"]);
        assert!(key(&["user-a", "x"]).starts_with(&all));
        assert!(!key(&["user-a/x", "y"]).starts_with(&all));
        assert_ne!(key(&["a/b", "c"]), key(&["a", "b/c"]));
        assert_ne!(key(&["a%2Fb"]), key(&["a/b"]));
    }

    #[test]
    fn every_key_of_a_prefix_is_before_what_is_behind_it() {
        let all = prefix(&["u"]);
        let end = behind(&all);
        for last in ["", "a", "~", "\u{10ffff}"] {
            let one = key(&["u", last]);
            assert!(one >= all && one < end, "{one}");
        }
        assert!(key(&["u0", "a"]) >= end);
    }

    #[test]
    fn positions_sort_as_numbers_do() {
        assert!(pos(9) < pos(10));
        assert!(block(9, 4_000_000_000) < block(10, 0));
        assert!(block(10, 9) < block(10, 10));
    }
}
