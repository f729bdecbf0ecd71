//! Writing one file.

use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::{
    fs::{self, AtFlags, Gid, Mode, OFlags, ResolveFlags, Timespec, Timestamps, Uid, XattrFlags},
    io::{Errno, pwrite},
};

use crate::{
    entry::{Entry, FileNode, Meta, Node, Time, XattrList},
    reader::{FileReader, Stretch},
};

use super::{
    Job, Problem, Shared,
    folder::Folder,
    links::{Placed, Role},
};

/// Writes files, one after the other.
pub(super) struct Writer<'s, 'r, 'a> {
    shared: &'s Shared<'r, 'a>,
}

impl<'s, 'r, 'a> Writer<'s, 'r, 'a> {
    pub(super) fn new(shared: &'s Shared<'r, 'a>) -> Self {
        Self { shared }
    }

    /// Restores a file under its name.
    pub(super) fn write(&mut self, job: &Job<'_, '_, '_>) -> Result<(), Problem> {
        let Node::File(node) = &job.entry.node else {
            return Ok(());
        };
        match &job.role {
            Role::Only => self.fill(job, node).map(drop),
            Role::First(pending) => {
                let filled = self.fill(job, node);
                pending.set(filled.as_ref().ok().map(|(device, inode)| Placed {
                    path: job.path[1..].to_vec(),
                    device: *device,
                    inode: *inode,
                }));
                filled.map(drop)
            }
            Role::Later(pending) => {
                let linked = pending
                    .wait()
                    .is_some_and(|placed| self.link(job, &placed).is_ok());
                if linked {
                    self.shared.done().tally.links += 1;
                    return Ok(());
                }
                // The bytes matter more than that they are shared.
                let why = "restored as a file of its own, not as a link";
                self.shared.problem(&job.path, why);
                self.fill(job, node).map(drop)
            }
        }
    }

    fn fill(&mut self, job: &Job<'_, '_, '_>, node: &FileNode) -> Result<(u64, u64), Problem> {
        let Job {
            folder,
            entry,
            path,
            ..
        } = job;
        let mut identity = (0, 0);
        folder.place(&entry.name, job.was.as_ref(), |name| {
            let flags =
                OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = fs::openat(folder.descriptor(), name, flags, Mode::RUSR | Mode::WUSR)
                .map_err(|errno| match errno {
                    Errno::EXIST => Problem::Exists,
                    errno => Problem::of("make file")(errno),
                })?;
            if let Err(problem) = self.copy(&file, node) {
                // Half a file under its name would look like a whole one.
                fs::unlinkat(folder.descriptor(), name, AtFlags::empty()).ok();
                return Err(problem);
            }
            settle(self.shared, file.as_fd(), &entry.meta, path);
            if node.link.is_some() {
                let stat = fs::fstat(&file).map_err(Problem::of("look at file"))?;
                identity = (stat.st_dev, stat.st_ino);
            }
            Ok(())
        })?;
        let mut done = self.shared.done();
        done.tally.files += 1;
        done.tally.bytes += node.size;
        Ok(identity)
    }

    fn copy(&self, file: &OwnedFd, node: &FileNode) -> Result<(), Problem> {
        let mut source = FileReader::new(self.shared.reader, node);
        let mut at = 0u64;
        let mut is_open_ended = false;
        while let Some(stretch) = source.next_stretch()? {
            self.shared.check_wanted()?;
            is_open_ended = matches!(stretch, Stretch::Hole(_));
            match stretch {
                Stretch::Inline(bytes) => at += put(file, &bytes, at)?,
                Stretch::Chunk(chunk) => at += put(file, &chunk, at)?,
                Stretch::Hole(bytes) => at += bytes,
            }
        }
        if at != node.size {
            return Err(Problem::Capsule("it is not as long as it was".into()));
        }
        if is_open_ended {
            fs::ftruncate(file, at).map_err(Problem::of("make hole"))?;
        }
        Ok(())
    }

