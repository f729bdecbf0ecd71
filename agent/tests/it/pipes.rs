//! Pipes: bytes both ways, outside of the log.

use cocoonbox_events::{ExecEvent, Payload};
use cocoonbox_proto::{
    agent::v1::{ExecRequest, ExecStart, exec_request, exec_response::Frame},
    log::v1::exec_exited::Reason,
};

use crate::{
    execs::{NO_MODEL, bash, finish, open_request},
    world::{World, eventually, payload, processes_with},
};

fn frame(frame: exec_request::Frame) -> ExecRequest {
    ExecRequest { frame: Some(frame) }
}

#[tokio::test]
async fn bytes_go_both_ways_and_are_only_counted() {
    let world = World::new("anthropic", NO_MODEL).await;
    let start = ExecStart {
        pipe: true,
        ..bash("cat; exit 4")
    };
    let (sender, request) = open_request(vec![frame(exec_request::Frame::Start(start))]);
    let data: Vec<u8> = (0..=u8::MAX).cycle().take(2_000_000).collect();
    let sent = data.clone();
    let feeding = tokio::spawn(async move {
        for chunk in sent.chunks(50_000) {
            sender
                .send(frame(exec_request::Frame::Stdin(chunk.to_vec())))
                .await
                .expect("open");
        }
        sender
            .send(frame(exec_request::Frame::StdinEof(true)))
            .await
            .expect("open");
        sender
    });
    let stream = world
        .session()
        .exec(request)
        .await
        .expect("started")
        .into_inner();
    let ran = finish(stream).await.expect("finished");
    assert_eq!(ran.stdout.len(), data.len());
    assert!(ran.stdout == data);
    assert_eq!(ran.exited.code, 4);
    drop(feeding.await);
    let events = world.events().await;
    assert_eq!(events.len(), 2, "start and exit only");
    let Payload::Exec(ExecEvent::Exited(exited)) = payload(&events[1]) else {
        panic!("no exit")
    };
    let stdout = exited.stdout.expect("counts");
    assert_eq!((stdout.total_bytes, stdout.head.len()), (2_000_000, 0));
}

#[tokio::test]
async fn a_pipe_ends_with_its_caller() {
    let mark = crate::world::mark();
    let world = World::new("anthropic", NO_MODEL).await;
    let start = ExecStart {
        pipe: true,
        ..bash(&format!("echo up; setsid sleep {mark} & sleep {mark}"))
    };
    let (sender, request) = open_request(vec![frame(exec_request::Frame::Start(start))]);
    let mut stream = world
        .session()
        .exec(request)
        .await
        .expect("started")
        .into_inner();
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
    drop((stream, sender));
    let events = world.until_kind("exec.exited").await;
    let Payload::Exec(ExecEvent::Exited(exited)) = payload(events.last().expect("an end")) else {
        panic!("no exit")
    };
    assert_eq!(exited.reason(), Reason::Cancelled);
    eventually("the tree is gone", || processes_with(&mark).is_empty()).await;
}

#[tokio::test]
async fn a_caller_that_does_not_read_stops_the_command_and_nobody_else() {
    let world = World::new("anthropic", NO_MODEL).await;
    let start = ExecStart {
        pipe: true,
        ..bash("yes")
    };
    let (sender, request) = open_request(vec![frame(exec_request::Frame::Start(start))]);
    let slow = world
        .session()
        .exec(request)
        .await
        .expect("started")
        .into_inner();
    let before = crate::world::resident_bytes(world.serve_pid());
    for _ in 0..5 {
        assert_eq!(
            crate::execs::run(&world, bash("echo ok")).await.stdout,
            b"ok\n"
        );
    }
    let grown = crate::world::resident_bytes(world.serve_pid()).saturating_sub(before);
    assert!(grown < 20 * 1024 * 1024, "grew by {grown}");
    drop((slow, sender));
}
