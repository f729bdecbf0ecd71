//! Text that is too long to be told to a model: its ends, and how to see the middle.

use cocoonbox_commands::blob::BLOB_BYTES_MAX;

use crate::prefix::prefix;

/// Longest content that a model is told: about 12,000 tokens.
const CONTENT_BYTES_MAX: usize = 60 * 1024;
/// What is kept of a longer one. The beginning says what it is, the end how it went.
const HEAD_BYTES: usize = 24 * 1024;
const TAIL_BYTES: usize = 16 * 1024;

/// A content that is too long.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Long<'a> {
    head: &'a str,
    tail: &'a str,
    total: usize,
    /// What is to be stored.
    pub(crate) whole: &'a str,
}

/// Returns what is to become of a content that is too long to be told; `None` if it is not.
pub(crate) fn shorten(content: &str) -> Option<Long<'_>> {
    if content.len() <= CONTENT_BYTES_MAX {
        return None;
    }
    let mut from = content.len() - TAIL_BYTES;
    while !content.is_char_boundary(from) {
        from += 1;
    }
    Some(Long {
        head: whole_lines(prefix(content, HEAD_BYTES)),
        tail: &content[from..],
        total: content.len(),
        whole: prefix(content, BLOB_BYTES_MAX),
    })
}

impl Long<'_> {
    /// What a model is told. `blob`: where the whole is, if it could be stored.
    pub(crate) fn told(&self, blob: Option<&str>) -> String {
        let (from, total) = (self.head.len(), self.total);
        let left = total - from - self.tail.len();
        let hint = match blob {
            Some(blob) if self.whole.len() < total => format!(
                "; the tool `output` reads the first {} bytes: blob {blob}, offset {from}",
                self.whole.len()
            ),
            Some(blob) => format!("; the tool `output` reads them: blob {blob}, offset {from}"),
            None => String::new(),
        };
        format!(
            "{}\n[{left} of {total} bytes left out{hint}]\n{}",
            self.head, self.tail
        )
    }
}

/// Cuts a last line that is not whole, unless it is all there is.
fn whole_lines(text: &str) -> &str {
    match text.rfind('\n') {
        Some(end) if end > HEAD_BYTES / 2 => &text[..=end],
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_left_alone() {
        assert_eq!(shorten(&"x".repeat(CONTENT_BYTES_MAX)), None);
    }

    #[test]
    fn both_ends_are_kept_and_the_middle_is_named() {
        let content: String =
            (0..20_000).fold(String::new(), |text, at| text + &format!("line {at} 🦋\n"));
        let long = shorten(&content).expect("too long");
        assert_eq!(long.whole, content);
        let told = long.told(Some("b10b"));
        assert!(told.len() < CONTENT_BYTES_MAX);
        assert!(told.starts_with("line 0 🦋\n"));
        assert!(told.ends_with("line 19999 🦋\n"));
        let offset = long.head.len();
        assert!(told.contains(&format!("blob b10b, offset {offset}]")));
        assert!(!long.told(None).contains("blob"));
    }

    #[test]
    fn what_no_blob_holds_is_said() {
        let content = "y".repeat(BLOB_BYTES_MAX + 1);
        let long = shorten(&content).expect("too long");
        assert_eq!(long.whole.len(), BLOB_BYTES_MAX);
        assert!(
            long.told(Some("b"))
                .contains(&format!("the first {BLOB_BYTES_MAX} bytes"))
        );
    }
}
