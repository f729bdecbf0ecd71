//! The OCI configuration of a box: what it sees, what it may do, how much it may use.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use oci_spec::OciSpecError;
use oci_spec::runtime::{
    Capability, Linux, LinuxBlockIo, LinuxBlockIoBuilder, LinuxBuilder, LinuxCapabilitiesBuilder,
    LinuxCpuBuilder, LinuxDeviceCgroupBuilder, LinuxIdMappingBuilder, LinuxMemoryBuilder,
    LinuxNamespaceBuilder, LinuxNamespaceType, LinuxPidsBuilder, LinuxResources,
    LinuxResourcesBuilder, LinuxThrottleDeviceBuilder, Mount, MountBuilder, PosixRlimit,
    PosixRlimitBuilder, PosixRlimitType, Process, ProcessBuilder, RootBuilder, Spec, SpecBuilder,
    UserBuilder,
};

use super::io_device::Device;
use super::layout::BoxLayout;
use super::mounts::IDS;
use super::{agent, seccomp};
use crate::machine::Limits;

/// Where the agent's folder is shown in a box.
const AGENT_FOLDER: &str = "/run/cocoonbox/bin";

/// The image's /etc/hosts names it, so that the box's own name resolves.
const HOSTNAME: &str = "box";

/// Build tools and browsers open thousands; a leak still ends somewhere.
const FILES_MAX: u64 = 65_536;

const CPU_PERIOD_US: u64 = 100_000;

/// What init needs to own its files, to become the users that the work is done as, and to signal them.
const CAPABILITIES: [Capability; 6] = [
    Capability::Chown,
    Capability::DacOverride,
    Capability::Fowner,
    Capability::Kill,
    Capability::Setgid,
    Capability::Setuid,
];

/// What tells of the host and not of the box: memory and symbols of the kernel, keys, its devices and what
/// they do, power, firmware. Names that a kernel does not have are passed over.
const MASKED: [&str; 20] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/diskstats",
    "/proc/interrupts",
    "/proc/kallsyms",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/modules",
    "/proc/partitions",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/softirqs",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/block",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
    "/sys/module",
    "/sys/power",
];

const READ_ONLY: [&str; 5] = [
    "/proc/bus",
    "/proc/fs",
    "/proc/irq",
    "/proc/sys",
    "/proc/sysrq-trigger",
];

/// What differs from box to box.
pub(super) struct Bundle<'a> {
    pub(super) of: &'a BoxLayout,
    pub(super) root: PathBuf,
    pub(super) uid_base: u32,
    pub(super) limits: Limits,
    /// Whether swap can be capped for certain, which version 1 hierarchies do only with a boot option.
    pub(super) cap_swap: bool,
    /// The disk that is limited, where there is one.
    pub(super) device: Option<Device>,
}

