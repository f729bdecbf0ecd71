//! What a person searches for.

/// A query, and so what is compared with each item, is no longer.
const QUERY_BYTES_MAX: usize = 400;
/// Around what was found, in characters.
const BEFORE: usize = 60;
const AROUND: usize = 240;
const EXCERPT_BYTES_MAX: usize = 320;

/// Words that all have to be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// In lower case, none of them empty.
    words: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadQuery {
    #[error("there is no word to search for")]
    Empty,
    #[error("a query has at most {QUERY_BYTES_MAX} bytes")]
    TooLong,
}

impl Query {
    /// Reads words that are parted by spaces; what is in double quotes is one.
    ///
    /// # Errors
    /// If there is no word in it, or too much.
    pub fn parse(text: &str) -> Result<Self, BadQuery> {
        if text.len() > QUERY_BYTES_MAX {
            return Err(BadQuery::TooLong);
        }
        let mut words = Vec::new();
        for (at, piece) in text.split('"').enumerate() {
            if at % 2 == 1 {
                words.push(piece.to_lowercase());
            } else {
                words.extend(piece.split_whitespace().map(str::to_lowercase));
            }
        }
        words.retain(|word| !word.trim().is_empty());
        if words.is_empty() {
            return Err(BadQuery::Empty);
        }
        Ok(Self { words })
    }

    /// Returns what is around the first of the words, on one line; `None` if one of them is not there.
    pub fn excerpt(&self, text: &str) -> Option<String> {
        let lower = text.to_lowercase();
        let mut first = usize::MAX;
        for word in &self.words {
            first = first.min(lower.find(word.as_str())?);
        }
        // Letters of another length in lower case are rare, and then the excerpt begins a little beside.
        let skipped = lower.get(..first)?.chars().count().saturating_sub(BEFORE);
        let mut excerpt = String::new();
        if skipped > 0 {
            excerpt.push('…');
        }
        let mut was_space = skipped > 0;
        for letter in text.chars().skip(skipped).take(AROUND) {
            if excerpt.len() + letter.len_utf8() > EXCERPT_BYTES_MAX {
                break;
            }
            let is_space = letter.is_whitespace();
            if !(is_space && was_space) {
                excerpt.push(if is_space { ' ' } else { letter });
            }
            was_space = is_space;
        }
        Some(excerpt)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(query: &str, text: &str) -> Option<String> {
        Query::parse(query).unwrap().excerpt(text)
    }

    #[test]
    fn all_words_have_to_be_there_in_any_case_and_order() {
        assert_eq!(
            found("world HELLO", "Hello,\n  big World"),
            Some("Hello, big World".into())
        );
        assert_eq!(found("hello moon", "hello world"), None);
        assert_eq!(
            found("\"big world\"", "a big World"),
            Some("a big World".into())
        );
        assert_eq!(found("\"world big\"", "a big world"), None);
        assert_eq!(found("ÉTÉ", "l'été"), Some("l'été".into()));
        assert_eq!(found("名前", "私の名前"), Some("私の名前".into()));
    }

    #[test]
    fn nothing_and_too_much_are_refused() {
        for none in ["", "  ", "\"\"", "\" \""] {
            assert_eq!(Query::parse(none), Err(BadQuery::Empty), "{none:?}");
        }
        assert_eq!(Query::parse(&"x".repeat(401)), Err(BadQuery::TooLong));
    }

    #[test]
    fn an_excerpt_is_around_what_was_found() {
        let text = format!("{} needle {}", "a ".repeat(500), "b ".repeat(500));
        let excerpt = found("needle", &text).unwrap();
        assert!(excerpt.starts_with("…a a"), "{excerpt}");
        assert!(excerpt.contains(" needle b"), "{excerpt}");
        assert!(excerpt.len() <= EXCERPT_BYTES_MAX);
    }

    proptest! {
        #[test]
        fn any_text_has_a_short_excerpt_or_none(query in ".{1,20}", text in ".{0,600}") {
            let Ok(query) = Query::parse(&query) else { return Ok(()) };
            if let Some(excerpt) = query.excerpt(&text) {
                prop_assert!(excerpt.len() <= EXCERPT_BYTES_MAX && !excerpt.contains('\n'));
            }
        }
    }
}
