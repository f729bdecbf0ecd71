//! `write`: a whole file, there completely or not at all.

use std::{fs::File, io::Write, os::fd::OwnedFd};

use cocoonbox_proto::toolhost::v1::WriteRequest;
use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags},
    io::Errno,
};

use super::{Refusal, Roots, path::Place};

/// Largest content; a model writes a fraction of it.
pub(super) const CONTENT_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// Of a file that was not there before. The umask takes away from it.
const MODE_DEFAULT: u32 = 0o644;

pub(crate) fn write(roots: &Roots, request: &WriteRequest) -> Result<String, Refusal> {
    let place = roots.place(&request.path)?;
    let existed = replace(&place, request.content.as_bytes())?;
    let lines = request.content.lines().count();
    let verb = if existed { "replaced" } else { "wrote" };
    Ok(format!(
        "{verb} `{}`: {lines} lines, {} bytes",
        place.shown,
        request.content.len()
    ))
}

/// Writes beside the file and renames over it, keeping its mode. Returns whether there was one.
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
    let mode = match rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Some(stat.st_mode & 0o777),
            FileType::Directory => {
                return Err(Refusal::IsDirectory {
                    path: place.shown.clone(),
                });
            }
            FileType::Symlink => {
                return Err(Refusal::IsLink {
                    path: place.shown.clone(),
                });
            }
            _ => {
                return Err(Refusal::NotRegular {
                    path: place.shown.clone(),
                });
            }
        },
        Err(Errno::NOENT) => None,
        Err(errno) => return Err(place.failed(errno)),
    };
    let system = |why| Refusal::System {
        path: place.shown.clone(),
        why,
    };
    let (beside, mut file) = create_beside(place, &parent)?;
    let written = file.write_all(content).and_then(|()| {
        if let Some(mode) = mode {
            rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?;
        }
        file.sync_data()?;
        Ok(rustix::fs::renameat(
            &parent,
            beside.as_str(),
            &parent,
            name,
        )?)
    });
    if let Err(why) = written {
        // Leaving it would litter the user's folder; there is nobody else to tell.
        let _ = rustix::fs::unlinkat(&parent, beside.as_str(), AtFlags::empty());
        return Err(system(why));
    }
    Ok(mode.is_some())
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
