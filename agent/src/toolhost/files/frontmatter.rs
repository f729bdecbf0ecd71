//! The head of a skill: `name` and `description` between two lines `---`.
//!
//! It is YAML, of which skills use one shape: keys with texts. That much is read here (plain, quoted,
//! folded and literal texts); other keys may hold what they like and are skipped.

/// What a skill says of itself.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frontmatter {
    pub(super) name: String,
    pub(super) description: String,
}

/// Of a name: it is an argument and a part of the list of skills.
const NAME_CHARS_MAX: usize = 64;
/// Of a description.
const DESCRIPTION_CHARS_MAX: usize = 1_024;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Problem {
    #[error("it does not begin with frontmatter between two lines `---`")]
    None,
    #[error("its frontmatter has no `{0}`")]
    Missing(&'static str),
    #[error("its name is not usable: letters, digits, `-`, `_` and `.`, at most {NAME_CHARS_MAX}")]
    Name,
}

pub(super) fn read(text: &str) -> Result<Frontmatter, Problem> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text.lines();
    if lines.next().map(str::trim_end) != Some("---") {
        return Err(Problem::None);
    }
    let mut head = Vec::new();
    loop {
        match lines.next().map(str::trim_end) {
            Some("---" | "...") => break,
            Some(line) => head.push(line),
            None => return Err(Problem::None),
        }
    }
    let name = value(&head, "name").ok_or(Problem::Missing("name"))?;
    let allowed = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.chars().count() > NAME_CHARS_MAX || !name.chars().all(allowed) {
        return Err(Problem::Name);
    }
    let description = value(&head, "description").ok_or(Problem::Missing("description"))?;
    // One line of a list, whatever it was.
    let words: Vec<_> = description.split_whitespace().collect();
    let description = words
        .join(" ")
        .chars()
        .take(DESCRIPTION_CHARS_MAX)
        .collect();
    Ok(Frontmatter { name, description })
}

/// Returns the text of a top-level key; `None` if it is not there or empty.
fn value(head: &[&str], key: &str) -> Option<String> {
    let of_key = |line: &&str| {
        let rest = line.strip_prefix(key)?.trim_start().strip_prefix(':')?;
        (rest.is_empty() || rest.starts_with([' ', '\t'])).then(|| rest.trim().to_owned())
    };
    let (at, first) = head
        .iter()
        .enumerate()
        .find_map(|(at, line)| Some((at, of_key(line)?)))?;
    // What is indented beneath belongs to it.
    let more: Vec<_> = head[at + 1..]
        .iter()
        .take_while(|line| line.is_empty() || line.starts_with([' ', '\t']))
        .map(|line| line.trim())
        .collect();
    let is_block = first.starts_with(['|', '>']);
    let text = if is_block {
        more.join("\n").trim().to_owned()
    } else {
        let whole = std::iter::once(first.as_str())
            .chain(more)
            .collect::<Vec<_>>();
        unquoted(whole.join(" ").trim())
    };
    (!text.is_empty()).then_some(text)
}

fn unquoted(text: &str) -> String {
    let inside = |quote: char| {
        let rest = text.strip_prefix(quote)?;
        Some(rest.rfind(quote).map_or(rest, |end| &rest[..end]))
    };
    if let Some(inner) = inside('\'') {
        return inner.replace("''", "'");
    }
    if let Some(inner) = inside('"') {
        return inner
            .replace("\\\"", "\"")
            .replace("\\n", "\n")
            .replace("\\\\", "\\");
    }
    match text.split_once(" #") {
        Some((before, _)) => before.trim_end().to_owned(),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(head: &str) -> Result<(String, String), Problem> {
        let read = read(&format!("---\n{head}\n---\nbody"))?;
        Ok((read.name, read.description))
    }

    #[test]
    fn texts_are_read_in_all_their_forms() {
        for head in [
            "name: pdf\ndescription: Reads: pages",
            "description: 'Reads: pages'\nlicense: MIT\nname: \"pdf\"",
            "name: pdf # short\ndescription: >-\n  Reads:\n  pages\nmetadata:\n  name: other",
            "name: pdf\ndescription: |\n  Reads:\n  pages",
            "name: pdf\r\ndescription: Reads:\r\n  pages",
            "metadata:\n  description: no\nname: pdf\ndescription: \"Reads:\n  pages\"",
        ] {
            let expected = ("pdf".to_owned(), "Reads: pages".to_owned());
            assert_eq!(found(head), Ok(expected), "{head}");
        }
    }

    #[test]
    fn what_is_missing_is_said() {
        assert_eq!(read("# a skill"), Err(Problem::None));
        assert_eq!(read("---\nname: a\ndescription: b"), Err(Problem::None));
        assert_eq!(found("name: a"), Err(Problem::Missing("description")));
        assert_eq!(
            found("name:\ndescription: b"),
            Err(Problem::Missing("name"))
        );
        assert_eq!(found("name: a/b\ndescription: c"), Err(Problem::Name));
    }
}
