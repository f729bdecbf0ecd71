//! Taking away what is as it was saved, and nothing else.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::{
    fs::{self, AtFlags, FileType, Mode, OFlags, RenameFlags, Stat},
    io::{Errno, pread},
};

use crate::{
    cursor::Cursor,
    entry::{Entry, FileNode, Meta, Node},
    error::Error,
    reader::{FileReader, Stretch},
};

use super::{Problem, Shared};

/// Bytes compared at once.
const PIECE_BYTES: usize = 256 << 10;

/// Takes files away.
pub(super) struct Gone<'s, 'r, 'a> {
    shared: &'s Shared<'r, 'a>,
    /// Whether what stays is told.
    is_told: bool,
    /// How many files and links are gone.
    pub(super) count: u64,
}

/// A folder that is being emptied.
struct Level<'r, 'a> {
    cursor: Cursor<'r, 'a>,
    folder: OwnedFd,
    name: Vec<u8>,
    path: Vec<u8>,
    /// Something in it stays, and was told.
    has_rest: bool,
}

impl<'s, 'r, 'a> Gone<'s, 'r, 'a> {
    /// What stays is told among what was replaced or stayed.
    pub(super) fn aloud(shared: &'s Shared<'r, 'a>) -> Self {
        Self {
            shared,
            is_told: true,
            count: 0,
        }
    }

    pub(super) fn quietly(shared: &'s Shared<'r, 'a>) -> Self {
        Self {
            is_told: false,
            ..Self::aloud(shared)
        }
    }

