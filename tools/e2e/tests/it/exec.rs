//! Commands in a box: output whole or honestly cut, codes as they were, nothing left over.

use std::time::{Duration, Instant};

use cocoonbox_e2e::{
    Chance, Installation, Ran, Setup, Shared, TheBox,
    events::payload_if,
    exec::{collect, start},
    process::MemoryWatch,
    run, until,
};
use cocoonbox_proto::{
    agent::v1::{ExecStart, SignalExecRequest},
    log::v1::{ExecOutputStreamed, ExecStarted, exec_exited::Reason},
};
use futures::{StreamExt as _, stream};

static SHARED: Shared = Shared::new(Setup::plain);

/// What 100 MB of output may cost the api or the agent. Whoever held it all would need more.
const GROWTH_BYTES_MAX: u64 = 48 << 20;
const MANY: usize = 1_000;
const LOTS_BYTES: u64 = 100_000_000;

async fn boxed(installation: &Installation, name: &str) -> TheBox {
    let user = installation.user(name).await;
    TheBox::up(installation, &user, "main").await
}

/// Waits until only what the box itself consists of is in it, and no zombie.
async fn nothing_left(the_box: &TheBox, before: usize) {
    until("the box is as quiet as before", || async {
        let processes = the_box.processes();
        let quiet = processes.len() <= before && !processes.iter().any(|p| p.is_zombie);
        quiet.then_some(())
    })
    .await;
}

#[test]
fn a_thousand_commands_in_parallel_each_whole() {
    run(async {
        let installation = SHARED.get().await;
        let the_box = boxed(&installation, "thousand").await;
        the_box.sh("true").await;
        let before = the_box.processes().len();
        let one = || the_box.exec(start(&["sh", "-c", "printf x; exit 3"]));
        let all: Vec<_> = stream::iter(0..MANY)
            .map(|_| one())
            .buffer_unordered(MANY)
            .collect()
            .await;
        for ran in all {
            let ran = ran.expect("a command is run");
            assert_eq!(
                (ran.out().as_str(), ran.err().as_str(), ran.code()),
                ("x", "", 3)
            );
        }
        nothing_left(&the_box, before).await;
    });
}

#[test]
fn a_hundred_megabytes_keep_head_and_tail_and_memory_flat() {
    run(async {
        let installation = SHARED.get().await;
        let the_box = boxed(&installation, "lots").await;
        the_box.sh("true").await;
        let agent = the_box.agent().expect("the agent runs");
        let watches = [
            MemoryWatch::start(installation.pid()),
            MemoryWatch::start(agent.pid),
        ];
        let line = format!(
            "printf BEGIN; head -c {} /dev/zero | tr '\\0' x; printf END",
            LOTS_BYTES - 8
        );
        let ran = the_box
            .exec(start(&["bash", "-c", &line]))
            .await
            .expect("a command is run");
        assert_eq!(ran.code(), 0);
        let kept = ran.exited.stdout.clone().expect("the output's summary");
        let sum = (kept.head.len() + kept.tail.len()) as u64 + kept.omitted_bytes;
        assert_eq!((kept.total_bytes, sum), (LOTS_BYTES, LOTS_BYTES));
        assert!(
            kept.omitted_bytes > LOTS_BYTES / 2,
            "{} omitted",
            kept.omitted_bytes
        );
        assert!(kept.head.starts_with(b"BEGINx") && kept.tail.ends_with(b"xEND"));
        assert_eq!(
            ran.stdout.len() as u64 + ran.skipped_bytes,
            LOTS_BYTES,
            "streamed and skipped"
        );
        for (who, watch) in ["api", "agent"].iter().zip(watches) {
            let growth = watch.growth_bytes();
            assert!(
                growth < GROWTH_BYTES_MAX,
                "the {who} grew by {growth} bytes"
            );
        }
    });
}

#[test]
fn a_time_out_kills_the_whole_tree() {
    run(async {
        let installation = SHARED.get().await;
        let the_box = boxed(&installation, "timeout").await;
        // One child in another session and process group, one that ignores what can be ignored.
        let tree = "setsid sleep 61 & (trap '' TERM INT HUP; sleep 62) & sleep 60";
        let argv = start(&["bash", "-c", tree]);
        let started = Instant::now();
        let ran = the_box
            .exec(ExecStart {
                timeout_ms: 2_000,
                ..argv
            })
            .await
            .expect("it is run");
        let took = started.elapsed();
        assert_eq!(ran.exited.reason(), Reason::TimedOut);
        assert!(took >= Duration::from_secs(2), "{took:?}");
        assert!(took < Duration::from_secs(6), "{took:?}");
        until("no sleep is left", || async {
            the_box.processes_with("sleep 6").is_empty().then_some(())
        })
        .await;
    });
}

