//! Walking folders, depth first, by names in order, with nothing but descriptors: a path that changes
//! under the walk leads nowhere else.

mod entry;
mod level;

use std::{collections::HashMap, os::fd::OwnedFd};

use rustix::fs::{FileType, OFlags, fstat, fstatfs};

use crate::{
    cache::{self, Seen},
    cursor::Cursor,
    entry::{Entry, FileNode, Node},
    error::Error,
    snapshot::{Counts, Lines},
};

use super::{
    exclude::{self, Rules},
    file::FileSaver,
    meta,
    reuse::Parent,
    sink::Sink,
};

use level::Level;

/// How many entries go by between two words of progress.
const PROGRESS_EVERY: u64 = 256;
/// Folders on the way down keep their descriptors, but only so many; others are opened again from below.
const OPEN_MAX: usize = 200;

/// What a walk found.
pub(super) struct Walked {
    pub(super) counts: Counts,
    pub(super) excluded: Lines,
    pub(super) skipped: Lines,
    pub(super) unsettled: Lines,
    pub(super) seen: Vec<Seen>,
    pub(super) added: u64,
}

/// A file with several names, as it was kept under the first.
struct Linked {
    node: FileNode,
    entry: Entry,
    ctime_ns: i64,
}

/// One walk over all roots.
pub(super) struct Walk<'w, 'a> {
    parent: Option<&'w Parent<'a>>,
    started_ns: i64,
    has_default_excludes: bool,
    sink: Sink<'w>,
    progress: &'w mut dyn FnMut(&Counts),
    files: FileSaver,
    linked: HashMap<(u64, u64), Linked>,
    counts: Counts,
    excluded: Lines,
    skipped: Lines,
    unsettled: Lines,
    seen: Vec<Seen>,
    steps: u64,
    /// The path under way, absolute.
    path: Vec<u8>,
    /// How much of it is the root, with a slash behind.
    root_length: usize,
    device: u64,
    /// As `statfs(2)` names its kind; 0: unknown.
    file_system: u64,
}

impl<'w, 'a> Walk<'w, 'a> {
    pub(super) fn new(
        parent: Option<&'w Parent<'a>>,
        started_ns: i64,
        has_default_excludes: bool,
        sink: Sink<'w>,
        progress: &'w mut dyn FnMut(&Counts),
    ) -> Self {
        Self {
            parent,
            started_ns,
            has_default_excludes,
            sink,
            progress,
            files: FileSaver::new(),
            linked: HashMap::new(),
            counts: Counts::default(),
            excluded: Lines::default(),
            skipped: Lines::default(),
            unsettled: Lines::default(),
            seen: Vec::new(),
            steps: 0,
            path: Vec::new(),
            root_length: 0,
            device: 0,
            file_system: 0,
        }
    }

    /// Ends the walk.
    pub(super) fn finish(self) -> Result<Walked, Error> {
        (self.progress)(&self.counts);
        Ok(Walked {
            added: self.sink.finish()?,
            counts: self.counts,
            excluded: self.excluded,
            skipped: self.skipped,
            unsettled: self.unsettled,
            seen: self.seen,
        })
    }

    /// Saves a folder and all below it.
    pub(super) fn root(&mut self, path: &[u8], folder: OwnedFd) -> Result<Entry, Error> {
        path.clone_into(&mut self.path);
        self.root_length = path.len() + usize::from(path != b"/");
        let unusable = |source: std::io::Error| Error::Files {
            path: String::from_utf8_lossy(path).into_owned().into(),
            source,
        };
        let stat = fstat(&folder).map_err(|errno| unusable(errno.into()))?;
        self.device = stat.st_dev;
        self.file_system = fstatfs(&folder)
            .ok()
            .and_then(|facts| u64::try_from(facts.f_type).ok())
            .unwrap_or(0);
        let parent_tree = self.parent.and_then(|parent| {
            let root = parent
                .snapshot
                .roots
                .iter()
                .find(|root| root.path == path)?;
            match root.entry.node {
                Node::Directory { tree, .. } => Some(Cursor::new(parent.reader, tree)),
                _ => None,
            }
        });
        let hash = cache::hash_path(cache::HASH_START, path);
        let first = Level::open(folder, Vec::new(), 0, hash, parent_tree).map_err(unusable)?;
        let mut stack = vec![first];
        self.enter(&mut stack);
        loop {
            let level = stack.last_mut().expect("the root is left by returning");
            let Some(name) = level.names.get(level.next).map(<[u8]>::to_vec) else {
                let done = stack.pop().expect("it was there just now");
                self.counts.directories += 1;
                let entry = self.leave(done, stack.last_mut())?;
                match stack.last_mut() {
                    None => return Ok(entry),
                    Some(above) => above.push(&entry, &mut self.sink)?,
                }
                continue;
            };
            level.next += 1;
            self.path.truncate(self.root_length.max(level.path_length));
            if self.path.last() != Some(&b'/') {
                self.path.push(b'/');
            }
            self.path.extend_from_slice(&name);
            self.step(&name, &mut stack)?;
        }
    }

