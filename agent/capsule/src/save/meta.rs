//! What the operating system knows of a file.

use std::{
    io,
    os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd},
};

use rustix::{
    fs::{self, FileType, Mode, OFlags, RawDir, Stat},
    io::Errno,
};

use crate::entry::{Meta, Time, XattrList, Xattrs};

/// Attributes beyond this are not kept, and that is said.
const XATTRS_MAX: usize = 1 << 20;
/// Attributes up to this stay in the entry.
pub(super) const XATTRS_INLINE: usize = 512;
/// What overlay file systems note for themselves.
const OVERLAY: &[u8] = b"trusted.overlay.";

/// Sorted names of a directory in one allocation.
#[derive(Default)]
pub(super) struct Names {
    bytes: Vec<u8>,
    spans: Vec<(u32, u16)>,
}

impl Names {
    /// Reads a directory.
    pub(super) fn read(directory: BorrowedFd<'_>) -> io::Result<Self> {
        let mut names = Self::default();
        let mut buffer = Vec::with_capacity(32 << 10);
        let mut entries = RawDir::new(directory, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let start = u32::try_from(names.bytes.len())
                .map_err(|_| io::Error::other("names of 4 GiB in one directory"))?;
            let length =
                u16::try_from(name.len()).map_err(|_| io::Error::other("a name is too long"))?;
            names.bytes.extend_from_slice(name);
            names.spans.push((start, length));
        }
        let Self { bytes, spans } = &mut names;
        spans.sort_unstable_by(|a, b| span(bytes, *a).cmp(span(bytes, *b)));
        Ok(names)
    }

    pub(super) fn get(&self, at: usize) -> Option<&[u8]> {
        Some(span(&self.bytes, *self.spans.get(at)?))
    }

    /// That name, if it is there.
    pub(super) fn only(&self, name: &[u8]) -> Self {
        let mut only = Self::default();
        if self.contains(name) {
            only.bytes = name.to_vec();
            only.spans = vec![(0, u16::try_from(name.len()).unwrap_or(0))];
        }
        only
    }

    pub(super) fn contains(&self, name: &[u8]) -> bool {
        self.spans
            .binary_search_by(|at| span(&self.bytes, *at).cmp(name))
            .is_ok()
    }
}

fn span(bytes: &[u8], (start, length): (u32, u16)) -> &[u8] {
    &bytes[start as usize..start as usize + usize::from(length)]
}

/// Opens a name of a directory for reading, never through a symbolic link, never waiting.
pub(super) fn open(directory: BorrowedFd<'_>, name: &[u8], more: OFlags) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY
        | OFlags::NOFOLLOW
        | OFlags::CLOEXEC
        | OFlags::NONBLOCK
        | OFlags::NOCTTY
        | more;
    match fs::openat(directory, name, flags | OFlags::NOATIME, Mode::empty()) {
        // Only an owner may leave the time of access alone.
        Err(Errno::PERM) => fs::openat(directory, name, flags, Mode::empty()),
        opened => opened,
    }
}

pub(super) fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

pub(super) fn size(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

pub(super) fn mtime(stat: &Stat) -> Time {
    Time {
        seconds: stat.st_mtime,
        nanos: u32::try_from(stat.st_mtime_nsec).unwrap_or(0),
    }
}

pub(super) fn ctime_ns(stat: &Stat) -> i64 {
    let nanos = u32::try_from(stat.st_ctime_nsec).unwrap_or(0);
    Time {
        seconds: stat.st_ctime,
        nanos,
    }
    .nanoseconds()
}

/// Whether nothing happened to a file between two looks.
pub(super) fn is_same(before: &Stat, after: &Stat) -> bool {
    size(before) == size(after)
        && mtime(before) == mtime(after)
        && ctime_ns(before) == ctime_ns(after)
        && before.st_ino == after.st_ino
}

/// What an entry keeps of a stat; attributes apart.
pub(super) fn meta(stat: &Stat) -> Meta {
    Meta {
        mode: u16::try_from(stat.st_mode & 0o7777).unwrap_or(0),
        uid: stat.st_uid,
        gid: stat.st_gid,
        mtime: mtime(stat),
        xattrs: Xattrs::default(),
    }
}

/// A file whose attributes are read.
#[derive(Clone, Copy)]
pub(super) enum Attributed<'a> {
    Open(BorrowedFd<'a>),
    /// A name that is not opened: a symbolic link, or a file that is not read.
    Named(BorrowedFd<'a>, &'a [u8]),
}

/// Attributes by name. None if there are too many bytes of them.
pub(super) fn xattrs(file: Attributed<'_>) -> Result<Option<XattrList>, Errno> {
    let path = match file {
        Attributed::Open(_) => Vec::new(),
        Attributed::Named(directory, name) => {
            let mut path = format!("/proc/self/fd/{}/", directory.as_raw_fd()).into_bytes();
            path.extend_from_slice(name);
            path
        }
    };
    let mut names = vec![0u8; 1024];
    let length = loop {
        let listed = match file {
            Attributed::Open(fd) => fs::flistxattr(fd.as_fd(), &mut names[..]),
            Attributed::Named(..) => fs::llistxattr(&path[..], &mut names[..]),
        };
        match listed {
            Err(Errno::RANGE) if names.len() < (64 << 10) => names.resize(names.len() * 4, 0),
            // A file system without any.
            Err(Errno::NOTSUP) => return Ok(Some(Vec::new())),
            listed => break listed?,
        }
    };
    if length == 0 {
        return Ok(Some(Vec::new()));
    }
    let mut list = Vec::new();
    let mut total = 0;
    let mut value = vec![0u8; 4096];
    for name in names[..length].split(|byte| *byte == 0) {
        if name.is_empty() || name.starts_with(OVERLAY) {
            continue;
        }
        let length = loop {
            let got = match file {
                Attributed::Open(fd) => fs::fgetxattr(fd.as_fd(), name, &mut value[..]),
                Attributed::Named(..) => fs::lgetxattr(&path[..], name, &mut value[..]),
            };
            match got {
                Err(Errno::RANGE) if value.len() < (64 << 10) => value.resize(64 << 10, 0),
                // Removed since it was listed, or not for us to read.
                Err(Errno::NODATA | Errno::PERM | Errno::ACCESS) => break None,
                got => break Some(got?),
            }
        };
        if let Some(length) = length {
            total += name.len() + length;
            list.push((name.to_vec(), value[..length].to_vec()));
        }
    }
    list.sort_unstable();
    Ok((total <= XATTRS_MAX / 2).then_some(list))
}
