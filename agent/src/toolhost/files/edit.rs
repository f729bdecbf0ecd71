//! `edit`: exact replacements. Whatever is not replaced stays as it was: encoding, byte order mark, line
//! endings.

use std::{borrow::Cow, io::Read};

use cocoonbox_proto::toolhost::v1::{EditRequest, Replacement};

use super::{
    Files, Refusal, nearest,
    path::Place,
    save::{CONTENT_BYTES_MAX, replace},
    text::Text,
};

/// Line numbers listed for an ambiguous text.
const LINES_LISTED_MAX: usize = 10;

pub(crate) fn edit(files: &Files, request: &EditRequest) -> Result<String, Refusal> {
    let one;
    let edits = if request.edits.is_empty() {
        one = [Replacement {
            old: request.old.clone(),
            new: request.new.clone(),
            replace_all: request.replace_all,
        }];
        &one[..]
    } else {
        &request.edits
    };
    for edit in edits {
        if edit.old.is_empty() {
            return Err(Refusal::OldEmpty);
        }
        if edit.old == edit.new {
            return Err(Refusal::SameText);
        }
    }
    let place = files.roots.place(&request.path)?;
    let raw = load(&place)?;
    files.seen.check(&request.reader, &place, &raw)?;
    let text = Text::of(&raw).ok_or_else(|| Refusal::Binary {
        path: place.shown.clone(),
        bytes: raw.len() as u64,
    })?;
    let (edited, said) = apply_all(&place, text.bytes.clone(), edits)?;
    let edited = text
        .encode(edited)
        .map_err(|character| Refusal::NotInEncoding {
            path: place.shown.clone(),
            encoding: text.encoding(),
            character,
        })?;
    replace(&place, &edited)?;
    files.seen.note(&request.reader, &place, &edited);
    Ok(said)
}

/// Reads a file that is small enough to be changed.
pub(super) fn load(place: &Place) -> Result<Vec<u8>, Refusal> {
    let (file, stat) = place.open_file()?;
    let bytes = u64::try_from(stat.st_size).unwrap_or_default();
    if bytes > CONTENT_BYTES_MAX {
        let path = place.shown.clone();
        return Err(Refusal::TooLarge {
            path,
            bytes,
            max: CONTENT_BYTES_MAX,
        });
    }
    let mut content = Vec::new();
    file.take(CONTENT_BYTES_MAX + 1)
        .read_to_end(&mut content)
        .map_err(|why| Refusal::System {
            path: place.shown.clone(),
            why,
        })?;
    Ok(content)
}

fn apply_all(
    place: &Place,
    mut content: Vec<u8>,
    edits: &[Replacement],
) -> Result<(Vec<u8>, String), Refusal> {
    let mut places = 0;
    let mut lines = Vec::new();
    for (at, edit) in edits.iter().enumerate() {
        let done = apply(place, &content, edit).map_err(|refusal| match edits.len() {
            1 => refusal,
            total => Refusal::OneOf {
                number: at + 1,
                total,
                refusal: Box::new(refusal),
            },
        })?;
        places += done.places;
        lines.push(done.line);
        content = done.content;
    }
    let shown = &place.shown;
    let said = match (edits.len(), places) {
        (1, 1) => format!("edited `{shown}` at line {}", lines[0]),
        (1, _) => format!(
            "edited `{shown}` in {places} places, the first at line {}",
            lines[0]
        ),
        (total, _) => {
            let lines: Vec<_> = lines.iter().map(ToString::to_string).collect();
            let lines = lines.join(", ");
            format!("made {total} edits in `{shown}`, {places} places in all, at lines {lines}")
        }
    };
    Ok((content, said))
}

struct Done {
    content: Vec<u8>,
    places: usize,
    line: usize,
}

fn apply(place: &Place, content: &[u8], edit: &Replacement) -> Result<Done, Refusal> {
    let (old, new) = fit(content, &edit.old, &edit.new);
    let found = occurrences(content, old.as_bytes());
    let Some(first) = found.first() else {
        return Err(Refusal::OldAbsent {
            path: place.shown.clone(),
            near: nearest::describe(&String::from_utf8_lossy(content), &edit.old),
        });
    };
    if found.len() > 1 && !edit.replace_all {
        let lines: Vec<_> = found
            .iter()
            .take(LINES_LISTED_MAX)
            .map(|at| line_of(content, *at).to_string())
            .collect();
        let more = if found.len() > LINES_LISTED_MAX {
            ", …"
        } else {
            ""
        };
        return Err(Refusal::Ambiguous {
            path: place.shown.clone(),
            count: found.len(),
            lines: lines.join(", ") + more,
        });
    }
    Ok(Done {
        content: splice(content, &found, old.len(), new.as_bytes()),
        places: found.len(),
        line: line_of(content, *first),
    })
}

