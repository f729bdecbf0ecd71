//! System calls that a box may not make.

use oci_spec::OciSpecError;
use oci_spec::runtime::{
    Arch, LinuxSeccomp, LinuxSeccompAction, LinuxSeccompArgBuilder, LinuxSeccompBuilder,
    LinuxSeccompOperator, LinuxSyscall, LinuxSyscallBuilder,
};

/// Everything else passes: a browser needs `clone`, `unshare` and `chroot` for a sandbox of its own, and
/// that sandbox is worth more than a list that forbids them. Mounts are refused in nested namespaces, too.
const REFUSED: &[&str] = &[
    "_sysctl",
    "acct",
    "add_key",
    "bpf",
    "clock_adjtime",
    "clock_settime",
    "create_module",
    "delete_module",
    "fanotify_init",
    "finit_module",
    "fsconfig",
    "fsmount",
    "fsopen",
    "fspick",
    "get_kernel_syms",
    "init_module",
    "io_uring_enter",
    "io_uring_register",
    "io_uring_setup",
    "ioperm",
    "iopl",
    "kcmp",
    "kexec_file_load",
    "kexec_load",
    "keyctl",
    "lookup_dcookie",
    "mbind",
    "migrate_pages",
    "mount",
    "mount_setattr",
    "move_mount",
    "move_pages",
    "name_to_handle_at",
    "nfsservctl",
    "open_by_handle_at",
    "open_tree",
    "perf_event_open",
    "pivot_root",
    "process_madvise",
    "process_vm_readv",
    "process_vm_writev",
    "query_module",
    "quotactl",
    "quotactl_fd",
    "reboot",
    "request_key",
    "set_mempolicy",
    "setns",
    "settimeofday",
    "stime",
    "swapoff",
    "swapon",
    "sysfs",
    "syslog",
    "umount",
    "umount2",
    "uselib",
    "userfaultfd",
    "ustat",
    "vhangup",
    "vm86",
    "vm86old",
];

/// Socket families that pass; all of them lie at or below [`FAMILY_MAX`].
const FAMILIES: [u64; 4] = [
    libc::AF_UNIX as u64,
    libc::AF_INET as u64,
    libc::AF_INET6 as u64,
    libc::AF_NETLINK as u64,
];
const FAMILY_MAX: u64 = libc::AF_NETLINK as u64;

const EPERM: u32 = 1;
const EAFNOSUPPORT: u32 = 97;

/// Builds the filter. Only the machine's own architecture is listed, so 32-bit calls, which would be a
/// second way in past every rule here, kill their caller.
pub(super) fn filter() -> Result<LinuxSeccomp, OciSpecError> {
    let mut rules = vec![
        LinuxSyscallBuilder::default()
            .names(REFUSED.iter().map(ToString::to_string).collect::<Vec<_>>())
            .action(LinuxSeccompAction::ScmpActErrno)
            .errno_ret(EPERM)
            .build()?,
        // The kernel takes the low half of the argument and the filter compares all of it: "greater"
        // catches a family with bits in the high half.
        socket_rule(FAMILY_MAX, LinuxSeccompOperator::ScmpCmpGt)?,
    ];
    for family in (0..FAMILY_MAX).filter(|family| !FAMILIES.contains(family)) {
        rules.push(socket_rule(family, LinuxSeccompOperator::ScmpCmpEq)?);
    }
    let architectures: &[Arch] = match std::env::consts::ARCH {
        "x86_64" => &[Arch::ScmpArchX86_64],
        "aarch64" => &[Arch::ScmpArchAarch64],
        // The runtime adds the machine's own.
        _ => &[],
    };
    LinuxSeccompBuilder::default()
        .default_action(LinuxSeccompAction::ScmpActAllow)
        .architectures(architectures)
        .syscalls(rules)
        .build()
}

fn socket_rule(family: u64, operator: LinuxSeccompOperator) -> Result<LinuxSyscall, OciSpecError> {
    let family = LinuxSeccompArgBuilder::default()
        .index(0_usize)
        .value(family)
        .op(operator)
        .build()?;
    LinuxSyscallBuilder::default()
        .names(["socket".to_owned()])
        .action(LinuxSeccompAction::ScmpActErrno)
        .errno_ret(EAFNOSUPPORT)
        .args([family])
        .build()
}
