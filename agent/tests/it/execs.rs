//! Logged execs.

use std::time::Duration;

use cocoonbox_proto::{
    agent::v1::{
        EventsRequest, ExecRequest, ExecResponse, ExecStart, exec_request, exec_response::Frame,
    },
    log::v1::{
        ExecExited, event_or_heartbeat::Item, exec_exited::Reason, exec_output_streamed::Source,
    },
};
use tokio::{task::JoinSet, time::Instant};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};
use tonic_types::StatusExt;

use crate::world::{DEADLINE, World, payload, resident_bytes};

pub(crate) const NO_MODEL: &str = "[[conversation]]\n[[conversation.step]]\ntext = \"x\"\n";

pub(crate) fn bash(command: &str) -> ExecStart {
    ExecStart {
        argv: vec!["bash".into(), "-c".into(), command.into()],
        ..ExecStart::default()
    }
}

pub(crate) async fn start(
    world: &World,
    start: ExecStart,
) -> Result<Streaming<ExecResponse>, Status> {
    let frames = vec![ExecRequest {
        frame: Some(exec_request::Frame::Start(start)),
    }];
    Ok(world
        .session()
        .exec(tokio_stream::iter(frames))
        .await?
        .into_inner())
}

pub(crate) struct Ran {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) skipped: u64,
    pub(crate) exited: ExecExited,
}

pub(crate) async fn finish(mut stream: Streaming<ExecResponse>) -> Result<Ran, Status> {
    let (mut stdout, mut stderr, mut skipped) = (Vec::new(), Vec::new(), 0);
    while let Some(response) = stream.message().await? {
        match response.frame {
            Some(Frame::Output(output)) => {
                skipped += output.skipped_bytes;
                match output.source() {
                    Source::Stderr => stderr.extend(output.data),
                    _ => stdout.extend(output.data),
                }
            }
            Some(Frame::Exited(exited)) => {
                return Ok(Ran {
                    stdout,
                    stderr,
                    skipped,
                    exited,
                });
            }
            _ => {}
        }
    }
    panic!("the stream ended without an ending")
}

pub(crate) async fn run(world: &World, exec: ExecStart) -> Ran {
    finish(start(world, exec).await.expect("started"))
        .await
        .expect("finished")
}

#[tokio::test]
async fn output_and_code_are_whole_a_thousand_times_in_parallel() {
    let world = World::new("anthropic", NO_MODEL).await;
    let mut running = JoinSet::new();
    let mut session = world.session();
    for _ in 0..1_000 {
        let frames = vec![ExecRequest {
            frame: Some(exec_request::Frame::Start(bash("printf x; exit 3"))),
        }];
        let call = session.exec(tokio_stream::iter(frames));
        let stream = call.await.expect("started").into_inner();
        running.spawn(finish(stream));
        session = session.clone();
    }
    while let Some(ran) = running.join_next().await {
        let ran = ran.expect("no panic").expect("finished");
        assert_eq!(ran.stdout, b"x");
        assert_eq!((ran.exited.reason(), ran.exited.code), (Reason::Exited, 3));
    }
    let toolhost = world.toolhost_pid();
    crate::world::eventually("no zombie is left", || {
        crate::trees::children_of(toolhost).is_empty()
    })
    .await;
}

