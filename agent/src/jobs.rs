//! What runs in the box of its own accord: why it should not be put to sleep for being idle.

use std::{collections::HashMap, fs};

use crate::supervise;

/// Programs that wait for a person when they are alone at a terminal.
const SHELLS: [&str; 5] = ["bash", "sh", "dash", "zsh", "fish"];

/// One process, as `/proc` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Process {
    pid: i32,
    parent: i32,
    name: String,
    /// It has a controlling terminal.
    is_at_terminal: bool,
    /// It holds a command together.
    is_supervisor: bool,
}

/// Counts the commands that run or have left something running, by what is below their supervisors. A shell that
/// waits at its prompt is none.
pub(crate) fn count() -> usize {
    let Ok(entries) = fs::read_dir("/proc") else {
        return 0;
    };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let all: Vec<Process> = pids.filter_map(read).collect();
    of(&all)
}

fn of(all: &[Process]) -> usize {
    let mut children: HashMap<i32, Vec<&Process>> = HashMap::new();
    for process in all {
        children.entry(process.parent).or_default().push(process);
    }
    let supervisors = all.iter().filter(|process| process.is_supervisor);
    supervisors
        .filter(|supervisor| {
            let below = children.get(&supervisor.pid).map_or(&[][..], Vec::as_slice);
            match below {
                [] => false,
                [shell] if shell.is_at_terminal && SHELLS.contains(&shell.name.as_str()) => {
                    children.contains_key(&shell.pid)
                }
                _ => true,
            }
        })
        .count()
}

fn read(pid: i32) -> Option<Process> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // The name stands in parentheses and may hold anything, parentheses too.
    let (before, after) = stat.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    let fields: Vec<&str> = after.split_ascii_whitespace().collect();
    if matches!(*fields.first()?, "Z" | "X") {
        return None;
    }
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let first = line.split(|byte| *byte == 0).next();
    Some(Process {
        pid,
        parent: fields.get(1)?.parse().ok()?,
        name: name.to_owned(),
        is_at_terminal: *fields.get(4)? != "0",
        is_supervisor: first == Some(supervise::NAME.as_bytes()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, parent: i32, name: &str) -> Process {
        Process {
            pid,
            parent,
            name: name.to_owned(),
            is_at_terminal: false,
            is_supervisor: name == "run",
        }
    }

    #[test]
    fn a_shell_at_its_prompt_is_no_job_and_what_it_runs_is_one() {
        let mut all = vec![process(1, 0, "init"), process(2, 1, "toolhost")];
        assert_eq!(of(&all), 0);
        // One that is about to start its command, or to end.
        all.push(process(3, 2, "run"));
        assert_eq!(of(&all), 0);
        let shell = Process {
            is_at_terminal: true,
            ..process(4, 3, "bash")
        };
        all.push(shell);
        assert_eq!(of(&all), 0);
        all.push(process(5, 4, "make"));
        assert_eq!(of(&all), 1);
        // A script without a terminal, and a daemon that its command has left.
        all.extend([process(6, 2, "run"), process(7, 6, "bash")]);
        all.extend([process(8, 2, "run"), process(9, 8, "server")]);
        assert_eq!(of(&all), 3);
    }

    #[test]
    fn a_process_is_read() {
        let me = i32::try_from(std::process::id()).expect("an id");
        let found = read(me).expect("it runs");
        assert!(found.pid == me && !found.is_supervisor && found.parent > 0);
    }
}