    fn link(&self, job: &Job<'_, '_, '_>, placed: &Placed) -> Result<(), Problem> {
        let Job { folder, entry, .. } = job;
        let first = fs::openat2(
            super::base(self.shared),
            &placed.path[..],
            OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
        )
        .map_err(Problem::of("find first name"))?;
        let stat = fs::fstat(&first).map_err(Problem::of("look at first name"))?;
        if (stat.st_dev, stat.st_ino) != (placed.device, placed.inode) {
            return Err(Problem::Capsule("the first name was replaced".into()));
        }
        // By way of the descriptor, so that it is this file whatever its name means by then.
        let through = format!("/proc/self/fd/{}", first.as_raw_fd());
        folder.place(&entry.name, job.was.as_ref(), |name| {
            fs::linkat(
                fs::CWD,
                &through[..],
                folder.descriptor(),
                name,
                AtFlags::SYMLINK_FOLLOW,
            )
            .map_err(|errno| match errno {
                Errno::EXIST => Problem::Exists,
                errno => Problem::of("link")(errno),
            })
        })
    }
}

fn put(file: &OwnedFd, bytes: &[u8], at: u64) -> Result<u64, Problem> {
    let mut written = 0;
    while written < bytes.len() {
        match pwrite(file, &bytes[written..], at + written as u64) {
            Ok(0) => return Err(Problem::of("write")(Errno::IO)),
            Ok(count) => written += count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(Problem::of("write")(errno)),
        }
    }
    Ok(bytes.len() as u64)
}

/// Gives an open file or folder its owner, mode, attributes and times, in the order that keeps each. What
/// cannot be had is said; the rest is done.
pub(super) fn settle(shared: &Shared<'_, '_>, file: BorrowedFd<'_>, meta: &Meta, path: &[u8]) {
    let note = |doing: &'static str, done: Result<(), Errno>| {
        if let Err(errno) = done {
            shared.problem(path, Problem::of(doing)(errno).to_string());
        }
    };
    if shared.has_owners {
        let (uid, gid) = (Uid::from_raw(meta.uid), Gid::from_raw(meta.gid));
        note("owner", fs::fchown(file, Some(uid), Some(gid)));
    }
    // After the owner, which clears set-id bits; attributes after the mode, which ACLs refine.
    note(
        "mode",
        fs::fchmod(file, Mode::from_raw_mode(meta.mode.into())),
    );
    for (name, value) in xattrs(shared, meta, path) {
        let set = fs::fsetxattr(file, &name[..], &value, XattrFlags::empty());
        note("attribute", set);
    }
    note("times", fs::futimens(file, &times(meta.mtime)));
}

fn xattrs(shared: &Shared<'_, '_>, meta: &Meta, path: &[u8]) -> XattrList {
    shared.reader.xattrs(&meta.xattrs).unwrap_or_else(|error| {
        shared.problem(path, Problem::from(error).to_string());
        Vec::new()
    })
}

/// Restores a symbolic link; it is made, never followed.
pub(super) fn symlink(
    shared: &Shared<'_, '_>,
    folder: &Folder<'_, '_, '_>,
    entry: &Entry,
    target: &[u8],
    was: Option<&Entry>,
) -> Result<(), Problem> {
    let meta = &entry.meta;
    let path = folder.below(&entry.name);
    folder.place(&entry.name, was, |name| {
        let here = folder.descriptor();
        fs::symlinkat(target, here, name).map_err(|errno| match errno {
            Errno::EXIST => Problem::Exists,
            errno => Problem::of("make link")(errno),
        })?;
        let note = |doing: &'static str, done: Result<(), Errno>| {
            if let Err(errno) = done {
                shared.problem(&path, Problem::of(doing)(errno).to_string());
            }
        };
        if shared.has_owners {
            let (uid, gid) = (Uid::from_raw(meta.uid), Gid::from_raw(meta.gid));
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            note(
                "owner",
                fs::chownat(here, name, Some(uid), Some(gid), flags),
            );
        }
        for (key, value) in xattrs(shared, meta, &path) {
            let mut at = format!("/proc/self/fd/{}/", here.as_raw_fd()).into_bytes();
            at.extend_from_slice(name);
            let set = fs::lsetxattr(&at[..], &key[..], &value, XattrFlags::empty());
            note("attribute", set);
        }
        let set = fs::utimensat(here, name, &times(meta.mtime), AtFlags::SYMLINK_NOFOLLOW);
        note("times", set);
        Ok(())
    })?;
    shared.done().tally.symlinks += 1;
    Ok(())
}

fn times(mtime: Time) -> Timestamps {
    let mtime = Timespec {
        tv_sec: mtime.seconds,
        tv_nsec: mtime.nanos.into(),
    };
    Timestamps {
        last_access: mtime,
        last_modification: mtime,
    }
}