#[tokio::test]
async fn a_hundred_megabytes_leave_head_tail_and_a_flat_memory() {
    let world = World::new("anthropic", NO_MODEL).await;
    run(&world, bash("true")).await;
    let before = resident_bytes(world.serve_pid());
    let exec = bash("echo first; head -c 100000000 /dev/zero | tr '\\0' 'y'; echo; echo last");
    let mut stream = start(&world, exec).await.expect("started");
    let mut most = 0;
    let (mut bytes, mut skipped) = (0, 0);
    let exited = loop {
        let response = stream
            .message()
            .await
            .expect("a frame")
            .expect("not the end");
        most = most.max(resident_bytes(world.serve_pid()));
        match response.frame {
            Some(Frame::Output(output)) => {
                bytes += output.data.len() as u64;
                skipped += output.skipped_bytes;
            }
            Some(Frame::Exited(exited)) => break exited,
            _ => {}
        }
    };
    let total = 100_000_000 + 6 + 1 + 5;
    let stdout = exited.stdout.expect("a summary");
    assert_eq!(stdout.total_bytes, total);
    assert!(stdout.head.starts_with(b"first\nyyy"));
    assert!(stdout.tail.ends_with(b"y\nlast\n"));
    let kept = (stdout.head.len() + stdout.tail.len()) as u64;
    assert_eq!(stdout.omitted_bytes, total - kept);
    assert!(bytes <= 5 * 1024 * 1024, "{bytes} logged");
    assert!(skipped > 90_000_000, "{skipped} skipped");
    let grown = most.saturating_sub(before);
    assert!(grown < 30 * 1024 * 1024, "grew by {grown}");
}

