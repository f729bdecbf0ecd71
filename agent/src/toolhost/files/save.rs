//! `write`: a whole file, there completely or not at all.

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Write},
    os::fd::OwnedFd,
};

use cocoonbox_proto::toolhost::v1::WriteRequest;
use rustix::{
    buffer::spare_capacity,
    fs::{AtFlags, FileType, Mode, OFlags, Stat, XattrFlags},
    io::Errno,
};

use super::{Files, Refusal, edit::load, path::Place};

/// Largest content; a model writes a fraction of it.
pub(super) const CONTENT_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// Names of a file's attributes, or the value of one: Linux takes no more.
const ATTRIBUTE_BYTES_MAX: usize = 64 * 1024;
/// Of a file that was not there before. The umask takes away from it.
const MODE_DEFAULT: u32 = 0o644;

pub(crate) fn write(files: &Files, request: &WriteRequest) -> Result<String, Refusal> {
    let place = files.roots.place(&request.path)?;
    if !request.reader.is_empty() {
        // A file that cannot be read is not known to anyone, and what cannot be written says so below.
        if let Ok(there) = load(&place) {
            files.seen.check(&request.reader, &place, &there)?;
        }
    }
    let existed = replace(&place, request.content.as_bytes())?;
    files
        .seen
        .note(&request.reader, &place, request.content.as_bytes());
    let lines = request.content.lines().count();
    let verb = if existed { "replaced" } else { "wrote" };
    Ok(format!(
        "{verb} `{}`: {lines} lines, {} bytes",
        place.shown,
        request.content.len()
    ))
}

/// Writes beside the file and renames over it, keeping its mode, owner and attributes. Returns whether
/// there was one.
pub(super) fn replace(place: &Place, content: &[u8]) -> Result<bool, Refusal> {
    let bytes = content.len() as u64;
    if bytes > CONTENT_BYTES_MAX {
        let path = place.shown.clone();
        return Err(Refusal::TooLarge {
            path,
            bytes,
            max: CONTENT_BYTES_MAX,
        });
    }
    let (parent, name) = place.open_parent()?;
    let there = there(place, &parent, name)?;
    let system = |why| Refusal::System {
        path: place.shown.clone(),
        why,
    };
    let (beside, mut file) = create_beside(place, &parent)?;
    let written = file.write_all(content).and_then(|()| {
        if let Some(there) = &there
            && !dress(&file, &parent, name, there)?
        {
            return Ok(false);
        }
        file.sync_data()?;
        rustix::fs::renameat(&parent, beside.as_str(), &parent, name)?;
        Ok(true)
    });
    if !matches!(written, Ok(true)) {
        // Leaving it would litter the user's folder; there is nobody else to tell.
        let _ = rustix::fs::unlinkat(&parent, beside.as_str(), AtFlags::empty());
    }
    if !written.map_err(system)? {
        in_place(&parent, name, content).map_err(system)?;
    }
    Ok(there.is_some())
}

/// What is to be replaced; only a regular file can be.
fn there(place: &Place, parent: &OwnedFd, name: &OsStr) -> Result<Option<Stat>, Refusal> {
    let path = || place.shown.clone();
    match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(Some(stat)),
            FileType::Directory => Err(Refusal::IsDirectory { path: path() }),
            FileType::Symlink => Err(Refusal::IsLink { path: path() }),
            _ => Err(Refusal::NotRegular { path: path() }),
        },
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(place.failed(errno)),
    }
}

/// Gives the new file what the old one has besides content. False if it cannot have the owner.
fn dress(file: &File, parent: &OwnedFd, name: &OsStr, there: &Stat) -> io::Result<bool> {
    let own = rustix::fs::fstat(file)?;
    if (own.st_uid, own.st_gid) != (there.st_uid, there.st_gid) {
        let owner = rustix::process::Uid::from_raw(there.st_uid);
        let group = rustix::process::Gid::from_raw(there.st_gid);
        if rustix::fs::fchown(file, Some(owner), Some(group)).is_err() {
            return Ok(false);
        }
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    // One that may not be read keeps its attributes to itself.
    if let Ok(old) = rustix::fs::openat(parent, name, flags, Mode::empty()) {
        copy_attributes(&old, file);
    }
    rustix::fs::fchmod(file, Mode::from_raw_mode(there.st_mode & 0o777))?;
    Ok(true)
}

/// Copies extended attributes, access lists among them. What this user may not set is left out, as `cp`
/// does.
fn copy_attributes(from: &OwnedFd, to: &File) {
    let mut names = Vec::with_capacity(ATTRIBUTE_BYTES_MAX);
    if rustix::fs::flistxattr(from, spare_capacity(&mut names)).is_err() {
        return;
    }
    for name in names.split(|b| *b == 0).filter(|name| !name.is_empty()) {
        let mut value = Vec::with_capacity(ATTRIBUTE_BYTES_MAX);
        if rustix::fs::fgetxattr(from, name, spare_capacity(&mut value)).is_ok() {
            let _ = rustix::fs::fsetxattr(to, name, &value, XattrFlags::empty());
        }
    }
}

/// Writes into the file itself: it belongs to somebody else who lets us write, and would be ours if it
/// were replaced.
fn in_place(parent: &OwnedFd, name: &OsStr, content: &[u8]) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::openat(parent, name, flags, Mode::empty())?);
    file.set_len(0)?;
    file.write_all(content)?;
    file.sync_data()
}

fn create_beside(place: &Place, parent: &OwnedFd) -> Result<(String, File), Refusal> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(|_| place.failed(Errno::IO))?;
    let name = format!(".cocoonbox-{}.tmp", hex::encode(random));
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // The parent is held as a path only, but files can be made in it.
    let file = rustix::fs::openat(
        parent,
        name.as_str(),
        flags,
        Mode::from_raw_mode(MODE_DEFAULT),
    )
    .map_err(|errno| place.failed(errno))?;
    Ok((name, File::from(file)))
}
