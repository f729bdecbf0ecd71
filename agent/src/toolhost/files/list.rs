//! `ls`: one directory.

use std::{ffi::CStr, fmt::Write, os::fd::AsFd};

use cocoonbox_proto::toolhost::v1::LsRequest;
use rustix::{
    fs::{AtFlags, Dir, FileType, OFlags},
    io::Errno,
};

use super::{
    Files, Refusal,
    path::{Place, show},
};

/// Entries shown; a model that needs more wants `shell` with a filter.
const ENTRIES_MAX: usize = 1_000;
/// Entries looked at.
const ENTRIES_READ_MAX: usize = 50_000;

pub(crate) fn ls(files: &Files, request: &LsRequest) -> Result<String, Refusal> {
    let path = if request.path.is_empty() {
        "."
    } else {
        &request.path
    };
    let place = files.roots.place(path)?;
    let directory = place.open(OFlags::RDONLY | OFlags::DIRECTORY)?;
    let mut names = Vec::new();
    let entries = Dir::read_from(&directory).map_err(|errno| place.failed(errno))?;
    for entry in entries.take(ENTRIES_READ_MAX) {
        let entry = entry.map_err(|errno| place.failed(errno))?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push(entry.file_name().to_owned());
        }
    }
    names.sort();
    if names.is_empty() {
        return Ok(format!("[`{}` is empty]", place.shown));
    }
    let mut text = String::new();
    for name in names.iter().take(ENTRIES_MAX) {
        line(&place, &directory, name, &mut text);
    }
    if names.len() > ENTRIES_MAX {
        let left = names.len() - ENTRIES_MAX;
        let more = if names.len() + 2 >= ENTRIES_READ_MAX {
            " or more"
        } else {
            ""
        };
        let _ = write!(text, "[{left}{more} entries left out]");
    }
    Ok(text)
}

fn line(place: &Place, directory: impl AsFd, name: &CStr, text: &mut String) {
    let shown = show(name.to_bytes());
    let written = match rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => writeln!(text, "{shown}/"),
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(&directory, name, Vec::new());
                let target = target.map(|t| show(t.to_bytes())).unwrap_or_default();
                writeln!(text, "{shown} -> {target}")
            }
            FileType::RegularFile => writeln!(text, "{shown}  {} bytes", stat.st_size),
            _ => writeln!(text, "{shown}  (special file)"),
        },
        // It went away while we looked.
        Err(Errno::NOENT) => Ok(()),
        Err(errno) => writeln!(text, "{shown}  ({})", place.failed(errno)),
    };
    debug_assert!(written.is_ok(), "writing to a string cannot fail");
}