#[tokio::test]
async fn a_dropped_client_resumes_from_its_key() {
    let world = World::new("anthropic", NO_MODEL).await;
    let exec = bash("for i in $(seq 100); do echo $i; sleep 0.02; done");
    let mut stream = start(&world, exec).await.expect("started");
    let mut text = Vec::new();
    let mut key = String::new();
    while text.len() < 20 {
        let response = stream
            .message()
            .await
            .expect("a frame")
            .expect("not the end");
        if let Some(Frame::Output(output)) = response.frame {
            text.extend(output.data);
        }
        key = response.offset_key;
    }
    drop(stream);
    let request = EventsRequest {
        from_offset: key,
        streams: vec!["exec/".into()],
        no_follow: false,
    };
    let mut events = world
        .session()
        .events(request)
        .await
        .expect("a stream")
        .into_inner();
    loop {
        let item = events
            .message()
            .await
            .expect("an item")
            .expect("not the end");
        let Some(Item::Event(event)) = item.item else {
            continue;
        };
        use cocoonbox_events::{ExecEvent, Payload};
        match payload(&event) {
            Payload::Exec(ExecEvent::OutputStreamed(output)) => text.extend(output.data),
            Payload::Exec(ExecEvent::Exited(exited)) => {
                assert_eq!(exited.code, 0);
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    let expected = (1..=100).fold(String::new(), |text, i| format!("{text}{i}\n"));
    assert_eq!(String::from_utf8(text).expect("text"), expected);
}

#[tokio::test]
async fn the_same_id_is_the_same_exec() {
    let world = World::new("anthropic", NO_MODEL).await;
    let exec = |command: &str| ExecStart {
        exec_id: "mine".into(),
        ..bash(command)
    };
    let command = "echo ran >> ran; sleep 0.5; echo done";
    let first = start(&world, exec(command)).await.expect("started");
    let second = start(&world, exec(command)).await.expect("attached");
    for stream in [first, second] {
        assert_eq!(finish(stream).await.expect("finished").stdout, b"done\n");
    }
    let third = run(&world, exec(command)).await;
    assert_eq!(third.stdout, b"done\n");
    assert_eq!(crate::world::read(&world.workspace().join("ran")), "ran\n");
    let mut racing = JoinSet::new();
    for _ in 0..20 {
        let exec = ExecStart {
            exec_id: "raced".into(),
            ..bash("echo ran >> raced")
        };
        let frames = vec![ExecRequest {
            frame: Some(exec_request::Frame::Start(exec)),
        }];
        let mut session = world.session();
        racing.spawn(async move {
            let call = session.exec(tokio_stream::iter(frames)).await;
            finish(call.expect("started").into_inner())
                .await
                .expect("finished")
                .exited
                .code
        });
    }
    while let Some(code) = racing.join_next().await {
        assert_eq!(code.expect("no panic"), 0);
    }
    assert_eq!(
        crate::world::read(&world.workspace().join("raced")),
        "ran\n"
    );
    let other = start(&world, exec("true"))
        .await
        .expect_err("another command");
    assert_eq!(other.code(), Code::AlreadyExists);
    assert_eq!(
        other.get_details_error_info().expect("info").reason,
        "OTHER_EXEC"
    );
}

#[tokio::test]
async fn what_cannot_start_says_why() {
    let world = World::new("anthropic", NO_MODEL).await;
    let argv = |argv: &[&str]| ExecStart {
        argv: argv.iter().map(|arg| (*arg).to_owned()).collect(),
        ..ExecStart::default()
    };
    let cases = [
        (argv(&["nul\0byte"]), "NUL"),
        (argv(&["no-such-program"]), "not a program"),
        (argv(&["/etc/passwd"]), "may not be executed"),
        (
            ExecStart {
                cwd: "/no/such".into(),
                ..argv(&["true"])
            },
            "does not exist",
        ),
        (
            ExecStart {
                env: [("A".to_owned(), "b\0c".to_owned())].into(),
                ..argv(&["true"])
            },
            "NUL",
        ),
    ];
    for (exec, text) in cases {
        let ran = run(&world, exec).await;
        assert_eq!(ran.exited.reason(), Reason::NotStarted);
        assert!(ran.exited.detail.contains(text), "{}", ran.exited.detail);
    }
    let long = "x".repeat(150 * 1024);
    let ran = run(&world, argv(&["echo", &long])).await;
    assert!(
        ran.exited.detail.contains("longer than the system takes"),
        "{}",
        ran.exited.detail
    );
    let long = "x".repeat(1024 * 1024);
    let refused = start(&world, argv(&["echo", &long]))
        .await
        .expect_err("too long");
    assert_eq!(refused.code(), Code::InvalidArgument);
    let empty = start(&world, argv(&[])).await.expect_err("nothing to run");
    assert_eq!(empty.code(), Code::InvalidArgument);
    let bad = ExecStart {
        exec_id: "a/../b".into(),
        ..bash("true")
    };
    let bad = start(&world, bad).await.expect_err("a bad id");
    assert_eq!(bad.code(), Code::InvalidArgument);
    let no_start = vec![ExecRequest {
        frame: Some(exec_request::Frame::StdinEof(true)),
    }];
    let refused = world
        .session()
        .exec(tokio_stream::iter(no_start))
        .await
        .expect_err("no start");
    assert_eq!(refused.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn the_environment_is_clean_and_signals_arrive() {
    let world = World::new("anthropic", NO_MODEL).await;
    let ran = run(&world, bash("env; pwd; ulimit -n; cat")).await;
    let text = String::from_utf8(ran.stdout).expect("text");
    assert!(text.contains("http_proxy=http://127.0.0.1:3128"), "{text}");
    assert!(text.contains("\n1024\n"), "{text}");
    assert!(!text.contains("CARGO"), "{text}");
    assert_eq!(ran.exited.code, 0);
    let exec = ExecStart {
        exec_id: "sig".into(),
        ..bash("trap 'echo got; exit 7' USR1; echo up; while :; do sleep 0.05; done")
    };
    let mut stream = start(&world, exec).await.expect("started");
    loop {
        let response = stream
            .message()
            .await
            .expect("a frame")
            .expect("not the end");
        if matches!(response.frame, Some(Frame::Output(_))) {
            break;
        }
    }
    let signal = cocoonbox_proto::agent::v1::SignalExecRequest {
        exec_id: "sig".into(),
        signal: 10,
    };
    world.session().signal_exec(signal).await.expect("sent");
    let ran = finish(stream).await.expect("finished");
    assert_eq!((ran.stdout.as_slice(), ran.exited.code), (&b"got\n"[..], 7));
    let gone = cocoonbox_proto::agent::v1::SignalExecRequest {
        exec_id: "sig".into(),
        signal: 10,
    };
    // Its exit is in the log a moment before it is forgotten.
    let refused = async {
        loop {
            if let Err(status) = world.session().signal_exec(gone.clone()).await {
                return status;
            }
        }
    };
    let refused = tokio::time::timeout(DEADLINE, refused).await;
    assert_eq!(refused.expect("it has ended").code(), Code::NotFound);
}

#[tokio::test]
async fn a_job_left_behind_does_not_hold_the_exec() {
    let world = World::new("anthropic", NO_MODEL).await;
    let begun = Instant::now();
    let mark = crate::world::mark();
    let ran = run(&world, bash(&format!("sleep {mark} & echo left"))).await;
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert_eq!(ran.stdout, b"left\n");
    assert_eq!(ran.exited.code, 0);
    assert!(
        ran.exited.detail.contains("still running"),
        "{}",
        ran.exited.detail
    );
    assert_eq!(ran.skipped, 0);
    assert!(ran.stderr.is_empty());
    let left = crate::world::processes_with(&format!("sleep {mark}"));
    assert_eq!(left.len(), 1);
    let killed = std::process::Command::new("kill")
        .arg(left[0].to_string())
        .status();
    assert!(killed.expect("kill").success());
    let toolhost = world.toolhost_pid();
    crate::world::eventually("its supervisor goes with it", || {
        crate::trees::children_of(toolhost).is_empty()
    })
    .await;
}

#[tokio::test]
async fn a_killed_toolhost_ends_execs_and_the_next_one_serves() {
    let mut world = World::new("anthropic", NO_MODEL).await;
    let mark = crate::world::mark();
    let exec = bash(&format!("echo up; sleep {mark}"));
    let mut stream = start(&world, exec).await.expect("started");
    loop {
        let response = stream
            .message()
            .await
            .expect("a frame")
            .expect("not the end");
        if matches!(response.frame, Some(Frame::Output(_))) {
            break;
        }
    }
    world.start_toolhost();
    let ran = finish(stream).await.expect("finished");
    assert_eq!(ran.exited.reason(), Reason::Interrupted);
    crate::world::eventually("the command is gone", || {
        crate::world::processes_with(&mark).is_empty()
    })
    .await;
    assert_eq!(run(&world, bash("echo again")).await.stdout, b"again\n");
}

#[tokio::test]
async fn an_open_request_and_a_relative_folder_are_fine() {
    let world = World::new("anthropic", NO_MODEL).await;
    std::fs::create_dir(world.workspace().join("sub")).expect("a folder");
    let exec = ExecStart {
        cwd: "sub".into(),
        ..bash("basename $PWD; seq 20000")
    };
    let first = ExecRequest {
        frame: Some(exec_request::Frame::Start(exec)),
    };
    let (sender, request) = open_request(vec![first]);
    let stream = world
        .session()
        .exec(request)
        .await
        .expect("started")
        .into_inner();
    let ran = finish(stream).await.expect("finished");
    assert!(ran.stdout.starts_with(b"sub\n1\n2\n") && ran.stdout.ends_with(b"\n20000\n"));
    drop(sender);
}

#[tokio::test]
async fn a_toolhost_that_comes_late_is_waited_for() {
    let mut world = World::dark("anthropic", NO_MODEL).await;
    assert!(world.start_serve(&[]).await);
    let stream = start(&world, bash("echo ok")).await.expect("started");
    world.until_kind("exec.started").await;
    world.start_toolhost();
    assert_eq!(finish(stream).await.expect("finished").stdout, b"ok\n");
}

/// Keeps the request stream open, as a client that may still send does.
pub(crate) fn open_request(
    frames: Vec<ExecRequest>,
) -> (
    tokio::sync::mpsc::Sender<ExecRequest>,
    ReceiverStream<ExecRequest>,
) {
    let (sender, receiver) = tokio::sync::mpsc::channel(16);
    for frame in frames {
        sender.try_send(frame).expect("room");
    }
    (sender, ReceiverStream::new(receiver))
}