impl Bundle<'_> {
    pub(super) fn write(&self) -> io::Result<()> {
        let spec = self.spec().map_err(io::Error::other)?;
        std::fs::write(
            self.of.bundle().join("config.json"),
            serde_json::to_vec(&spec)?,
        )
    }

    fn spec(&self) -> Result<Spec, OciSpecError> {
        SpecBuilder::default()
            .version("1.0.2")
            .hostname(HOSTNAME)
            .root(
                RootBuilder::default()
                    .path(&self.root)
                    .readonly(false)
                    .build()?,
            )
            .process(process()?)
            .mounts(self.mounts()?)
            .linux(self.linux()?)
            .build()
    }

    fn mounts(&self) -> Result<Vec<Mount>, OciSpecError> {
        let half = format!("size={}k", self.limits.memory_bytes / 2 / 1024);
        let mut mounts = vec![
            special("/proc", "proc", &["nosuid", "noexec", "nodev"])?,
            special(
                "/dev",
                "tmpfs",
                &["nosuid", "strictatime", "mode=755", "size=1024k"],
            )?,
            special(
                "/dev/pts",
                "devpts",
                &[
                    "nosuid",
                    "noexec",
                    "newinstance",
                    "ptmxmode=0666",
                    "mode=0620",
                    "gid=5",
                ],
            )?,
            special(
                "/dev/shm",
                "tmpfs",
                &["nosuid", "noexec", "nodev", "mode=1777", &half],
            )?,
            special("/dev/mqueue", "mqueue", &["nosuid", "noexec", "nodev"])?,
            special("/sys", "sysfs", &["nosuid", "noexec", "nodev", "ro"])?,
            special(
                "/run",
                "tmpfs",
                &["nosuid", "nodev", "mode=755", "size=64m"],
            )?,
            special("/tmp", "tmpfs", &["nosuid", "nodev", "mode=1777", &half])?,
        ];
        for (name, target) in BINDS {
            mounts.push(bind(&self.of.mount_point(name), target)?);
        }
        Ok(mounts)
    }

    fn linux(&self) -> Result<Linux, OciSpecError> {
        use LinuxNamespaceType::{Cgroup, Ipc, Mount, Network, Pid, User, Uts};
        let mut namespaces = Vec::new();
        for kind in [User, Pid, Network, Ipc, Uts, Mount, Cgroup] {
            namespaces.push(LinuxNamespaceBuilder::default().typ(kind).build()?);
        }
        let ids = [LinuxIdMappingBuilder::default()
            .container_id(0_u32)
            .host_id(self.uid_base)
            .size(IDS)
            .build()?];
        LinuxBuilder::default()
            .namespaces(namespaces)
            .uid_mappings(ids)
            .gid_mappings(ids)
            .cgroups_path(&self.of.cgroup)
            .resources(self.resources()?)
            .seccomp(seccomp::filter()?)
            .masked_paths(MASKED.map(str::to_owned))
            .readonly_paths(READ_ONLY.map(str::to_owned))
            .build()
    }

    fn resources(&self) -> Result<LinuxResources, OciSpecError> {
        let bytes = i64::try_from(self.limits.memory_bytes).unwrap_or(i64::MAX);
        let mut memory = LinuxMemoryBuilder::default().limit(bytes);
        if self.cap_swap {
            // Memory and swap together: no swap.
            memory = memory.swap(bytes);
        }
        let quota = u64::from(self.limits.cpu_millis) * CPU_PERIOD_US / 1000;
        let cpu = LinuxCpuBuilder::default()
            .quota(i64::try_from(quota).unwrap_or(i64::MAX))
            .period(CPU_PERIOD_US)
            .shares(512_u64);
        let pids = LinuxPidsBuilder::default().limit(i64::from(self.limits.pids.max(1)));
        // The runtime allows null, zero, full, random, urandom, tty and pseudo terminals by itself.
        let none = LinuxDeviceCgroupBuilder::default()
            .allow(false)
            .access("rwm")
            .build()?;
        let mut resources = LinuxResourcesBuilder::default()
            .memory(memory.build()?)
            .cpu(cpu.build()?)
            .pids(pids.build()?)
            .devices([none]);
        if let Some(limited) = self.block_io()? {
            resources = resources.block_io(limited);
        }
        resources.build()
    }

    fn block_io(&self) -> Result<Option<LinuxBlockIo>, OciSpecError> {
        let (Some(rate), Some(device)) = (self.limits.io_bytes_per_second, self.device) else {
            return Ok(None);
        };
        let limit = LinuxThrottleDeviceBuilder::default()
            .major(device.major)
            .minor(device.minor)
            .rate(rate)
            .build()?;
        LinuxBlockIoBuilder::default()
            .throttle_read_bps_device(vec![limit])
            .throttle_write_bps_device(vec![limit])
            .build()
            .map(Some)
    }
}

/// Mount points of the box outside, and where they are shown inside.
pub(super) const BINDS: [(&str, &str); 5] = [
    ("home", "/home/user"),
    ("workspace", "/workspace"),
    ("agent", "/var/lib/cocoonbox"),
    ("identity", "/run/cocoonbox-identity"),
    ("bin", AGENT_FOLDER),
];

fn process() -> Result<Process, OciSpecError> {
    let held: HashSet<_> = CAPABILITIES.into_iter().collect();
    let none = HashSet::new();
    let capabilities = LinuxCapabilitiesBuilder::default()
        .bounding(held.clone())
        .effective(held.clone())
        .permitted(held)
        .inheritable(none.clone())
        .ambient(none)
        .build()?;
    ProcessBuilder::default()
        .terminal(false)
        .user(UserBuilder::default().uid(0_u32).gid(0_u32).build()?)
        .args([format!("{AGENT_FOLDER}/{}", agent::NAME), "init".to_owned()])
        .cwd("/")
        .env(
            [
                "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                "HOME=/root",
                "LANG=C.UTF-8",
                "container=oci",
            ]
            .map(str::to_owned),
        )
        .capabilities(capabilities)
        .no_new_privileges(true)
        .rlimits([
            limit(PosixRlimitType::RlimitNofile, files_max())?,
            // A core file would be written to whatever the host has for them.
            limit(PosixRlimitType::RlimitCore, 0)?,
        ])
        .build()
}

/// The runtime can lower the hard limit for sure, and raise it only where root may do everything.
fn files_max() -> u64 {
    let own = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
    own.map_or(FILES_MAX, |own| own.min(FILES_MAX))
}

fn limit(kind: PosixRlimitType, value: u64) -> Result<PosixRlimit, OciSpecError> {
    PosixRlimitBuilder::default()
        .typ(kind)
        .soft(value)
        .hard(value)
        .build()
}

fn special(target: &str, kind: &str, options: &[&str]) -> Result<Mount, OciSpecError> {
    MountBuilder::default()
        .destination(target)
        .typ(kind)
        .source(kind)
        .options(options.iter().map(ToString::to_string).collect::<Vec<_>>())
        .build()
}

/// The flags of a bind are those of its source, which the driver has set; asked for again, the runtime
/// would remount, and a user namespace may not.
fn bind(source: &Path, target: &str) -> Result<Mount, OciSpecError> {
    MountBuilder::default()
        .destination(target)
        .typ("bind")
        .source(source)
        .options(["bind".to_owned()])
        .build()
}
