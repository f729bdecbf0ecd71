//! Sizes that the file system and the kernel know.

use std::{fs, path::Path};

/// Bytes of a file; 0 if there is none.
pub(super) fn bytes(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |found| found.len())
}

/// Memory that this process holds.
pub(super) fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Descriptors that this process has open.
pub(super) fn open_files() -> Option<usize> {
    Some(fs::read_dir("/proc/self/fd").ok()?.count())
}

/// Bytes of the file system below a path: free for us, and in all.
pub(super) fn room(path: &Path) -> Option<(u64, u64)> {
    let found = rustix::fs::statvfs(path).ok()?;
    Some((
        found.f_bavail.saturating_mul(found.f_frsize),
        found.f_blocks.saturating_mul(found.f_frsize),
    ))
}
