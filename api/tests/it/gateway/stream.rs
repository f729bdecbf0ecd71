//! Answers in pieces: early, cut, and left.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{mpsc, oneshot};

use super::{ANTHROPIC, OPENAI, body, chunk, door_to, head, only, post, read_request, unchunk};
use crate::door::{TestDoor, read_all, read_until, within};

const STREAM_HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                           transfer-encoding: chunked\r\n\r\n";

const START: &str = "data: {\"type\":\"message_start\",\"message\":{\"usage\":\
                     {\"input_tokens\":7,\"output_tokens\":1}}}\n\n";

const STOP: &str = "data: {\"type\":\"message_stop\"}\n\n";

/// A vendor that says the first event, waits to be told, and goes on with `rest`.
async fn gated(rest: &'static str) -> (TestDoor, oneshot::Sender<()>) {
    let (go, gate) = oneshot::channel::<()>();
    let gate = Arc::new(Mutex::new(Some(gate)));
    let door = door_to(move |mut stream| {
        let gate = gate.lock().unwrap().take().unwrap();
        async move {
            read_request(&mut stream).await;
            stream.write_all(STREAM_HEAD.as_bytes()).await.unwrap();
            stream.write_all(chunk(START).as_bytes()).await.unwrap();
            // An error means that the test has let go of the gate: then nothing more is said.
            if gate.await.is_ok() {
                stream.write_all(rest.as_bytes()).await.unwrap();
            } else {
                let _closed = stream.read_to_end(&mut Vec::new()).await;
            }
        }
    })
    .await;
    (door, go)
}

#[tokio::test]
async fn a_chunk_arrives_before_the_vendor_has_finished() {
    let rest = format!("{}0\r\n\r\n", chunk(STOP));
    let (door, go) = gated(rest.leak()).await;
    let mut stream = door.connect().await;
    stream
        .write_all(post(ANTHROPIC, "{\"model\":\"m\"}").as_bytes())
        .await
        .unwrap();
    let so_far = read_until(&mut stream, "}}}\n\n\r\n").await;
    assert!(so_far.contains("message_start"), "{so_far}");
    assert!(door.records.all().is_empty(), "the call has not ended");
    go.send(()).unwrap();
    let rest = read_all(&mut stream).await;
    assert_eq!(unchunk(&rest).unwrap(), STOP);
    let usage = only(door.final_records(1).await);
    assert_eq!((usage.input_tokens, usage.complete), (7, true));
}

#[tokio::test]
async fn a_cut_vendor_is_a_cut_answer() {
    let (door, go) = gated("5\r\ncut").await;
    go.send(()).unwrap();
    let answer = door.ask(post(ANTHROPIC, "{\"model\":\"m\"}")).await;
    assert!(
        answer.contains("message_start"),
        "what came before the cut arrives: {answer}"
    );
    assert_eq!(unchunk(body(&answer)), None, "no clean end");
    let usage = only(door.final_records(1).await);
    assert_eq!(
        (usage.status, usage.input_tokens, usage.complete),
        (200, 7, false)
    );

    // With a length announced, too.
    let door = door_to(|mut stream| async move {
        read_request(&mut stream).await;
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{\"a\"")
            .await
            .unwrap();
    })
    .await;
    let answer = door.ask(post(OPENAI, "{\"model\":\"m\"}")).await;
    assert!(
        head(&answer).contains("content-length: 9") && body(&answer).len() < 9,
        "{answer}"
    );
    assert!(!only(door.final_records(1).await).complete);
}

#[tokio::test]
async fn a_clean_end_without_the_last_event_is_not_complete() {
    let (door, go) = gated("0\r\n\r\n").await;
    go.send(()).unwrap();
    let answer = door.ask(post(ANTHROPIC, "{\"model\":\"m\"}")).await;
    assert_eq!(unchunk(body(&answer)).unwrap(), START);
    assert!(!only(door.final_records(1).await).complete);
}

#[tokio::test]
async fn a_caller_that_leaves_is_recorded_once() {
    // In the middle of the answer.
    let (door, gate) = gated("").await;
    let mut stream = door.connect().await;
    stream
        .write_all(post(ANTHROPIC, "{\"model\":\"m\"}").as_bytes())
        .await
        .unwrap();
    read_until(&mut stream, "}}}\n\n\r\n").await;
    drop(stream);
    let usage = only(door.final_records(1).await);
    assert_eq!(
        (usage.status, usage.input_tokens, usage.complete),
        (200, 7, false)
    );
    drop(gate);

    // Because its box is gone and the door is shut.
    let (door, gate) = gated("").await;
    let mut stream = door.connect().await;
    stream
        .write_all(post(ANTHROPIC, "{\"model\":\"m\"}").as_bytes())
        .await
        .unwrap();
    read_until(&mut stream, "}}}\n\n\r\n").await;
    let usage = only(door.final_records(0).await);
    assert_eq!((usage.input_tokens, usage.complete), (7, false));
    assert_eq!(unchunk(&read_all(&mut stream).await), None);
    drop(gate);

    // Before there is one. The vendor sees it leave.
    let (asked, mut was_asked) = mpsc::channel(1);
    let (left, mut has_left) = mpsc::channel(1);
    let door = door_to(move |mut stream| {
        let (asked, left) = (asked.clone(), left.clone());
        async move {
            read_request(&mut stream).await;
            asked.send(()).await.unwrap();
            let _closed = stream.read_to_end(&mut Vec::new()).await;
            left.send(()).await.unwrap();
        }
    })
    .await;
    let mut stream = door.connect().await;
    stream
        .write_all(post(OPENAI, "{\"model\":\"m\"}").as_bytes())
        .await
        .unwrap();
    within(was_asked.recv()).await.unwrap();
    drop(stream);
    within(has_left.recv()).await.unwrap();
    let usage = only(door.final_records(1).await);
    assert_eq!(
        (usage.status, usage.complete, usage.model.as_str()),
        (0, false, "m")
    );
}
