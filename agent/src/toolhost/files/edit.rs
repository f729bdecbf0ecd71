//! `edit`: an exact replacement, byte for byte. Whatever is not replaced stays as it was: encoding,
//! byte order mark, line endings.

use std::{borrow::Cow, io::Read};

use cocoonbox_proto::toolhost::v1::EditRequest;

use super::{
    Refusal, Roots,
    save::{CONTENT_BYTES_MAX, replace},
};

/// Line numbers listed for an ambiguous text.
const LINES_LISTED_MAX: usize = 10;

pub(crate) fn edit(roots: &Roots, request: &EditRequest) -> Result<String, Refusal> {
    if request.old.is_empty() {
        return Err(Refusal::OldEmpty);
    }
    if request.old == request.new {
        return Err(Refusal::SameText);
    }
    let place = roots.place(&request.path)?;
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
    let (old, new) = fit(&content, &request.old, &request.new);
    let found = occurrences(&content, old.as_bytes());
    let Some(first) = found.first() else {
        return Err(Refusal::OldAbsent {
            path: place.shown.clone(),
        });
    };
    if found.len() > 1 && !request.replace_all {
        let lines: Vec<_> = found
            .iter()
            .take(LINES_LISTED_MAX)
            .map(|at| line_of(&content, *at).to_string())
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
    let line = line_of(&content, *first);
    let edited = splice(&content, &found, old.len(), new.as_bytes());
    replace(&place, &edited)?;
    Ok(if found.len() == 1 {
        format!("edited `{}` at line {line}", place.shown)
    } else {
        format!(
            "edited `{}` in {} places, the first at line {line}",
            place.shown,
            found.len()
        )
    })
}

/// A model writes `\n`. In a file with `\r\n` its text is meant with those.
fn fit<'a>(content: &[u8], old: &'a str, new: &'a str) -> (Cow<'a, str>, Cow<'a, str>) {
    let windows = content.windows(2).any(|pair| pair == b"\r\n");
    if windows && !old.contains('\r') && occurrences(content, old.as_bytes()).is_empty() {
        return (old.replace('\n', "\r\n").into(), to_windows(new).into());
    }
    if windows && old.contains("\r\n") && !new.contains('\r') {
        return (old.into(), to_windows(new).into());
    }
    (old.into(), new.into())
}

fn to_windows(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\n', "\r\n")
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
