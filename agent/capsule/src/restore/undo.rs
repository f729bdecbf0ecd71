//! Taking a restore in place back.
//!
//! ```text
//!  in what was restored   before it     then
//!  yes                    no            it is removed, if it is as it was restored
//!  yes                    the same      it is left alone
//!  yes                    another       what was before comes back; today's is kept if it was changed since
//!  no                     any           it is left alone: the restore did not touch it
//! ```

use std::{
    os::fd::{AsFd as _, OwnedFd},
    sync::Arc,
};

use rustix::{
    fs::{self, AtFlags},
    io::Errno,
};

use crate::{
    cursor::Cursor,
    diff,
    entry::{Entry, Node},
    error::Error,
    reader::Reader,
    snapshot::{Lines, Snapshot},
};

use super::{
    Hand, Options, Restored, Shared, Tally, describe, fill,
    folder::Folder,
    gone::{Gone, open_folder},
    is_local, kept_name, outermost, step,
};

/// What an undo did.
#[derive(Clone, Debug, Default)]
pub struct Undone {
    /// What came back; what was changed since and stood in its way is kept.
    pub restored: Restored,
    /// Files and links that the restore had added and that are gone.
    pub removed: u64,
    /// What the restore had added and was changed since: it stays.
    pub stayed: Lines,
}

/// A folder that both snapshots have.
struct Level<'s, 'r, 'a> {
    old: Cursor<'r, 'a>,
    new: Cursor<'r, 'a>,
    folder: Arc<Folder<'s, 'r, 'a>>,
}

/// Takes a restore of `options.paths` of `restored` back; `before` was saved before it. Repeating it, or going on with
/// one that was cut off, leads to the same.
pub fn undo<'o>(
    reader: &'o Reader<'_>,
    restored: &Snapshot,
    before: &Snapshot,
    options: Options<'o>,
) -> Result<Undone, Error> {
    let mut pairs = Vec::new();
    for path in outermost(options.paths.clone()) {
        let new = reader.lookup(restored, &path)?;
        let old = found(reader.lookup(before, &path))?;
        pairs.push((path, old, new));
    }
    let (shared, progress) = Shared::new(reader, kept_name(before), options)?;
    let mut removed = 0;
    shared.write(|hand| {
        for (path, old, new) in &pairs {
            removed += match old {
                Some(old) => {
                    let (old, new) = (old.clone(), new.clone());
                    pair(&shared, path, old, new, &mut *progress, &mut *hand)?
                }
                None => added(&shared, path, new, before)?,
            };
        }
        Ok(())
    })?;
    let kept = kept_name(restored);
    for (path, old, _) in &pairs {
        if let Some(old) = old {
            tidy(&shared, kept.as_bytes(), path, old)?;
        }
    }
    let stayed = std::mem::take(&mut shared.done().stayed);
    let restored = shared.into_done();
    progress(&restored.tally);
    Ok(Undone {
        restored,
        removed,
        stayed,
    })
}

