//! Processes as the host sees them.

use std::{fs, path::PathBuf};

use rustix::process::{Pid, Signal};

/// One process.
#[derive(Clone, Debug)]
pub struct Process {
    pub pid: i32,
    /// Arguments, parted by spaces; empty for a zombie.
    pub command: String,
    pub is_zombie: bool,
}

impl Process {
    /// Looks a process up; `None` if it is gone.
    pub fn find(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let state = stat.rsplit_once(") ")?.1.chars().next()?;
        Some(Self {
            pid,
            command: String::from_utf8_lossy(&command)
                .replace('\0', " ")
                .trim()
                .to_owned(),
            is_zombie: matches!(state, 'Z' | 'X'),
        })
    }

    pub fn kill(&self) {
        kill(self.pid);
    }

    /// Names and values, each ended by a zero byte; empty if it is gone.
    pub fn environment(&self) -> Vec<u8> {
        fs::read(format!("/proc/{}/environ", self.pid)).unwrap_or_default()
    }
}

/// Sends SIGKILL. Fine if it is gone.
pub fn kill(pid: i32) {
    signal(pid, Signal::KILL);
}

/// Sends SIGSTOP or SIGCONT.
pub(crate) fn freeze(pid: i32, is_frozen: bool) {
    signal(
        pid,
        if is_frozen {
            Signal::STOP
        } else {
            Signal::CONT
        },
    );
}

pub(crate) fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _gone = rustix::process::kill_process(pid, signal);
    }
}

/// Every process in cgroups whose folder is `cocoonbox/<name>` for a name that `wanted` takes.
pub fn in_cgroups(wanted: impl Fn(&str) -> bool) -> Vec<Process> {
    let mut pids = Vec::new();
    for folder in cgroups(wanted) {
        collect(&folder, &mut pids);
    }
    pids.sort_unstable();
    pids.dedup();
    pids.into_iter().filter_map(Process::find).collect()
}

/// The folders `cocoonbox/<name>` of every cgroup hierarchy, for names that `wanted` takes.
pub fn cgroups(wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mut folders = Vec::new();
    for line in mounts.lines().filter(|line| line.contains(" - cgroup")) {
        let Some(mounted_at) = line.split(' ').nth(4) else {
            continue;
        };
        let parent = PathBuf::from(mounted_at).join("cocoonbox");
        for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
            if entry.path().is_dir() && wanted(&entry.file_name().to_string_lossy()) {
                folders.push(entry.path());
            }
        }
    }
    folders
}

fn collect(folder: &PathBuf, pids: &mut Vec<i32>) {
    let list = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    pids.extend(list.lines().filter_map(|pid| pid.parse::<i32>().ok()));
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            collect(&entry.path(), pids);
        }
    }
}

/// Watches how much memory a process takes at most.
#[derive(Debug)]
pub struct MemoryWatch {
    pid: i32,
    before_bytes: u64,
}

impl MemoryWatch {
    /// Starts from what the process has at this moment.
    pub fn start(pid: i32) -> Self {
        // 5: forget the peak so far.
        let _gone = fs::write(format!("/proc/{pid}/clear_refs"), "5");
        Self {
            pid,
            before_bytes: field(pid, "VmRSS:"),
        }
    }

    /// Returns by how much the peak since the start is above what it was then.
    pub fn growth_bytes(&self) -> u64 {
        field(self.pid, "VmHWM:").saturating_sub(self.before_bytes)
    }
}

fn field(pid: i32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or_else(|| panic!("process {pid} has no `{name}`: it is gone")) * 1024
}
