//! The few calls to the kernel that have no safe wrapper.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::mount::MountAttrFlags;
use rustix::process::Signal;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// `struct mount_attr` of linux/mount.h, version 0.
#[repr(C)]
struct MountAttr {
    set: u64,
    clear: u64,
    propagation: u64,
    userns: u64,
}

/// Sets attributes on a detached mount; with `userns`, shows its files by that namespace's id map.
pub(super) fn set_mount_attributes(
    tree: BorrowedFd<'_>,
    attributes: MountAttrFlags,
    userns: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let mut attr = MountAttr {
        set: u64::from(attributes.bits()),
        clear: 0,
        propagation: 0,
        userns: 0,
    };
    if let Some(userns) = userns {
        attr.set |= u64::from(MountAttrFlags::MOUNT_ATTR_IDMAP.bits());
        attr.userns = u64::try_from(userns.as_raw_fd()).expect("a borrowed descriptor is open");
    }
    #[expect(unsafe_code, reason = "mount_setattr has no wrapper in rustix or libc")]
    // SAFETY: the path is a NUL-terminated literal, `attr` lives over the call and its size is passed with
    // it; the kernel reads both and writes neither.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            &raw const attr,
            size_of::<MountAttr>(),
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Sets the ids that the calling thread uses on file systems. Meant for a thread that ends afterwards.
pub(super) fn set_file_system_ids(id: u32) -> io::Result<()> {
    #[expect(unsafe_code, reason = "setfsuid and setfsgid are only in libc")]
    // SAFETY: both calls take a number and change the calling thread alone.
    let (uid, gid) = unsafe {
        // The calls give no error; a second one with an impossible id tells what is set.
        libc::setfsgid(id);
        libc::setfsuid(id);
        (libc::setfsuid(u32::MAX), libc::setfsgid(u32::MAX))
    };
    if uid.cast_unsigned() == id && gid.cast_unsigned() == id {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(libc::EPERM))
    }
}

/// Makes the child die when the thread that starts it does.
///
/// Without it, a runtime call orphaned by a killed api would go on making a box while its successor
/// cleans up.
pub(super) fn die_with_parent(command: &mut Command) {
    let parent = rustix::process::getpid();
    let arm = move || {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        if rustix::process::getppid() == Some(parent) {
            Ok(())
        } else {
            Err(io::Error::from_raw_os_error(libc::ESRCH))
        }
    };
    #[expect(unsafe_code, reason = "code between fork and exec")]
    // SAFETY: the closure makes two system calls, allocates nothing and takes no lock.
    unsafe {
        command.pre_exec(arm);
    }
}

/// Starts the child in a user namespace of its own, which has no id map yet.
pub(super) fn in_new_user_namespace(command: &mut Command) {
    let enter = || {
        #[expect(unsafe_code, reason = "unshare, between fork and exec")]
        // SAFETY: a child after fork has one thread, and NEWUSER does not unshare its descriptors.
        let entered =
            unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWUSER) };
        entered.map_err(io::Error::from)
    };
    #[expect(unsafe_code, reason = "code between fork and exec")]
    // SAFETY: the closure makes one system call, allocates nothing and takes no lock.
    unsafe {
        command.pre_exec(enter);
    }
}

/// Registers a descriptor with the runtime, to be told when it is readable.
pub(super) fn watch(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    #[expect(unsafe_code, reason = "the safe constructors are deprecated")]
    // SAFETY: an owned descriptor is open and stays the same one until it is dropped.
    let watched = unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) };
    Ok(watched?)
}