    /// One name of the innermost folder.
    fn step(&mut self, name: &[u8], stack: &mut Vec<Level<'w, 'a>>) -> Result<(), Error> {
        self.steps += 1;
        if self.steps.is_multiple_of(PROGRESS_EVERY) {
            (self.progress)(&self.counts);
            self.sink.check_wanted()?;
        }
        let level = stack.last_mut().expect("a step is within a folder");
        let stat =
            match rustix::fs::statat(level.folder(), name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                // Removed since its folder was read.
                Err(rustix::io::Errno::NOENT) => return Ok(()),
                Err(errno) => {
                    self.skipped.push(&self.path, errno.to_string());
                    return Ok(());
                }
            };
        let kind = meta::kind(&stat);
        if self.is_excluded(stack, kind == FileType::Directory) {
            return Ok(());
        }
        let level = stack.last_mut().expect("a step is within a folder");
        let entry = match kind {
            FileType::RegularFile => {
                let old = self.old_entry(level, name);
                self.file(level, name, &stat, old)?
            }
            FileType::Symlink => self.symlink(level, name, &stat)?,
            FileType::Directory => {
                self.descend(name, &stat, stack);
                return Ok(());
            }
            other => {
                self.skipped.push(&self.path, special(other));
                None
            }
        };
        if let Some(entry) = entry {
            level.push(&entry, &mut self.sink)?;
        }
        Ok(())
    }

    fn is_excluded(&mut self, stack: &[Level<'w, 'a>], is_directory: bool) -> bool {
        let level = stack.last().expect("a step is within a folder");
        let why = exclude::reason(
            stack.iter().filter_map(|level| level.rules.as_ref()),
            self.has_default_excludes,
            &self.path[self.root_length..],
            is_directory,
            &level.names,
        );
        if let Some(why) = why {
            self.excluded.push(&self.path, why);
            return true;
        }
        false
    }

    /// What the parent has under a name. A parent that cannot be read is one that knows nothing.
    fn old_entry(&mut self, level: &mut Level<'w, 'a>, name: &[u8]) -> Option<Entry> {
        match level.parent.as_mut()?.seek(name) {
            Ok(found) => found,
            Err(error) => {
                level.parent = None;
                let why = format!("was read again, the parent's folder is unreadable: {error}");
                self.skipped.push(&self.path, why);
                None
            }
        }
    }

    fn descend(&mut self, name: &[u8], stat: &rustix::fs::Stat, stack: &mut Vec<Level<'w, 'a>>) {
        if stat.st_dev != self.device {
            self.skipped.push(&self.path, "another file system");
            return;
        }
        let above = stack.last_mut().expect("a step is within a folder");
        let old = self.old_entry(above, name);
        let parent = match (self.parent, old.map(|entry| entry.node)) {
            (Some(parent), Some(Node::Directory { tree, .. })) => {
                Some(Cursor::new(parent.reader, tree))
            }
            _ => None,
        };
        let hash = cache::hash_path(above.path_hash, name);
        let opened = meta::open(above.folder(), name, OFlags::DIRECTORY)
            .map_err(std::io::Error::from)
            .and_then(|folder| Level::open(folder, name.to_vec(), self.path.len(), hash, parent));
        match opened {
            Ok(level) => {
                stack.push(level);
                self.enter(stack);
                if let Some(far) = stack.len().checked_sub(OPEN_MAX) {
                    stack[far].shut();
                }
            }
            Err(error) => self.skipped.push(&self.path, error.to_string()),
        }
    }

    /// Learns a folder's own rules.
    fn enter(&mut self, stack: &mut [Level<'w, 'a>]) {
        let level = stack.last_mut().expect("a folder was just opened");
        let prefix = match self.path.len().checked_sub(self.root_length) {
            Some(length) => length + usize::from(!level.name.is_empty()),
            None => 0,
        };
        level.rules = Rules::read(level.folder(), &level.names, prefix);
        if self.has_default_excludes && exclude::is_tagged(level.folder(), &level.names) {
            self.excluded.push(&self.path, "tagged by CACHEDIR.TAG");
            level.keep_only(b"CACHEDIR.TAG");
        }
    }

    /// A folder all of whose names are done.
    fn leave(
        &mut self,
        mut done: Level<'w, 'a>,
        above: Option<&mut Level<'w, 'a>>,
    ) -> Result<Entry, Error> {
        self.path.truncate(done.path_length.max(self.root_length));
        if let Some(above) = above
            && let Err(error) = above.reopen_from(&done)
        {
            // It was moved away while it was read: what was read is kept, what is left of it is not.
            self.skipped.push(&self.path, error.to_string());
        }
        let mut meta = done.meta();
        match meta::xattrs(meta::Attributed::Open(done.folder())) {
            Ok(list) => meta.xattrs = self.keep_xattrs(list)?,
            Err(errno) => self
                .skipped
                .push(&self.path, format!("attributes: {errno}")),
        }
        done.finish(meta, &mut self.sink)
    }
}

fn special(kind: FileType) -> &'static str {
    match kind {
        FileType::Socket => "a socket",
        FileType::Fifo => "a named pipe",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        _ => "of no known kind",
    }
}
