//! Going through a folder: what `.gitignore` names is left out, and links are not followed.

use std::{
    fs::File,
    os::fd::{AsRawFd, OwnedFd},
    path::{Path, PathBuf},
};

use ignore::{DirEntry, WalkBuilder};
use rustix::fs::{Mode, OFlags};

use super::{Roots, path::Place};

/// A file that was found.
pub(super) struct Found {
    entry: DirEntry,
    /// Relative to the folder.
    pub(super) rest: PathBuf,
    /// As the model may name it.
    pub(super) shown: String,
}

impl Found {
    /// `None`: it may not be read, or went away.
    pub(super) fn open(&self) -> Option<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = rustix::fs::open(self.entry.path(), flags, Mode::empty());
        opened.ok().map(File::from)
    }

    pub(super) fn changed(&self) -> Option<std::time::SystemTime> {
        self.entry.metadata().ok()?.modified().ok()
    }
}

/// Shows every regular file beneath `folder` to `each`, in the order of their names, until it says
/// that it is enough.
pub(super) fn files(
    roots: &Roots,
    place: &Place,
    folder: &OwnedFd,
    mut each: impl FnMut(Found) -> bool,
) {
    // The descriptor is beneath the root already; from here on links are not followed.
    let start = PathBuf::from(format!("/proc/self/fd/{}/", folder.as_raw_fd()));
    let full = place.full();
    let walker = WalkBuilder::new(&start)
        .hidden(false)
        .parents(false)
        .require_git(false)
        .git_global(false)
        .follow_links(false)
        .sort_by_file_name(std::ffi::OsStr::cmp)
        .filter_entry(|entry| entry.file_name() != ".git")
        .build();
    for entry in walker.flatten() {
        let Ok(rest) = entry.path().strip_prefix(&start) else {
            continue;
        };
        let rest = rest.to_path_buf();
        let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
        let shown = show(roots, &full, &rest);
        let found = Found { entry, rest, shown };
        if is_file && !each(found) {
            return;
        }
    }
}

fn show(roots: &Roots, full: &Path, rest: &Path) -> String {
    let shown = full.join(rest);
    let shown = shown.strip_prefix(roots.workspace()).unwrap_or(&shown);
    let shown = shown.strip_prefix(".").unwrap_or(shown);
    shown.to_string_lossy().into_owned()
}
