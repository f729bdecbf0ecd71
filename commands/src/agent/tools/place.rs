//! Where a path leads, as far as its words say it. What a link leads to is known only to who opens it.

use super::text::Word;

/// Places from the harmless to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// `/dev/null` and the like.
    Nowhere,
    /// `/workspace`, and what is for the moment in `/tmp`.
    Workspace,
    Outside,
    Device,
}

const WORKSPACE: &str = "/workspace";

/// Returns where a word leads that may be a path or an option with one. A relative path begins in the
/// workspace, unless somebody left it before.
pub(super) fn of(word: &Word, left: bool) -> Place {
    let text = word.text.as_str();
    if text.contains(['$', '{', '`']) && word.expanded {
        return Place::Outside;
    }
    let Some(option) = text.strip_prefix('-') else {
        // `of=…`, `user@host:…`: the part behind may be a path.
        let later = text
            .rsplit_once(['=', ':'])
            .map_or(Place::Nowhere, |(_, rest)| path(rest, left));
        return path(text, left).max(later);
    };
    if option.is_empty() {
        return Place::Nowhere;
    }
    if let Some((_, value)) = option.split_once('=') {
        return path(value, left);
    }
    // `-C/etc`.
    match option.find(['/', '~', '.']) {
        Some(at) => path(&option[at..], left),
        None => Place::Nowhere,
    }
}

/// Returns where a path leads.
pub(super) fn path(path: &str, left: bool) -> Place {
    if path.starts_with('~') {
        return Place::Outside;
    }
    let is_absolute = path.starts_with('/');
    if !is_absolute && left {
        return Place::Outside;
    }
    let mut parts: Vec<&str> = Vec::new();
    let whole = if is_absolute {
        path.to_owned()
    } else {
        format!("{WORKSPACE}/{path}")
    };
    for part in whole.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    match parts.as_slice() {
        [
            "dev",
            "null" | "stdout" | "stderr" | "stdin" | "tty" | "zero" | "fd",
            ..,
        ] => Place::Nowhere,
        ["dev", ..] => Place::Device,
        ["workspace" | "tmp", ..] => Place::Workspace,
        _ => Place::Outside,
    }
}
