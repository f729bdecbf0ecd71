//! Commands that do their worst: each is ended or bounded, and the next one is served.

use std::time::Duration;

use cocoonbox_proto::{
    agent::v1::{ExecStart, exec_response::Frame},
    log::v1::{agent_tool_finished::Outcome, exec_exited::Reason},
};
use tokio::time::Instant;

use crate::{
    execs::{NO_MODEL, bash, run, start},
    turns::results,
    world::{World, eventually, mark, processes_with, resident_bytes},
};

/// Runs one command as a model's tool and returns what the model is told.
async fn told(command: &str) -> (Outcome, String) {
    let call = serde_json::json!({ "command": command, "timeout_ms": 20_000 });
    let call = call["command"].to_string();
    let script = format!(
        "[[conversation]]\n[[conversation.step]]\ntools = [{{ name = \"shell\", args = {{ command = {call}, \
         timeout_ms = 20000 }} }}]\n[[conversation.step]]\ntext = \"done\"\n"
    );
    let world = World::new("anthropic", &script).await;
    world.send("go").await;
    let events = world.until_kind("agent.turn_ended").await;
    let finished = results(&events).remove(0);
    (finished.outcome(), finished.content)
}

#[tokio::test]
async fn what_ignores_every_request_to_end_is_killed_within_a_second() {
    let world = World::new("anthropic", NO_MODEL).await;
    let mark = mark();
    let command = format!(
        "trap '' TERM INT HUP; (trap '' TERM HUP; setsid sleep {mark} &) ; echo up; while :; do sleep {mark}; done"
    );
    let mut stream = start(&world, bash(&command)).await.expect("started");
    loop {
        let frame = stream
            .message()
            .await
            .expect("a frame")
            .expect("not the end");
        if matches!(frame.frame, Some(Frame::Output(_))) {
            break;
        }
    }
    let begun = Instant::now();
    world
        .box_log()
        .quiesce(cocoonbox_proto::agent::v1::QuiesceRequest {})
        .await
        .expect("quiet");
    eventually("it is gone", || processes_with(&mark).is_empty()).await;
    assert!(
        begun.elapsed() < Duration::from_secs(3),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test]
async fn a_closed_output_is_no_end() {
    let world = World::new("anthropic", NO_MODEL).await;
    let mark = mark();
    let exec = ExecStart {
        timeout_ms: 1_000,
        ..bash(&format!("echo last; exec 1>&- 2>&-; sleep {mark}"))
    };
    let begun = Instant::now();
    let ran = run(&world, exec).await;
    assert!(begun.elapsed() >= Duration::from_secs(1));
    assert_eq!(
        (ran.exited.reason(), ran.stdout.as_slice()),
        (Reason::TimedOut, &b"last\n"[..])
    );
    assert!(processes_with(&mark).is_empty());
}

#[tokio::test]
async fn a_gigabyte_leaves_a_flat_memory_and_a_short_log() {
    let world = World::new("anthropic", NO_MODEL).await;
    run(&world, bash("true")).await;
    let processes = [world.serve_pid(), world.toolhost_pid()];
    let before = processes.map(resident_bytes);
    let bytes: u64 = 1 << 30;
    let exec = bash(&format!("head -c {bytes} /dev/zero"));
    let mut stream = start(&world, exec).await.expect("started");
    let mut most = before;
    let mut logged = 0;
    let exited = loop {
        let frame = stream
            .message()
            .await
            .expect("a frame")
            .expect("not the end");
        for (most, pid) in most.iter_mut().zip(processes) {
            *most = resident_bytes(pid).max(*most);
        }
        match frame.frame {
            Some(Frame::Output(output)) => logged += output.data.len(),
            Some(Frame::Exited(exited)) => break exited,
            _ => {}
        }
    };
    assert_eq!(exited.stdout.expect("a summary").total_bytes, bytes);
    assert!(logged < 5 << 20, "{logged}");
    for (before, most) in before.into_iter().zip(most) {
        assert!(most - before < 30 << 20, "grew by {}", most - before);
    }
}

/// The model's own command, to its end or that of its time.
#[tokio::test]
async fn ten_gigabytes_of_a_tool_fill_neither_memory_nor_disk() {
    let script = "[[conversation]]\n[[conversation.step]]\ntools = [{ name = \"shell\", args = { command = \
                  \"yes | head -c 10737418240\", timeout_ms = 30000 } }]\n[[conversation.step]]\n\
                  tools = [{ name = \"shell\", args = { command = \"echo alive\" } }]\n\
                  [[conversation.step]]\ntext = \"done\"\n";
    let world = World::new("anthropic", script).await;
    run(&world, bash("true")).await;
    let processes = [world.serve_pid(), world.toolhost_pid()];
    let before = processes.map(resident_bytes);
    let mut most = before;
    world.send("go").await;
    let mut events = world.follow().await;
    let mut told = Vec::new();
    while told.len() < 2 {
        let event = events.next().await;
        for (most, pid) in most.iter_mut().zip(processes) {
            *most = resident_bytes(pid).max(*most);
        }
        told.extend(results(&[event]));
    }
    let [first, second] = told.as_slice() else {
        panic!("{told:?}")
    };
    assert!(
        matches!(first.outcome(), Outcome::Ok | Outcome::Error),
        "{first:?}"
    );
    assert!(first.content.contains("left out"), "{first:?}");
    assert!(first.content.len() < 64 * 1024, "{}", first.content.len());
    assert!(
        (second.outcome(), second.content.contains("alive")) == (Outcome::Ok, true),
        "{second:?}"
    );
    for (before, most) in before.into_iter().zip(most) {
        assert!(most - before < 30 << 20, "grew by {}", most - before);
    }
    // 4 MiB of samples at most, and what a write-ahead log takes beside them.
    let on_disk = bytes_in(&world.path("data")) + bytes_in(&world.workspace());
    assert!(on_disk < 32 << 20, "{on_disk}");
}

fn bytes_in(folder: &std::path::Path) -> u64 {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    let sizes = entries.filter_map(|entry| Some(entry.metadata().ok()?.len()));
    sizes.sum()
}

#[tokio::test]
async fn garbage_is_told_as_text() {
    let (outcome, content) = told(
        r"printf 'a\xff\xfeb\n\033[31mred\033[0m\n\033]0;title\007x\ny 1%%\ry 2%%\n'; head -c 300 /dev/urandom",
    )
    .await;
    assert_eq!(outcome, Outcome::Ok);
    assert!(
        content.contains("a\u{fffd}\u{fffd}b\nred\nx\ny 2%\n"),
        "{content:?}"
    );
    let strange = |c: char| c.is_ascii_control() && c != '\n' && c != '\t';
    assert!(!content.contains(strange), "{content:?}");
}

#[tokio::test]
async fn a_line_of_a_megabyte_is_cut_and_said_to_be() {
    let (outcome, content) = told("head -c 1000000 /dev/zero | tr '\\0' 'z'; echo end").await;
    assert_eq!(outcome, Outcome::Ok);
    assert!(
        content.len() < 64 * 1024 && content.contains("left out"),
        "{}",
        content.len()
    );
    assert!(content.trim_end().ends_with("zend"), "the end is kept");
}

#[tokio::test]
async fn there_is_no_input_to_wait_for() {
    let (outcome, content) =
        told("cat; read -r x || echo none; git --version >/dev/null; echo $PAGER $TERM $NO_COLOR")
            .await;
    assert_eq!(outcome, Outcome::Ok);
    assert!(content.ends_with("none\ncat dumb 1\n"), "{content:?}");
}

#[tokio::test]
async fn what_is_written_just_before_the_end_is_not_lost() {
    let world = World::new("anthropic", NO_MODEL).await;
    for tty in [false, true] {
        for _ in 0..50 {
            let exec = ExecStart {
                tty: tty.then(Default::default),
                ..bash("head -c 30000 /dev/zero | tr '\\0' 'e'; printf X; exit 4")
            };
            let ran = run(&world, exec).await;
            assert_eq!((ran.stdout.len(), ran.exited.code), (30_001, 4));
            assert!(ran.stdout.ends_with(b"eX"));
        }
    }
}

/// Runs only as root, who may become somebody else: the limit is one of a user's, and root has none.
#[tokio::test]
async fn a_fork_bomb_leaves_the_toolhost_room() {
    if !rustix_is_root() {
        return;
    }
    let mut world = World::dark("anthropic", NO_MODEL).await;
    for name in [".", "workspace", "home", "tmp"] {
        open_to_all(&world.path(name));
    }
    world.start_toolhost_as(54_321, 120);
    assert!(world.start_serve(&[]).await);
    let exec = ExecStart {
        timeout_ms: 4_000,
        ..bash("bomb() { bomb | bomb & }; bomb; sleep 100")
    };
    let bombing = start(&world, exec).await.expect("started");
    let user = || processes_of(54_321);
    eventually("the bomb is at its limit", || user() > 70).await;
    let while_it_goes = run(
        &world,
        ExecStart {
            timeout_ms: 20_000,
            ..bash("true")
        },
    )
    .await;
    // It may find no room for a process of its own; it is told so, and in time.
    assert_ne!(while_it_goes.exited.reason(), Reason::Unspecified);
    let ran = crate::execs::finish(bombing).await.expect("finished");
    assert!(
        matches!(ran.exited.reason(), Reason::TimedOut | Reason::Signalled),
        "{:?}",
        ran.exited
    );
    eventually("the bomb is gone", || user() <= 2).await;
    let after = run(&world, bash("echo alive")).await;
    assert_eq!(after.stdout, b"alive\n");
}

fn rustix_is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

fn open_to_all(path: &std::path::Path) {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(path, mode).expect("a mode");
}

fn processes_of(uid: u32) -> usize {
    let entries = std::fs::read_dir("/proc").expect("proc").flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok())
        .filter(|entry| {
            std::fs::metadata(entry.path())
                .is_ok_and(|it| std::os::unix::fs::MetadataExt::uid(&it) == uid)
        })
        .count()
}
