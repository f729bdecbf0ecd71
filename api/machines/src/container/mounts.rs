//! The mount table, clones of folders with an id map, and getting rid of both.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::CWD;
use rustix::mount::{MountAttrFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags};

use super::layout::{gone, make};
use super::{kernel, program};

/// Ids per box: all that a Linux image uses.
pub(super) const IDS: u32 = 65_536;

/// Mounts can be stacked on one point; more rounds than this means that somebody else mounts there.
const DETACH_ROUNDS: usize = 32;

/// A user namespace that maps ids `0..65536` to `base..`. It lives as long as the descriptor or a mount
/// made with it.
pub(super) fn id_map(base: u32) -> io::Result<OwnedFd> {
    // A namespace with a map of our choice needs a process in it. `cat` waits for the end of its input.
    let mut command = Command::new("cat");
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    kernel::die_with_parent(&mut command);
    kernel::in_new_user_namespace(&mut command);
    let mut child = command.spawn()?;
    let process = PathBuf::from(format!("/proc/{}", child.id()));
    let map = format!("0 {base} {IDS}\n");
    let namespace = std::fs::write(process.join("uid_map"), &map)
        .and_then(|()| std::fs::write(process.join("gid_map"), &map))
        .and_then(|()| std::fs::File::open(process.join("ns/user")));
    drop(child.stdin.take());
    child.wait()?;
    Ok(namespace?.into())
}

/// Shows the folder `source` at `target`, with attributes and an id map of its own.
pub(super) fn clone(
    source: &Path,
    target: &Path,
    attributes: MountAttrFlags,
    ids: BorrowedFd<'_>,
) -> io::Result<()> {
    make(target, 0o755)?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let tree = rustix::mount::open_tree(CWD, source, flags)?;
    kernel::set_mount_attributes(std::os::fd::AsFd::as_fd(&tree), attributes, Some(ids))?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    Ok(rustix::mount::move_mount(&tree, "", CWD, target, flags)?)
}

/// Returns the mount points at and below `folder`, in the order in which they were made.
pub(super) fn below(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let table = std::fs::read("/proc/self/mountinfo")?;
    Ok(points(&table)
        .filter(|point| point.starts_with(folder))
        .collect())
}

pub(super) fn is_mounted(point: &Path) -> io::Result<bool> {
    Ok(below(point)?.iter().any(|mounted| mounted == point))
}

/// Detaches every mount at and below `folder`, then removes the empty folders.
pub(super) fn clear(folder: &Path) -> io::Result<()> {
    for _ in 0..DETACH_ROUNDS {
        let points = below(folder)?;
        if points.is_empty() {
            return remove_empty(folder);
        }
        for point in points.iter().rev() {
            match rustix::mount::unmount(point, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
                // Not a mount point any more: another one above it took it along.
                Ok(()) | Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
    Err(io::ErrorKind::ResourceBusy.into())
}

/// Removes a tree of folders, and nothing that is not an empty folder: should a mount be left after all,
/// this must not eat its files.
fn remove_empty(folder: &Path) -> io::Result<()> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) => return gone(Err(e)),
    };
    for entry in entries {
        remove_empty(&entry?.path())?;
    }
    gone(std::fs::remove_dir(folder))
}

/// Mounts a file as a read-only EROFS.
pub(super) fn image(file: &Path, target: &Path) -> io::Result<()> {
    use rustix::mount::MountFlags;
    make(target, 0o755)?;
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    match rustix::mount::mount(file, target, "erofs", flags, None) {
        // Kernels before 6.12 mount block devices only.
        Err(rustix::io::Errno::NOTBLK) => image_by_loop(file, target),
        other => Ok(other?),
    }
}

fn image_by_loop(file: &Path, target: &Path) -> io::Result<()> {
    let mut command = Command::new("mount");
    command
        .args(["-t", "erofs", "-o", "loop,ro,nosuid,nodev"])
        .arg(file)
        .arg(target);
    let output = program::run(command.stderr(Stdio::piped()), program::TIMEOUT)?;
    if output.status.success() {
        Ok(())
    } else {
        Err(io::Error::other(
            String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        ))
    }
}

/// The mount points in a table of the form of /proc/self/mountinfo.
fn points(table: &[u8]) -> impl Iterator<Item = PathBuf> {
    table.split(|&byte| byte == b'\n').filter_map(|line| {
        let point = line.split(|&byte| byte == b' ').nth(4)?;
        Some(PathBuf::from(std::ffi::OsStr::from_bytes(&unescape(point))))
    })
}

/// The kernel writes space, tab, newline and backslash as three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, tail @ ..] = rest {
        let octal = tail.get(..3).filter(|_| *first == b'\\');
        let byte = octal
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        plain.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &tail[3..] } else { tail };
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_read_with_their_escapes() {
        let table = b"24 1 0:22 / /run rw - tmpfs tmpfs rw\n31 24 0:9 / /run/a\\040b\\134c rw - proc p rw\n";
        let read: Vec<_> = points(table).collect();
        assert_eq!(read, [PathBuf::from("/run"), PathBuf::from("/run/a b\\c")]);
    }

    #[test]
    fn only_empty_folders_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("a/b")).unwrap();
        std::fs::write(folder.path().join("a/b/file"), "kept").unwrap();
        assert!(clear(&folder.path().join("a")).is_err());
        assert!(folder.path().join("a/b/file").exists());
        std::fs::remove_file(folder.path().join("a/b/file")).unwrap();
        clear(&folder.path().join("a")).unwrap();
        assert!(!folder.path().join("a").exists());
    }
}
