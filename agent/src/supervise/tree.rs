//! Finding and killing the descendants of a process by way of `/proc`.

use std::{collections::HashSet, fs, thread, time::Duration};

use rustix::process::{Pid, PidfdFlags, Signal};

/// A process as `/proc` showed it a moment ago.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    parent: i32,
    /// Start time in clock ticks: tells a process from a later one with the same id.
    started: u64,
}

/// Returns the living descendants of `root`, zombies left out.
pub(crate) fn descendants(root: i32) -> Vec<Process> {
    let all = all();
    let mut family = HashSet::from([root]);
    // Ids wrap around, so parents need not come first: repeat until nothing is added.
    loop {
        let before = family.len();
        family.extend(
            all.iter()
                .filter(|(p, _)| family.contains(&p.parent))
                .map(|(p, _)| p.pid)
                .collect::<Vec<_>>(),
        );
        if family.len() == before {
            break;
        }
    }
    all.into_iter()
        .filter(|(process, zombie)| !zombie && process.pid != root && family.contains(&process.pid))
        .map(|(process, _)| process)
        .collect()
}

/// Returns the living and dead children of `parent`.
pub(crate) fn children(parent: i32) -> Vec<Process> {
    all()
        .into_iter()
        .map(|(process, _)| process)
        .filter(|p| p.parent == parent)
        .collect()
}

/// Sends a signal if the process is still the one that was seen.
pub(crate) fn signal(process: &Process, signal: Signal) {
    let Some(pid) = Pid::from_raw(process.pid) else {
        return;
    };
    let Ok(fd) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else {
        return;
    };
    // The descriptor pins the id: what is read here is what the signal reaches.
    if read(process.pid).is_some_and(|(found, _)| found.started == process.started) {
        let _ = rustix::process::pidfd_send_signal(&fd, signal);
    }
}

/// Kills every descendant of `root` and returns once there is none. Stops them first, so that a
/// program that forks faster than we look cannot get away.
pub(crate) fn kill(root: i32, look: Duration) {
    let mut stopped = HashSet::new();
    for _ in 0..PASSES_MAX {
        let fresh: Vec<_> = descendants(root)
            .into_iter()
            .filter(|p| stopped.insert((p.pid, p.started)))
            .collect();
        if fresh.is_empty() {
            break;
        }
        for process in &fresh {
            signal(process, Signal::STOP);
        }
    }
    loop {
        let alive = descendants(root);
        if alive.is_empty() {
            return;
        }
        for process in &alive {
            signal(process, Signal::KILL);
        }
        thread::sleep(look);
    }
}

/// Past this many rounds of stopping, killing alone has to win.
const PASSES_MAX: u32 = 20;

fn all() -> Vec<(Process, bool)> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(read)
        .collect()
}

/// Reads `/proc/<pid>/stat`; the flag tells a zombie.
fn read(pid: i32) -> Option<(Process, bool)> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in parentheses and may hold anything, parentheses too: start after the last.
    let after = stat.iter().rposition(|b| *b == b')')? + 1;
    let rest = std::str::from_utf8(stat.get(after..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let started = fields.nth(17)?.parse().ok()?;
    Some((
        Process {
            pid,
            parent,
            started,
        },
        matches!(state, "Z" | "X"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_itself_and_a_child() {
        let me = i32::try_from(std::process::id()).expect("an id");
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("sleep");
        let pid = i32::try_from(child.id()).expect("an id");
        assert!(children(me).iter().any(|p| p.pid == pid));
        let found = descendants(me)
            .into_iter()
            .find(|p| p.pid == pid)
            .expect("a descendant");
        let other = Process {
            started: found.started + 1,
            ..found
        };
        signal(&other, Signal::KILL);
        assert!(
            child.try_wait().expect("a status").is_none(),
            "another start time is another process"
        );
        signal(&found, Signal::KILL);
        assert!(!child.wait().expect("a status").success());
    }
}
