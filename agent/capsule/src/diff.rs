//! What is different between two snapshots. Folders that are alike are not read.

use crate::{
    cursor::Cursor,
    entry::{Entry, FileNode, Node},
    error::Error,
    id::ChunkId,
    reader::Reader,
    snapshot::Snapshot,
};

/// How a path differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Added,
    Removed,
    /// Other bytes, or another target.
    Content,
    /// A file where a folder was, and the like.
    Kind,
    /// Only mode, owner, times, attributes or links.
    Meta,
}

/// A path that differs.
#[derive(Debug)]
pub struct Difference<'d> {
    pub path: &'d [u8],
    pub change: Change,
    pub before: Option<&'d Entry>,
    pub after: Option<&'d Entry>,
}

type Side = Option<ChunkId>;

/// Tells `say` every path that differs, in order within each folder.
pub fn diff(
    reader: &Reader<'_>,
    before: &Snapshot,
    after: &Snapshot,
    say: &mut dyn FnMut(&Difference<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut paths: Vec<&[u8]> = [before, after]
        .iter()
        .flat_map(|snapshot| snapshot.roots.iter().map(|root| &root.path[..]))
        .collect();
    paths.sort_unstable();
    paths.dedup();
    for path in paths {
        let entry = |snapshot: &Snapshot| {
            let root = snapshot.roots.iter().find(|root| root.path == path)?;
            Some(root.entry.clone())
        };
        let mut folders = Vec::new();
        compare(path, entry(before), entry(after), &mut folders, say)?;
        while let Some((path, old, new)) = folders.pop() {
            folder(reader, &path, old, new, &mut folders, say)?;
        }
    }
    Ok(())
}

fn folder(
    reader: &Reader<'_>,
    path: &[u8],
    old: Side,
    new: Side,
    folders: &mut Vec<(Vec<u8>, Side, Side)>,
    say: &mut dyn FnMut(&Difference<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut old = old.map(|tree| Cursor::new(reader, tree));
    let mut new = new.map(|tree| Cursor::new(reader, tree));
    let mut below = Vec::new();
    loop {
        let left = peek(&mut old)?;
        let right = peek(&mut new)?;
        let Some(name) = [&left, &right].into_iter().flatten().min().cloned() else {
            break;
        };
        let before = take(&mut old, left.as_ref() == Some(&name))?;
        let after = take(&mut new, right.as_ref() == Some(&name))?;
        let mut full = path.to_vec();
        if full != b"/" {
            full.push(b'/');
        }
        full.extend_from_slice(&name);
        compare(&full, before, after, &mut below, say)?;
    }
    folders.extend(below.into_iter().rev());
    Ok(())
}

fn peek(cursor: &mut Option<Cursor<'_, '_>>) -> Result<Option<Vec<u8>>, Error> {
    match cursor {
        Some(cursor) => Ok(cursor.peek()?.map(|entry| entry.name.clone())),
        None => Ok(None),
    }
}

fn take(cursor: &mut Option<Cursor<'_, '_>>, is_wanted: bool) -> Result<Option<Entry>, Error> {
    match cursor {
        Some(cursor) if is_wanted => cursor.next_entry(),
        _ => Ok(None),
    }
}

fn compare(
    path: &[u8],
    before: Option<Entry>,
    after: Option<Entry>,
    folders: &mut Vec<(Vec<u8>, Side, Side)>,
    say: &mut dyn FnMut(&Difference<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let change = match (&before, &after) {
        (None, None) => None,
        (None, Some(_)) => Some(Change::Added),
        (Some(_), None) => Some(Change::Removed),
        (Some(before), Some(after)) => change(before, after),
    };
    if let Some(change) = change {
        say(&Difference {
            path,
            change,
            before: before.as_ref(),
            after: after.as_ref(),
        })?;
    }
    let (old, new) = (tree(before.as_ref()), tree(after.as_ref()));
    if old != new {
        folders.push((path.to_vec(), old, new));
    }
    Ok(())
}

pub(crate) fn change(before: &Entry, after: &Entry) -> Option<Change> {
    let node = match (&before.node, &after.node) {
        (Node::File(before), Node::File(after)) => file(before, after),
        (Node::Directory { .. }, Node::Directory { .. }) => None,
        (Node::Symlink { target: before }, Node::Symlink { target: after }) => {
            (before != after).then_some(Change::Content)
        }
        _ => Some(Change::Kind),
    };
    node.or((before.meta != after.meta).then_some(Change::Meta))
}

fn file(before: &FileNode, after: &FileNode) -> Option<Change> {
    if before.content != after.content {
        Some(Change::Content)
    } else if before.link != after.link {
        Some(Change::Meta)
    } else {
        None
    }
}

fn tree(entry: Option<&Entry>) -> Side {
    match entry?.node {
        Node::Directory { tree, .. } => Some(tree),
        _ => None,
    }
}
