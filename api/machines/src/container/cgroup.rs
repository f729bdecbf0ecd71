//! The box's cgroup in whatever hierarchies the host has: version 1, version 2, or both.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal};

use super::layout::gone;
use crate::machine::Usage;

/// Killing is immediate, but the kernel takes a while to let go of memory and mounts.
const EMPTY_WAIT: Duration = Duration::from_secs(10);
const EMPTY_STEP: Duration = Duration::from_millis(5);

/// The cgroup hierarchies of this host.
#[derive(Debug)]
pub(super) struct Hierarchies(Vec<Hierarchy>);

#[derive(Debug, PartialEq, Eq)]
struct Hierarchy {
    mounted_at: PathBuf,
    /// Version 1 only: what it controls.
    controllers: Vec<String>,
    unified: bool,
}

/// One cgroup, as a folder in each hierarchy that has it.
pub(super) struct Cgroup<'a> {
    hierarchies: &'a Hierarchies,
    path: &'a str,
}

impl Hierarchies {
    pub(super) fn find() -> io::Result<Self> {
        Ok(Self(parse(&std::fs::read_to_string(
            "/proc/self/mountinfo",
        )?)))
    }

    pub(super) fn at<'a>(&'a self, path: &'a str) -> Cgroup<'a> {
        Cgroup {
            hierarchies: self,
            path,
        }
    }

    /// Whether version 2 controls resources, and not only some version 1 hierarchies.
    pub(super) fn are_unified(&self) -> bool {
        self.0.iter().all(|hierarchy| hierarchy.unified)
    }
}

impl Cgroup<'_> {
    /// Whether the process is in this cgroup. Nothing in a box can leave it or join it.
    pub(super) fn holds(&self, pid: Pid) -> bool {
        std::fs::read_to_string(format!("/proc/{}/cgroup", pid.as_raw_nonzero()))
            .is_ok_and(|list| list.lines().any(|line| line.ends_with(self.path)))
    }

    /// Kills everything in the cgroup, waits until it is empty, and removes it.
    pub(super) fn destroy(&self) -> io::Result<()> {
        let deadline = Instant::now() + EMPTY_WAIT;
        let folders: Vec<_> = self.folders().collect();
        for folder in &folders {
            // A frozen process does not die. Whichever of the files exists is the right one.
            let _absent = write(&folder.join("freezer.state"), "THAWED");
            let _absent = write(&folder.join("cgroup.freeze"), "0");
            let _absent = write(&folder.join("cgroup.kill"), "1");
        }
        for folder in &folders {
            loop {
                for pid in processes(folder)? {
                    self.kill(pid)?;
                }
                match remove(folder) {
                    Ok(()) => break,
                    Err(_) if Instant::now() < deadline => std::thread::sleep(EMPTY_STEP),
                    Err(e) => return Err(e),
                }
            }
        }
        Ok(())
    }

    pub(super) fn usage(&self) -> Usage {
        // Page cache that the kernel gives back when asked is not "used" to a person.
        let memory = self
            .number("memory", "memory.current")
            .or_else(|| self.number("memory", "memory.usage_in_bytes"));
        let cache = self
            .field("memory", "memory.stat", "inactive_file")
            .max(self.field("memory", "memory.stat", "total_inactive_file"));
        let cpu_us = self
            .field("cpu", "cpu.stat", "usage_usec")
            .or_else(|| self.number("cpuacct", "cpuacct.usage").map(|ns| ns / 1000));
        Usage {
            memory_bytes: memory.unwrap_or(0).saturating_sub(cache.unwrap_or(0)),
            cpu_us: cpu_us.unwrap_or(0),
            disk_bytes: 0,
            pids: self
                .number("pids", "pids.current")
                .map_or(0, |pids| u32::try_from(pids).unwrap_or(u32::MAX)),
        }
    }

    /// Processes that were killed because the cgroup's memory was full.
    pub(super) fn memory_kills(&self) -> u64 {
        self.field("memory", "memory.events", "oom_kill")
            .or_else(|| self.field("memory", "memory.oom_control", "oom_kill"))
            .unwrap_or(0)
    }

    fn folders(&self) -> impl Iterator<Item = PathBuf> {
        let path = self.path.trim_start_matches('/');
        let all = self
            .hierarchies
            .0
            .iter()
            .map(move |hierarchy| hierarchy.mounted_at.join(path));
        all.filter(|folder| folder.is_dir())
    }

    fn kill(&self, pid: Pid) -> io::Result<()> {
        use rustix::io::Errno;
        let handle = match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
            Err(Errno::SRCH) => return Ok(()),
            other => other?,
        };
        // Between the list and the handle the number may have gone to somebody else.
        if !self.holds(pid) {
            return Ok(());
        }
        match rustix::process::pidfd_send_signal(handle, Signal::KILL) {
            Err(Errno::SRCH) => Ok(()),
            other => Ok(other?),
        }
    }

    /// Reads a file of the hierarchy that has `controller`.
    fn read(&self, controller: &str, file: &str) -> Option<String> {
        let path = self.path.trim_start_matches('/');
        let mut having = self.hierarchies.0.iter().filter(|hierarchy| {
            hierarchy.unified || hierarchy.controllers.iter().any(|name| name == controller)
        });
        having.find_map(|hierarchy| {
            std::fs::read_to_string(hierarchy.mounted_at.join(path).join(file)).ok()
        })
    }

    fn number(&self, controller: &str, file: &str) -> Option<u64> {
        self.read(controller, file)?.trim().parse().ok()
    }

    fn field(&self, controller: &str, file: &str, field: &str) -> Option<u64> {
        let text = self.read(controller, file)?;
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        lines
            .find(|(name, _)| *name == field)?
            .1
            .trim()
            .parse()
            .ok()
    }
}

