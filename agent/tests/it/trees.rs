//! Process trees: what a command starts ends with it when it must.

use std::time::Duration;

use cocoonbox_proto::{agent::v1::ExecStart, log::v1::exec_exited::Reason};
use tokio::time::Instant;

use crate::{
    execs::{NO_MODEL, bash, run},
    world::{World, eventually, mark, processes_with},
};

/// Children of a process, zombies included.
pub(crate) fn children_of(parent: u32) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("proc").flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let after = stat
            .rsplit_once(')')
            .map(|(_, rest)| rest)
            .unwrap_or_default();
        if after.split_ascii_whitespace().nth(1) == Some(&parent.to_string()) {
            found.push(pid);
        }
    }
    found
}

#[tokio::test]
async fn a_time_out_leaves_no_process() {
    let world = World::new("anthropic", NO_MODEL).await;
    let mark = mark();
    let begun = Instant::now();
    let exec = ExecStart {
        timeout_ms: 2_000,
        ..bash(&format!("sleep {mark}"))
    };
    let ran = run(&world, exec).await;
    let took = begun.elapsed();
    assert_eq!(ran.exited.reason(), Reason::TimedOut);
    assert!(
        took >= Duration::from_secs(2) && took < Duration::from_secs(6),
        "{took:?}"
    );
    assert!(processes_with(&mark).is_empty());
}

#[tokio::test]
async fn a_time_out_kills_daemons_too() {
    let world = World::new("anthropic", NO_MODEL).await;
    let mark = mark();
    let command = format!(
        "setsid bash -c 'trap \"\" TERM HUP; (setsid sleep {mark} &) ; sleep {mark}' & \
         nohup sleep {mark} >/dev/null 2>&1 & sleep {mark}"
    );
    let exec = ExecStart {
        timeout_ms: 1_000,
        ..bash(&command)
    };
    let ran = run(&world, exec).await;
    assert_eq!(ran.exited.reason(), Reason::TimedOut);
    assert!(processes_with(&mark).is_empty());
}

#[tokio::test]
async fn a_tree_that_forks_all_the_time_is_killed() {
    let world = World::new("anthropic", NO_MODEL).await;
    let mark = mark();
    let command =
        format!("exec -a x{mark} bash -c 'f() {{ sleep 0.02; (f &); sleep 0.1; }}; f; sleep 100'");
    let exec = ExecStart {
        timeout_ms: 700,
        ..bash(&command)
    };
    let ran = run(&world, exec).await;
    assert_eq!(ran.exited.reason(), Reason::TimedOut);
    assert!(processes_with(&mark).is_empty());
}

#[tokio::test]
async fn what_a_killed_supervisor_leaves_is_killed_and_reaped() {
    let world = World::new("anthropic", NO_MODEL).await;
    let mark = mark();
    // The command kills its own parent, the supervisor.
    let command = format!("setsid sleep {mark} & sleep 0.1; kill -9 $PPID; sleep {mark}");
    let ran = run(&world, bash(&command)).await;
    assert_eq!(ran.exited.reason(), Reason::Signalled);
    assert!(
        ran.exited.detail.contains("supervisor"),
        "{}",
        ran.exited.detail
    );
    eventually("strays are gone", || processes_with(&mark).is_empty()).await;
    let toolhost = world.toolhost_pid();
    eventually("no zombie is left", || children_of(toolhost).is_empty()).await;
}