#[test]
fn a_pipe_is_the_same_bytes_both_ways_and_not_logged() {
    run(async {
        let installation = SHARED.get().await;
        let the_box = boxed(&installation, "pipe").await;
        let input = Chance::seeded("pipe").bytes(8 << 20);
        let ran = the_box
            .pipe(start(&["cat"]), input.clone())
            .await
            .expect("it is run");
        assert_eq!(ran.code(), 0);
        assert_eq!(ran.stdout.len(), input.len());
        assert!(ran.stdout == input, "other bytes came back");

        // The end of input reaches a command that waits for it, and its code comes back.
        let ran = the_box
            .pipe(start(&["bash", "-c", "wc -c; exit 7"]), b"12345".to_vec())
            .await;
        let ran = ran.expect("it is run");
        assert_eq!((ran.out().trim(), ran.code()), ("5", 7));

        let events = until("both ends are logged", || async {
            let events = the_box
                .events("", &["exec/"])
                .all()
                .await
                .expect("readable");
            let ended = events
                .iter()
                .filter(|event| event.kind == "exec.exited")
                .count();
            (ended == 2).then_some(events)
        })
        .await;
        let started = events
            .iter()
            .find_map(|e| payload_if::<ExecStarted>(e, "exec.started"));
        assert!(started.expect("the start is logged").pipe);
        let bytes: usize = events
            .iter()
            .filter_map(|e| payload_if::<ExecOutputStreamed>(e, "exec.output_streamed"))
            .map(|piece| piece.data.len())
            .sum();
        assert_eq!(bytes, 0, "a pipe's bytes are in the log");
    });
}

#[test]
fn a_pipe_that_the_client_drops_ends_its_command() {
    run(async {
        let installation = SHARED.get().await;
        let the_box = boxed(&installation, "dropped").await;
        let mut argv = start(&["sleep", "6543"]);
        argv.pipe = true;
        let stream = the_box.exec_stream(argv).await;
        let mut stream = stream.expect("it is run");
        let mut ran = Ran::default();
        ran.take(
            stream
                .message()
                .await
                .expect("readable")
                .expect("the start"),
        );
        drop(stream);
        until("the command has ended", || async {
            the_box
                .processes_with("sleep 6543")
                .is_empty()
                .then_some(())
        })
        .await;
    });
}

#[test]
fn codes_and_signals_come_back_as_they_were() {
    run(async {
        let installation = SHARED.get().await;
        let the_box = boxed(&installation, "codes").await;
        let ran = the_box
            .exec(start(&["sh", "-c", "echo out; echo err >&2; exit 42"]))
            .await;
        let ran = ran.expect("it is run");
        assert_eq!(
            (ran.out().as_str(), ran.err().as_str(), ran.code()),
            ("out\n", "err\n", 42)
        );

        let ran = the_box
            .exec(start(&["sh", "-c", "kill -9 $$"]))
            .await
            .expect("it is run");
        assert_eq!(
            (ran.exited.reason(), ran.exited.signal),
            (Reason::Signalled, 9)
        );

        let ran = the_box
            .exec(start(&["/no/such/program"]))
            .await
            .expect("it is answered");
        assert_eq!(ran.exited.reason(), Reason::NotStarted);
        assert!(!ran.exited.detail.is_empty());

        // One element with spaces is one element.
        let ran = the_box
            .exec(start(&["printf", "%s", "a  b\n'\"$HOME"]))
            .await
            .expect("it is run");
        assert_eq!(ran.out(), "a  b\n'\"$HOME");

        let mut stream = the_box
            .exec_stream(start(&["sleep", "6100"]))
            .await
            .expect("it is run");
        let mut first = Ran::default();
        assert!(!first.take(stream.message().await.expect("readable").expect("a frame")));
        let request = SignalExecRequest {
            exec_id: first.exec_id.clone(),
            signal: 0,
        };
        let signalled = the_box.user.session(&the_box.id).signal_exec(request).await;
        signalled.expect("a running command can be signalled");
        let ran = collect(&mut stream).await.expect("readable");
        assert_eq!(
            (ran.exited.reason(), ran.exited.signal),
            (Reason::Signalled, 15)
        );
        assert!(the_box.processes_with("sleep 6100").is_empty());
    });
}

#[test]
fn a_repeated_call_is_recognised() {
    run(async {
        let installation = SHARED.get().await;
        let the_box = boxed(&installation, "repeat").await;
        let exec_id = uuid(&installation);
        let argv = start(&[
            "bash",
            "-c",
            "echo once >> /workspace/times; cat /workspace/times",
        ]);
        let argv = ExecStart { exec_id, ..argv };
        let first = the_box.exec(argv.clone()).await.expect("it is run");
        assert_eq!(first.out(), "once\n");
        // Whether it is answered from the log or refused: it is not run again.
        let again = the_box.exec(argv).await;
        if let Ok(again) = again {
            assert_eq!(again.exec_id, first.exec_id);
        }
        assert_eq!(the_box.sh("cat /workspace/times").await, "once\n");
    });
}

fn uuid(installation: &Installation) -> String {
    format!("e2e-{}", installation.pid())
}
