//! Entries as callers see them.

use cocoonbox_capsule::{
    diff::{Change, Difference},
    entry::{Entry, Node},
    snapshot::Lines,
};
use cocoonbox_proto::control::v1::{self as control, FileEntry, PathNote, file_entry};

/// Lines of a kind that are shown; the record has a thousand.
const NOTES_MAX: usize = 100;

pub(super) fn entry(entry: Entry) -> FileEntry {
    let mut shown = FileEntry {
        mtime_ns: entry.meta.mtime.nanoseconds(),
        mode: entry.meta.mode.into(),
        uid: entry.meta.uid,
        gid: entry.meta.gid,
        name: entry.name,
        ..FileEntry::default()
    };
    match entry.node {
        Node::File(file) => {
            shown.kind = file_entry::Kind::File.into();
            shown.size = file.size;
            shown.unsettled = file.is_unsettled;
        }
        Node::Directory { files, bytes, .. } => {
            shown.kind = file_entry::Kind::Folder.into();
            shown.files = files;
            shown.bytes = bytes;
        }
        Node::Symlink { target } => {
            shown.kind = file_entry::Kind::Symlink.into();
            shown.size = target.len() as u64;
            shown.target = target;
        }
    }
    shown
}

pub(super) fn difference(of: &Difference<'_>) -> control::Difference {
    use control::difference::Change as Shown;
    let bytes = |entry: Option<&Entry>| match entry.map(|entry| &entry.node) {
        Some(Node::File(file)) => file.size,
        Some(Node::Directory { bytes, .. }) => *bytes,
        _ => 0,
    };
    let change = match of.change {
        Change::Added => Shown::Added,
        Change::Removed => Shown::Removed,
        Change::Content => Shown::Content,
        Change::Kind => Shown::Kind,
        Change::Meta => Shown::Meta,
    };
    control::Difference {
        path: of.path.to_vec(),
        change: change.into(),
        bytes_before: bytes(of.before),
        bytes_after: bytes(of.after),
    }
}

pub(super) fn notes(lines: &Lines) -> Vec<PathNote> {
    let first = lines.list.iter().take(NOTES_MAX);
    first
        .map(|line| PathNote {
            path: line.path.clone(),
            why: line.why.clone(),
        })
        .collect()
}