/// A model writes `\n`. In a file whose lines end in `\r\n` its text is meant with those, and the other
/// way round.
fn fit<'a>(content: &[u8], old: &'a str, new: &'a str) -> (Cow<'a, str>, Cow<'a, str>) {
    let exact = !occurrences(content, old.as_bytes()).is_empty();
    let has_lines = old.contains('\n');
    if !exact && has_lines {
        let other = if old.contains("\r\n") {
            to_unix(old)
        } else {
            to_windows(old)
        };
        if !occurrences(content, other.as_bytes()).is_empty() {
            let new = if other.contains("\r\n") {
                to_windows(new)
            } else {
                to_unix(new)
            };
            return (other.into(), new.into());
        }
    }
    let windows = if exact && has_lines {
        old.contains("\r\n")
    } else {
        is_windows(content)
    };
    if windows && !new.contains('\r') {
        return (old.into(), to_windows(new).into());
    }
    (old.into(), new.into())
}

/// Whether most lines end in `\r\n`.
fn is_windows(content: &[u8]) -> bool {
    let pairs = content.windows(2).filter(|pair| *pair == b"\r\n").count();
    let ends = content.split(|byte| *byte == b'\n').count() - 1;
    pairs * 2 > ends
}

fn to_unix(text: &str) -> String {
    text.replace("\r\n", "\n")
}

fn to_windows(text: &str) -> String {
    to_unix(text).replace('\n', "\r\n")
}

fn occurrences(content: &[u8], old: &[u8]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut at = 0;
    let finder = |from: usize| {
        let rest = content.get(from..)?;
        let first = *old.first()?;
        let mut start = 0;
        loop {
            start += rest.get(start..)?.iter().position(|b| *b == first)?;
            if rest.get(start..)?.starts_with(old) {
                return Some(from + start);
            }
            start += 1;
        }
    };
    while let Some(next) = finder(at) {
        found.push(next);
        at = next + old.len();
    }
    found
}

fn line_of(content: &[u8], at: usize) -> usize {
    content.iter().take(at).filter(|b| **b == b'\n').count() + 1
}

fn splice(content: &[u8], found: &[usize], old_len: usize, new: &[u8]) -> Vec<u8> {
    let mut edited = Vec::with_capacity(content.len());
    let mut at = 0;
    for start in found {
        edited.extend_from_slice(&content[at..*start]);
        edited.extend_from_slice(new);
        at = start + old_len;
    }
    edited.extend_from_slice(&content[at..]);
    edited
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a change of lines amounts to, told without any of the code above.
    fn model(lines: &[String], at: usize, new: &str) -> Vec<String> {
        let mut lines = lines.to_vec();
        lines.splice(at..=at, new.split('\n').map(ToOwned::to_owned));
        lines
    }

    fn file(lines: &[String], ending: &str, form: u8) -> Vec<u8> {
        let text: String = lines.iter().flat_map(|line| [line, ending]).collect();
        let wide = |big: bool| {
            std::iter::once(0xfeff)
                .chain(text.encode_utf16())
                .flat_map(|unit| {
                    if big {
                        unit.to_be_bytes()
                    } else {
                        unit.to_le_bytes()
                    }
                })
                .collect()
        };
        match form {
            0 => text.into_bytes(),
            1 => ["\u{feff}", &text].concat().into_bytes(),
            2 => wide(false),
            _ => wide(true),
        }
    }

    proptest! {
        /// Whatever the endings, the encoding and the mark: the wanted lines change, no other byte does.
        #[test]
        fn changes_the_lines_and_nothing_else(
            before in proptest::collection::vec("[a-z\u{e9}\u{4e2d}\u{1f98b} ]{0,12}", 1..8),
            after in proptest::collection::vec("[a-z ]{0,12}", 0..8),
            new in "[A-Z\u{e9}]{0,6}(\n[A-Z]{0,4}){0,2}",
            windows in any::<bool>(),
            form in 0_u8..4,
        ) {
            let ending = if windows { "\r\n" } else { "\n" };
            let mut lines = before.clone();
            lines.push("\u{2603} the line".to_owned());
            lines.extend(after);
            let raw = file(&lines, ending, form);
            let text = Text::of(&raw).expect("text");
            let edit = Replacement { old: "\u{2603} the line".into(), new: new.clone(), replace_all: false };
            let roots = super::super::Roots::default();
            let place = roots.place("f").expect("a place");
            let (edited, _) = apply_all(&place, text.bytes.clone(), &[edit]).expect("edited");
            let edited = text.encode(edited).expect("every character is there");
            let expected = file(&model(&lines, before.len(), &new), ending, form);
            prop_assert_eq!(edited, expected);
        }

        #[test]
        fn several_edits_are_one_after_the_other_or_none(texts in proptest::collection::vec("[abc]{1,3}", 1..6)) {
            let content = b"abcabcaabbcc".to_vec();
            let edits: Vec<_> = texts
                .windows(2)
                .filter(|pair| pair[0] != pair[1])
                .map(|pair| Replacement { old: pair[0].clone(), new: pair[1].clone(), replace_all: true })
                .collect();
            prop_assume!(!edits.is_empty());
            let mut expected = Some(String::from_utf8(content.clone()).expect("text"));
            for edit in &edits {
                expected = expected
                    .filter(|text| text.contains(&edit.old))
                    .map(|text| text.replace(&edit.old, &edit.new));
            }
            let place = super::super::Roots::default().place("f").expect("a place");
            let done = apply_all(&place, content, &edits).ok().map(|(bytes, _)| bytes);
            prop_assert_eq!(done, expected.map(String::into_bytes));
        }
    }
}
