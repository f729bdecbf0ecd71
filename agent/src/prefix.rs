//! Cutting text at a character.

/// Returns the longest beginning of `text` that has at most `bytes_max` bytes and ends between two
/// characters.
pub(crate) fn prefix(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::prefix;

    #[test]
    fn no_character_is_split() {
        assert_eq!(prefix("a🦋b", 10), "a🦋b");
        assert_eq!(prefix("a🦋b", 5), "a🦋");
        assert_eq!(prefix("a🦋b", 4), "a");
        assert_eq!(prefix("🦋", 0), "");
    }
}
