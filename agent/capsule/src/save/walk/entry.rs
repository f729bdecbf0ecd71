//! One file or symbolic link.

use std::os::fd::AsFd as _;

use rustix::{
    fs::{FileType, OFlags, Stat, fstat, readlinkat},
    io::Errno,
};

use crate::{
    cache::{self, Seen},
    entry::{Entry, FileNode, Node, XattrList, Xattrs, encode_xattrs},
    error::Error,
    tree::TreeSink as _,
};

use super::{
    super::{
        file::ReadError,
        meta::{self, Attributed, XATTRS_INLINE},
        reuse::{Trust, racy_ns},
    },
    Linked, Walk,
    level::Level,
};

/// How often a file is read before it is kept as it is.
const TRIES: usize = 2;

impl<'w, 'a> Walk<'w, 'a> {
    pub(super) fn symlink(
        &mut self,
        level: &Level<'w, 'a>,
        name: &[u8],
        stat: &Stat,
    ) -> Result<Option<Entry>, Error> {
        let target = match readlinkat(level.folder(), name, Vec::new()) {
            Ok(target) => target.into_bytes(),
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => {
                self.skipped.push(&self.path, errno.to_string());
                return Ok(None);
            }
        };
        let mut meta = meta::meta(stat);
        match meta::xattrs(Attributed::Named(level.folder(), name)) {
            Ok(list) => meta.xattrs = self.keep_xattrs(list)?,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => self
                .skipped
                .push(&self.path, format!("attributes: {errno}")),
        }
        self.counts.symlinks += 1;
        Ok(Some(Entry {
            name: name.to_vec(),
            meta,
            node: Node::Symlink { target },
        }))
    }

    pub(super) fn file(
        &mut self,
        level: &Level<'w, 'a>,
        name: &[u8],
        stat: &Stat,
        old: Option<Entry>,
    ) -> Result<Option<Entry>, Error> {
        let key = (stat.st_dev, stat.st_ino);
        if stat.st_nlink > 1
            && let Some(linked) = self.linked.get(&key)
            && linked.ctime_ns == meta::ctime_ns(stat)
        {
            let mut entry = linked.entry.clone();
            entry.name = name.to_vec();
            entry.node = Node::File(linked.node.clone());
            let size = linked.node.size;
            self.note_seen(level, name, stat);
            self.count(size);
            return Ok(Some(entry));
        }
        let seen = seen(level, name, stat);
        let trust = match (self.parent, &old) {
            (Some(parent), Some(old)) => match parent.trust(old, stat, seen) {
                Trust::Nothing => Trust::Nothing,
                trust => match &old.node {
                    Node::File(file) if parent.is_whole(file, &self.sink) => trust,
                    _ => Trust::Nothing,
                },
            },
            _ => Trust::Nothing,
        };
        let entry = match (trust, old) {
            (Trust::All | Trust::Content, Some(old)) => {
                self.taken(level, name, stat, trust, old)?
            }
            (_, old) => self.read(level, name, old)?,
        };
        let Some((mut entry, stat)) = entry else {
            return Ok(None);
        };
        if let Node::File(file) = &mut entry.node {
            if file.is_unsettled {
                self.unsettled
                    .push(&self.path, "changed each time it was read");
            } else {
                self.note_seen(level, name, &stat);
            }
            self.counts.files += 1;
            self.counts.bytes = self.counts.bytes.saturating_add(file.size);
            file.link = None;
            if stat.st_nlink > 1 {
                file.link = Some(self.sink.keys().link_id(&self.path));
                let linked = Linked {
                    node: file.clone(),
                    entry: Entry {
                        name: Vec::new(),
                        ..entry.clone()
                    },
                    ctime_ns: meta::ctime_ns(&stat),
                };
                self.linked.insert(key, linked);
            }
        }
        Ok(Some(entry))
    }

    fn count(&mut self, size: u64) {
        self.counts.files += 1;
        self.counts.bytes = self.counts.bytes.saturating_add(size);
    }

    /// Remembers a file for the next save, unless it may change without showing it.
    fn note_seen(&mut self, level: &Level<'w, 'a>, name: &[u8], stat: &Stat) {
        let ctime_ns = meta::ctime_ns(stat);
        let racy_ns = racy_ns(self.file_system, ctime_ns);
        let settled = self.started_ns.saturating_sub(racy_ns);
        if meta::mtime(stat).nanoseconds() < settled && ctime_ns < settled {
            self.seen.push(seen(level, name, stat));
        }
    }