    /// Takes away what has a name, as far as it is what was saved; of a folder what is in it, and the folder when
    /// nothing else is in it. Whether nothing has the name any more.
    pub(super) fn take(
        &mut self,
        at: BorrowedFd<'_>,
        name: &[u8],
        was: &Entry,
        path: &[u8],
    ) -> Result<bool, Problem> {
        let Node::Directory { tree, .. } = &was.node else {
            return self.leaf(at, name, was, path);
        };
        let reader = self.shared.reader;
        let level = |at: BorrowedFd<'_>, name: &[u8], tree, path: &[u8]| {
            let folder = open_folder(at, name)?;
            Ok::<_, Errno>(Level {
                cursor: Cursor::new(reader, tree),
                folder,
                name: name.to_vec(),
                path: path.to_vec(),
                has_rest: false,
            })
        };
        let mut stack = match level(at, name, *tree, path) {
            Ok(first) => vec![first],
            Err(errno) => return Ok(self.stays(path, errno)),
        };
        let mut is_gone = false;
        while let Some(last) = stack.last_mut() {
            self.shared.check_wanted()?;
            let Some(child) = last.cursor.next_entry()? else {
                let Some(last) = stack.pop() else { break };
                let above = stack.last().map_or(at, |above| above.folder.as_fd());
                is_gone = match fs::unlinkat(above, &last.name[..], AtFlags::REMOVEDIR) {
                    Ok(()) => true,
                    Err(_) if last.has_rest => false,
                    Err(errno) => self.stays(&last.path, errno),
                };
                if let Some(above) = stack.last_mut() {
                    above.has_rest |= !is_gone;
                }
                continue;
            };
            let mut below = last.path.clone();
            below.push(b'/');
            below.extend_from_slice(&child.name);
            let is_gone = match &child.node {
                Node::Directory { tree, .. } => {
                    match level(last.folder.as_fd(), &child.name, *tree, &below) {
                        Ok(next) => {
                            stack.push(next);
                            continue;
                        }
                        Err(errno) => self.stays(&below, errno),
                    }
                }
                _ => self.leaf(last.folder.as_fd(), &child.name, &child, &below)?,
            };
            last.has_rest |= !is_gone;
        }
        Ok(is_gone)
    }

    fn leaf(
        &mut self,
        at: BorrowedFd<'_>,
        name: &[u8],
        was: &Entry,
        path: &[u8],
    ) -> Result<bool, Problem> {
        let aside = self.shared.beside("gone", name);
        // Left by one that was killed, which is gone on with.
        if self.is_there(at, &aside, was) {
            self.remove(at, &aside)?;
        }
        match self.is_as_saved(at, name, was) {
            Ok(true) => {}
            Ok(false) => return Ok(self.stays(path, Errno::EXIST)),
            Err(Looked::Unseen(errno)) => return Ok(self.stays(path, errno)),
            Err(Looked::Capsule(error)) => return Err(error.into()),
        }
        // Looked at again under a name that nobody has: another file may get this one meanwhile.
        let rename =
            |from: &[u8], to: &[u8]| fs::renameat_with(at, from, at, to, RenameFlags::NOREPLACE);
        if let Err(errno) = rename(name, &aside) {
            return Ok(self.stays(path, errno));
        }
        if let Ok(true) = self.is_as_saved(at, &aside, was) {
            self.remove(at, &aside)?;
            return Ok(true);
        }
        rename(&aside, name).map_err(Problem::of("name"))?;
        Ok(self.stays(path, Errno::EXIST))
    }

    fn remove(&mut self, at: BorrowedFd<'_>, name: &[u8]) -> Result<(), Problem> {
        fs::unlinkat(at, name, AtFlags::empty()).map_err(Problem::of("remove"))?;
        self.count += 1;
        Ok(())
    }

    /// Whether a file or link with a name is what was saved.
    pub(super) fn is_there(&self, at: BorrowedFd<'_>, name: &[u8], was: &Entry) -> bool {
        matches!(self.is_as_saved(at, name, was), Ok(true))
    }

    /// Something has the name yet, unless there was nothing.
    fn stays(&self, path: &[u8], errno: Errno) -> bool {
        if errno == Errno::NOENT {
            return true;
        }
        if self.is_told {
            let why = match errno {
                Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR | Errno::LOOP => {
                    "was changed since".to_owned()
                }
                errno => errno.to_string(),
            };
            self.shared.stays(path, why);
        }
        false
    }

    fn is_as_saved(&self, at: BorrowedFd<'_>, name: &[u8], was: &Entry) -> Result<bool, Looked> {
        match &was.node {
            Node::Directory { .. } => Ok(false),
            Node::Symlink { target } => match fs::readlinkat(at, name, Vec::new()) {
                Ok(found) => Ok(found.as_bytes() == &target[..]),
                Err(Errno::INVAL) => Ok(false),
                Err(errno) => Err(errno.into()),
            },
            Node::File(node) => {
                let stat = fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW)?;
                if !self.looks_saved(&stat, &was.meta, node) {
                    return Ok(false);
                }
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                let file = fs::openat(at, name, flags, Mode::empty())?;
                let stat = fs::fstat(&file)?;
                Ok(self.looks_saved(&stat, &was.meta, node) && self.has_bytes(&file, node)?)
            }
        }
    }

    fn looks_saved(&self, stat: &Stat, meta: &Meta, node: &FileNode) -> bool {
        let has_owner = (stat.st_uid, stat.st_gid) == (meta.uid, meta.gid);
        FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
            && u64::try_from(stat.st_size) == Ok(node.size)
            && stat.st_mode & 0o7777 == u32::from(meta.mode)
            && stat.st_mtime == meta.mtime.seconds
            && u32::try_from(stat.st_mtime_nsec) == Ok(meta.mtime.nanos)
            && (has_owner || !self.shared.has_owners)
    }

    /// Whether a file has the bytes that were saved. Times alone can be set by anyone.
    fn has_bytes(&self, file: &OwnedFd, node: &FileNode) -> Result<bool, Looked> {
        let mut source = FileReader::new(self.shared.reader, node);
        let mut at = 0u64;
        while let Some(stretch) = source.next_stretch().map_err(Looked::Capsule)? {
            self.shared.check_wanted().map_err(Looked::Capsule)?;
            let is_same = match &stretch {
                Stretch::Inline(bytes) => has_at(file, &mut at, bytes)?,
                Stretch::Chunk(chunk) => has_at(file, &mut at, chunk)?,
                Stretch::Hole(bytes) => {
                    // What is written into a hole changes the times, and holes may be huge: data in one is enough.
                    let start = at;
                    at += bytes;
                    match fs::seek(file, fs::SeekFrom::Data(start)) {
                        Ok(data) => data >= at,
                        Err(Errno::NXIO) => true,
                        Err(errno) => return Err(errno.into()),
                    }
                }
            };
            if !is_same {
                return Ok(false);
            }
        }
        Ok(at == node.size)
    }
}

/// Why it is not known whether something is as it was saved.
enum Looked {
    Unseen(Errno),
    Capsule(Error),
}

impl From<Errno> for Looked {
    fn from(errno: Errno) -> Self {
        Self::Unseen(errno)
    }
}

pub(super) fn open_folder(at: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    fs::openat(at, name, flags, Mode::empty())
}

/// Whether a file has these bytes from a place on, which moves behind them.
fn has_at(file: &OwnedFd, at: &mut u64, bytes: &[u8]) -> Result<bool, Errno> {
    let mut buffer = vec![0; bytes.len().min(PIECE_BYTES)];
    for piece in bytes.chunks(PIECE_BYTES) {
        let mut read = 0;
        while read < piece.len() {
            match pread(file, &mut buffer[read..piece.len()], *at + read as u64) {
                Ok(0) => return Ok(false),
                Ok(count) => read += count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        if buffer[..read] != *piece {
            return Ok(false);
        }
        *at += piece.len() as u64;
    }
    Ok(true)
}