fn write(file: &Path, text: &str) -> io::Result<()> {
    // Not `fs::write`: a cgroup file must not be created or truncated.
    std::io::Write::write_all(
        &mut std::fs::OpenOptions::new().write(true).open(file)?,
        text.as_bytes(),
    )
}

/// The processes of a cgroup folder and of those below it.
fn processes(folder: &Path) -> io::Result<Vec<Pid>> {
    let list = match std::fs::read_to_string(folder.join("cgroup.procs")) {
        Ok(list) => list,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        // A version 2 cgroup with threads of its own says so in place of a list; `cgroup.kill` reached it.
        Err(e) if e.raw_os_error() == Some(libc::EOPNOTSUPP) => String::new(),
        // The folder went away while it was read.
        Err(e) if e.raw_os_error() == Some(libc::ENODEV) => return Ok(Vec::new()),
        Err(e) => return Err(e),
    };
    let mut all: Vec<_> = list
        .lines()
        .filter_map(|line| Pid::from_raw(line.parse().ok()?))
        .collect();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            all.extend(processes(&entry.path())?);
        }
    }
    Ok(all)
}

fn remove(folder: &Path) -> io::Result<()> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) => return gone(Err(e)),
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove(&entry.path())?;
        }
    }
    gone(std::fs::remove_dir(folder))
}

fn parse(table: &str) -> Vec<Hierarchy> {
    let mut found: Vec<Hierarchy> = Vec::new();
    for line in table.lines() {
        let Some((mount, filesystem)) = line.split_once(" - ") else {
            continue;
        };
        let mut filesystem = filesystem.split(' ');
        let kind = filesystem.next().unwrap_or("");
        let options = filesystem.nth(1).unwrap_or("");
        let Some(mounted_at) = mount.split(' ').nth(4).map(PathBuf::from) else {
            continue;
        };
        // A second mount of the same hierarchy, as seen in nested containers, adds nothing.
        let unified = kind == "cgroup2";
        if !(unified || kind == "cgroup")
            || found.iter().any(|other| other.mounted_at == mounted_at)
        {
            continue;
        }
        let controllers = if unified { "" } else { options };
        let controllers = controllers.split(',').map(str::to_owned).collect();
        found.push(Hierarchy {
            mounted_at,
            controllers,
            unified,
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hierarchies_of_both_versions_are_found() {
        let hybrid = parse(
            "30 25 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n\
             31 30 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
             32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n",
        );
        assert_eq!(hybrid.len(), 2);
        assert!(hybrid[0].unified && !hybrid[1].unified);
        assert!(hybrid[1].controllers.contains(&"cpuacct".to_owned()));
        assert!(!Hierarchies(hybrid).are_unified());

        let pure =
            parse("30 25 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
        assert!(Hierarchies(pure).are_unified());
    }
}