    /// The parent's content under today's owner, mode and time.
    fn taken(
        &mut self,
        level: &Level<'w, 'a>,
        name: &[u8],
        stat: &Stat,
        trust: Trust,
        old: Entry,
    ) -> Result<Option<(Entry, Stat)>, Error> {
        let mut meta = meta::meta(stat);
        if trust == Trust::All {
            meta.xattrs = old.meta.xattrs;
        } else {
            match meta::xattrs(Attributed::Named(level.folder(), name)) {
                Ok(list) => meta.xattrs = self.keep_xattrs(list)?,
                Err(Errno::NOENT) => return Ok(None),
                Err(errno) => self
                    .skipped
                    .push(&self.path, format!("attributes: {errno}")),
            }
        }
        let entry = Entry {
            name: name.to_vec(),
            meta,
            node: old.node,
        };
        Ok(Some((entry, *stat)))
    }

    /// Reads a file until it holds still, or twice.
    fn read(
        &mut self,
        level: &Level<'w, 'a>,
        name: &[u8],
        old: Option<Entry>,
    ) -> Result<Option<(Entry, Stat)>, Error> {
        let file = match meta::open(level.folder(), name, OFlags::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => {
                self.skipped.push(&self.path, errno.to_string());
                return Ok(None);
            }
        };
        let mut tries = 0;
        let read = loop {
            tries += 1;
            let before = fstat(&file).map_err(ReadError::from);
            let read = before.and_then(|before| {
                if meta::kind(&before) != FileType::RegularFile {
                    // It was replaced between two looks.
                    return Err(Errno::STALE.into());
                }
                let (content, length) = self.files.read(file.as_fd(), &before, &mut self.sink)?;
                self.counts.bytes_read += length;
                let after = fstat(&file)?;
                let is_settled = meta::is_same(&before, &after) && length == meta::size(&before);
                Ok((content, length, after, is_settled))
            });
            match read {
                Ok(read) if read.3 || tries >= TRIES => break read,
                Ok(_) => {}
                Err(ReadError::File(errno)) => {
                    self.skipped.push(&self.path, errno.to_string());
                    return Ok(None);
                }
                Err(ReadError::Capsule(error)) => return Err(error),
            }
        };
        let (content, size, stat, is_settled) = read;
        let mut meta = meta::meta(&stat);
        match meta::xattrs(Attributed::Open(file.as_fd())) {
            Ok(list) => meta.xattrs = self.keep_xattrs(list)?,
            Err(errno) => self
                .skipped
                .push(&self.path, format!("attributes: {errno}")),
        }
        self.counts.files_read += 1;
        let is_old = old.is_some_and(|old| match old.node {
            Node::File(old) => old.content == content,
            _ => false,
        });
        self.counts.files_changed += u64::from(!is_old);
        let node = Node::File(FileNode {
            size,
            link: None,
            is_unsettled: !is_settled,
            content,
        });
        let entry = Entry {
            name: name.to_vec(),
            meta,
            node,
        };
        Ok(Some((entry, stat)))
    }

    /// Attributes in the entry, or apart where they are long.
    pub(super) fn keep_xattrs(&mut self, list: Option<XattrList>) -> Result<Xattrs, Error> {
        let Some(list) = list else {
            self.skipped
                .push(&self.path, "attributes: more than half a mebibyte of them");
            return Ok(Xattrs::default());
        };
        let total: usize = list
            .iter()
            .map(|(name, value)| name.len() + value.len())
            .sum();
        if total <= XATTRS_INLINE {
            return Ok(Xattrs::Here(list));
        }
        let mut plain = Vec::new();
        encode_xattrs(&list, &mut plain);
        Ok(Xattrs::Chunk(self.sink.put_tree(&plain)?))
    }
}

fn seen(level: &Level<'_, '_>, name: &[u8], stat: &Stat) -> Seen {
    Seen {
        path: cache::hash_path(level.path_hash, name),
        inode: stat.st_ino,
        ctime_ns: meta::ctime_ns(stat),
    }
}
