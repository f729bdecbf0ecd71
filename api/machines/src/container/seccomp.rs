//! System calls that a box may make.

mod calls;

use oci_spec::OciSpecError;
use oci_spec::runtime::{
    Arch, LinuxSeccomp, LinuxSeccompAction, LinuxSeccompArg, LinuxSeccompArgBuilder,
    LinuxSeccompBuilder, LinuxSeccompOperator, LinuxSyscall, LinuxSyscallBuilder,
};

use calls::{ALLOWED, REFUSED};

/// Socket families that pass; all of them lie at or below [`FAMILY_MAX`].
const FAMILIES: [u64; 4] = [
    libc::AF_UNIX as u64,
    libc::AF_INET as u64,
    libc::AF_INET6 as u64,
    libc::AF_NETLINK as u64,
];
const FAMILY_MAX: u64 = libc::AF_NETLINK as u64;

/// What a program may ask to be: plain Linux, without address randomisation (debuggers), with the two flags of
/// other systems' programs, and what asks without changing anything. Others switch protections off.
const PERSONALITIES: [u64; 6] = [
    0,
    0x0004_0000,
    0x0008,
    0x0002_0000,
    0x0002_0008,
    0xffff_ffff,
];

const EPERM: u32 = 1;
const ENOSYS: u32 = 38;
const EAFNOSUPPORT: u32 = 97;

/// Builds the filter. What is on no list does not exist (`ENOSYS`), so that a C library which is newer than this
/// list falls back to what it did before; what is known and refused says so (`EPERM`). Only the machine's own
/// architecture is listed, so 32-bit calls, which would be a second way in past every rule here, kill their
/// caller.
pub(super) fn filter() -> Result<LinuxSeccomp, OciSpecError> {
    let mut rules = vec![
        rule(ALLOWED, None, None)?,
        rule(REFUSED, Some(EPERM), None)?,
        // The kernel takes the low half of the argument and the filter compares all of it: "greater"
        // catches a family with bits in the high half.
        rule(
            &["socket"],
            Some(EAFNOSUPPORT),
            Some(first(FAMILY_MAX, LinuxSeccompOperator::ScmpCmpGt)?),
        )?,
        // There are no pairs of others.
        rule(&["socketpair"], None, Some(equals(libc::AF_UNIX as u64)?))?,
    ];
    for family in 0..=FAMILY_MAX {
        let refusal = (!FAMILIES.contains(&family)).then_some(EAFNOSUPPORT);
        rules.push(rule(&["socket"], refusal, Some(equals(family)?))?);
    }
    for personality in PERSONALITIES {
        rules.push(rule(&["personality"], None, Some(equals(personality)?))?);
    }
    let architectures: &[Arch] = match std::env::consts::ARCH {
        "x86_64" => &[Arch::ScmpArchX86_64],
        "aarch64" => &[Arch::ScmpArchAarch64],
        // The runtime adds the machine's own.
        _ => &[],
    };
    LinuxSeccompBuilder::default()
        .default_action(LinuxSeccompAction::ScmpActErrno)
        .default_errno_ret(ENOSYS)
        .architectures(architectures)
        .syscalls(rules)
        .build()
}

/// Lets calls pass, or ends them with an error.
fn rule(
    names: &[&str],
    refusal: Option<u32>,
    arg: Option<LinuxSeccompArg>,
) -> Result<LinuxSyscall, OciSpecError> {
    let names: Vec<_> = names.iter().map(ToString::to_string).collect();
    let mut rule = LinuxSyscallBuilder::default().names(names);
    rule = match refusal {
        None => rule.action(LinuxSeccompAction::ScmpActAllow),
        Some(errno) => rule
            .action(LinuxSeccompAction::ScmpActErrno)
            .errno_ret(errno),
    };
    if let Some(arg) = arg {
        rule = rule.args([arg]);
    }
    rule.build()
}

fn equals(value: u64) -> Result<LinuxSeccompArg, OciSpecError> {
    first(value, LinuxSeccompOperator::ScmpCmpEq)
}

/// A condition on the first argument.
fn first(value: u64, operator: LinuxSeccompOperator) -> Result<LinuxSeccompArg, OciSpecError> {
    LinuxSeccompArgBuilder::default()
        .index(0_usize)
        .value(value)
        .op(operator)
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_call_is_on_two_lists_and_lists_are_sorted() {
        for list in [ALLOWED, REFUSED] {
            assert!(list.is_sorted_by(|a, b| a < b));
        }
        let both: Vec<_> = ALLOWED
            .iter()
            .filter(|call| REFUSED.contains(call))
            .collect();
        assert!(both.is_empty(), "{both:?}");
    }
}