fn found(looked: Result<Entry, Error>) -> Result<Option<Entry>, Error> {
    match looked {
        Ok(entry) => Ok(Some(entry)),
        Err(Error::PathNotFound { .. } | Error::WrongKind { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Brings back what was at a path and below it. How many files are gone.
fn pair<'s, 'r, 'a>(
    shared: &'s Shared<'r, 'a>,
    path: &[u8],
    mut old: Entry,
    mut new: Entry,
    progress: &mut dyn FnMut(&Tally),
    hand: &mut Hand<'_, 's, 'r, 'a>,
) -> Result<u64, Error> {
    let (parts, last) = shared.parts(path);
    let mut folder = Folder::base(shared);
    for part in parts {
        folder = match Folder::passage(shared, &folder, part) {
            Ok(folder) => folder,
            Err(error) => {
                shared.problem(path, error.to_string());
                return Ok(0);
            }
        };
    }
    let mut gone = Gone::aloud(shared);
    let mut stack = Vec::new();
    match last {
        Some(name) => {
            name.clone_into(&mut old.name);
            name.clone_into(&mut new.name);
            one(
                shared,
                &folder,
                (Some(old), new),
                &mut stack,
                &mut gone,
                progress,
                hand,
            )?;
        }
        None => stack.extend(level(shared, &old, &new, folder)),
    }
    while let Some(last) = stack.last_mut() {
        shared.check_wanted()?;
        let next = match last.new.next_entry() {
            Ok(Some(new)) => last.old.seek(&new.name).map(|old| Some((old, new))),
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        match next {
            Ok(Some(pair)) => {
                let folder = last.folder.clone();
                one(shared, &folder, pair, &mut stack, &mut gone, progress, hand)?;
            }
            Ok(None) => drop(stack.pop()),
            Err(error) if is_local(&error) => {
                shared.problem(&last.folder.path, describe(&error));
                drop(stack.pop());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(gone.count)
}

fn level<'s, 'r, 'a>(
    shared: &'s Shared<'r, 'a>,
    old: &Entry,
    new: &Entry,
    folder: Arc<Folder<'s, 'r, 'a>>,
) -> Option<Level<'s, 'r, 'a>> {
    let (Node::Directory { tree: old, .. }, Node::Directory { tree: new, .. }) =
        (&old.node, &new.node)
    else {
        return None;
    };
    (old != new).then(|| Level {
        old: Cursor::new(shared.reader, *old),
        new: Cursor::new(shared.reader, *new),
        folder,
    })
}

/// One name that the restore wrote.
fn one<'s, 'r, 'a>(
    shared: &'s Shared<'r, 'a>,
    folder: &Arc<Folder<'s, 'r, 'a>>,
    (old, new): (Option<Entry>, Entry),
    stack: &mut Vec<Level<'s, 'r, 'a>>,
    gone: &mut Gone<'s, 'r, 'a>,
    progress: &mut dyn FnMut(&Tally),
    hand: &mut Hand<'_, 's, 'r, 'a>,
) -> Result<(), Error> {
    let path = folder.below(&new.name);
    let Some(old) = old else {
        if let Err(problem) = gone.take(folder.descriptor(), &new.name, &new, &path) {
            shared.problem(&path, problem.to_string());
        }
        return Ok(());
    };
    let are_folders = |one: &Entry, other: &Entry| {
        let is_folder = |entry: &Entry| matches!(entry.node, Node::Directory { .. });
        is_folder(one) && is_folder(other)
    };
    if are_folders(&old, &new) {
        if old == new {
            return Ok(());
        }
        match Folder::make(shared, folder, &old, None) {
            Ok(made) => stack.extend(level(shared, &old, &new, made)),
            Err(problem) => shared.problem(&path, problem.to_string()),
        }
        return Ok(());
    }
    // An undo that was cut off has brought it back already; names of one file are made together.
    let is_linked = matches!(&old.node, Node::File(file) if file.link.is_some());
    let is_back = || !is_linked && gone.is_there(folder.descriptor(), &old.name, &old);
    if diff::change(&old, &new).is_none() || is_back() {
        return Ok(());
    }
    let mut below = Vec::new();
    step(shared, folder, old, Some(new), &mut below, hand)?;
    fill(shared, below, progress, hand)
}

/// Takes away what was not there before, and the folders that were made on the way to it.
fn added(
    shared: &Shared<'_, '_>,
    path: &[u8],
    new: &Entry,
    before: &Snapshot,
) -> Result<u64, Error> {
    let (parts, Some(name)) = shared.parts(path) else {
        return Ok(0);
    };
    let mut way: Vec<OwnedFd> = Vec::new();
    for part in &parts {
        let above = way
            .last()
            .map_or(super::base(shared), |above| above.as_fd());
        match open_folder(above, part) {
            Ok(folder) => way.push(folder),
            Err(Errno::NOENT) => return Ok(0),
            Err(errno) => {
                shared.problem(path, errno.to_string());
                return Ok(0);
            }
        }
    }
    let mut gone = Gone::aloud(shared);
    let own = path.strip_prefix(&shared.strip[..]).unwrap_or(path);
    let at = way.last().map_or(super::base(shared), |at| at.as_fd());
    if let Err(problem) = gone.take(at, name, new, own) {
        shared.problem(path, problem.to_string());
    }
    let mut above = path;
    for part in parts.iter().rev() {
        let Some(slash) = above.iter().rposition(|byte| *byte == b'/') else {
            break;
        };
        above = &above[..slash];
        way.pop();
        let at = way.last().map_or(super::base(shared), |at| at.as_fd());
        let is_new = found(shared.reader.lookup(before, above))?.is_none();
        if !is_new || fs::unlinkat(at, *part, AtFlags::REMOVEDIR).is_err() {
            break;
        }
    }
    Ok(gone.count)
}

/// Removes what the restore had moved aside, as far as it is what has come back.
fn tidy(shared: &Shared<'_, '_>, kept: &[u8], path: &[u8], old: &Entry) -> Result<(), Error> {
    let (parts, last) = shared.parts(path);
    let names = [kept].into_iter().chain(parts);
    let mut way: Vec<(OwnedFd, &[u8])> = Vec::new();
    for name in names {
        let above = way
            .last()
            .map_or(super::base(shared), |(above, _)| above.as_fd());
        match open_folder(above, name) {
            Ok(folder) => way.push((folder, name)),
            // Nothing of it was in the way.
            Err(_) => return Ok(()),
        }
    }
    let mut gone = Gone::quietly(shared);
    let at = way.last().map_or(super::base(shared), |(at, _)| at.as_fd());
    match (last, &old.node) {
        (Some(name), _) => drop(gone.take(at, name, old, path)),
        // The root: what was in it.
        (None, Node::Directory { tree, .. }) => {
            let mut entries = Cursor::new(shared.reader, *tree);
            while let Some(entry) = entries.next_entry()? {
                drop(gone.take(at, &entry.name, &entry, path));
            }
        }
        (None, _) => {}
    }
    while let Some((_, name)) = way.pop() {
        let above = way
            .last()
            .map_or(super::base(shared), |(above, _)| above.as_fd());
        if fs::unlinkat(above, name, AtFlags::REMOVEDIR).is_err() {
            break;
        }
    }
    Ok(())
}
