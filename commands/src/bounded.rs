//! Text that is kept as far as it fits.

/// Longest detail of a failure: it is for people, and an error page of somebody's proxy is not.
pub const DETAIL_BYTES_MAX: usize = 4 * 1024;

/// Returns a detail as far as it fits.
pub fn detail(text: &str) -> String {
    prefix(text, DETAIL_BYTES_MAX).to_owned()
}

/// Returns the longest start that has at most `bytes_max` bytes and ends between characters.
pub fn prefix(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Returns the longest end that has at most `bytes_max` bytes and begins between characters.
pub fn suffix(text: &str, bytes_max: usize) -> &str {
    let mut start = text.len().saturating_sub(bytes_max);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_between_characters() {
        assert_eq!(prefix("aä", 3), "aä");
        assert_eq!(prefix("aä", 2), "a");
        assert_eq!(prefix("ä", 1), "");
        assert_eq!(prefix("", 5), "");
    }

    #[test]
    fn a_suffix_begins_between_characters() {
        assert_eq!(suffix("äa", 3), "äa");
        assert_eq!(suffix("äa", 2), "a");
        assert_eq!(suffix("ä", 1), "");
        assert_eq!(suffix("", 5), "");
    }
}
