//! Calls over a connection that does what connections do.

use std::time::Duration;

use cocoonbox_proto::log::v1::{ModelChoice, ModelRole, Wire, agent_model_failed::Reason};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

use super::{RECORDED, told};
use crate::wire::{Caller, Door, Failure, Heard, ImageBytes, Reply, Request, http::Patience};

/// Longer than any of this takes on a busy host.
const LONG: Duration = Duration::from_mins(2);
const SHORT: Duration = Duration::from_millis(300);

const CALLER: Caller<'static> = Caller {
    call_id: "c",
    agent_id: "main",
    role: ModelRole::Main,
};

/// Answers one call with pieces of bytes, then does what `end` says.
async fn server(pieces: Vec<Vec<u8>>, end: End) -> (Door, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let patience = match end {
        End::Silence => Patience {
            silence_max: SHORT,
            standstill_max: LONG,
        },
        End::Pings(_) => Patience {
            silence_max: LONG,
            standstill_max: SHORT,
        },
        End::Close | End::Flood(_) => Patience {
            silence_max: LONG,
            standstill_max: LONG,
        },
    };
    let task = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a call");
        read_request(&mut stream).await;
        for piece in pieces {
            // The client may leave first.
            if stream.write_all(&piece).await.is_err() {
                return;
            }
        }
        match end {
            End::Close => {}
            End::Silence => std::future::pending().await,
            End::Pings(piece) | End::Flood(piece) => {
                while stream.write_all(&piece).await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        }
    });
    let door = Door {
        address,
        patience: Some(patience),
    };
    (door, task)
}

enum End {
    Close,
    Silence,
    Pings(Vec<u8>),
    Flood(Vec<u8>),
}

async fn read_request(stream: &mut TcpStream) {
    let mut read = Vec::new();
    while !read.windows(4).any(|w| w == b"\r\n\r\n") {
        let mut buffer = [0; 4_096];
        let length = stream.read(&mut buffer).await.expect("a request");
        assert!(length > 0, "the client left");
        read.extend_from_slice(&buffer[..length]);
    }
}

async fn call(wire: Wire, pieces: Vec<Vec<u8>>, end: End) -> Result<Reply, Failure> {
    let (door, task) = server(pieces, end).await;
    let model = ModelChoice {
        wire: wire.into(),
        ..ModelChoice::default()
    };
    let images = ImageBytes::new();
    let request = Request {
        model: &model,
        system: "s",
        conversation: &[],
        tools: &[],
        images: &images,
    };
    let mut call = door.call(CALLER, &request).await?;
    let heard = loop {
        match call.next().await {
            Ok(Heard::More(_)) => {}
            Ok(Heard::Whole(reply)) => break Ok(*reply),
            Err(failure) => break Err(failure),
        }
    };
    drop(call);
    task.abort();
    heard
}

fn head(content_type: &str, more: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\n{more}\r\n").into_bytes()
}

fn stream_head() -> Vec<u8> {
    head("text/event-stream", "")
}

fn chunk(bytes: &[u8]) -> Vec<u8> {
    let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
    chunk.extend_from_slice(bytes);
    chunk.extend_from_slice(b"\r\n");
    chunk
}

#[tokio::test]
async fn streams_come_through_on_every_wire() {
    for (wire, text) in RECORDED {
        let pieces = text.as_bytes().chunks(97).map(<[u8]>::to_vec);
        let pieces = [stream_head()].into_iter().chain(pieces).collect();
        let reply = call(wire, pieces, End::Close).await.expect("a reply");
        assert_eq!(told(&reply), told(&super::reply(wire, text)));
    }
}

#[tokio::test]
async fn a_stream_that_breaks_is_cut() {
    for (wire, text) in RECORDED {
        let half = text.as_bytes()[..text.len() / 2].to_vec();
        // Ended in its middle, as if that were its end; and broken off, as its framing shows.
        let closed = call(wire, vec![stream_head(), half.clone()], End::Close);
        assert_eq!(closed.await.expect_err("cut").reason, Reason::Cut);
        let framed = head("text/event-stream", "transfer-encoding: chunked\r\n");
        let broken = call(wire, vec![framed, chunk(&half)], End::Close);
        let failure = broken.await.expect_err("cut");
        assert_eq!((failure.reason, failure.retryable), (Reason::Cut, true));
    }
}

#[tokio::test]
async fn silence_is_a_stall_wherever_it_falls() {
    for (wire, text) in RECORDED {
        let half = text.as_bytes()[..text.len() / 2].to_vec();
        for pieces in [vec![], vec![stream_head()], vec![stream_head(), half]] {
            let failure = call(wire, pieces, End::Silence).await.expect_err("stalled");
            assert_eq!((failure.reason, failure.retryable), (Reason::Stalled, true));
        }
    }
}

#[tokio::test]
async fn signs_of_life_are_not_waited_for_without_end() {
    for pings in [": ping\n\n", "event: ping\ndata: {\"type\":\"ping\"}\n\n"] {
        let end = End::Pings(pings.into());
        let failure = call(Wire::AnthropicMessages, vec![stream_head()], end).await;
        let failure = failure.expect_err("stalled");
        assert_eq!(failure.reason, Reason::Stalled);
        assert!(
            failure.detail.contains("signs of life"),
            "{}",
            failure.detail
        );
    }
}

#[tokio::test]
async fn a_line_without_an_end_is_garbled() {
    for (wire, _) in RECORDED {
        let end = End::Flood(vec![b'x'; 1 << 20]);
        let pieces = vec![stream_head(), b"data: ".to_vec(), vec![b'x'; 4 << 20]];
        let failure = call(wire, pieces, end).await.expect_err("garbled");
        assert_eq!(failure.reason, Reason::Garbled);
    }
}

#[tokio::test]
async fn an_answer_that_is_not_a_stream_is_read_all_the_same() {
    let whole = br#"{"choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}"#;
    let pieces = vec![head("application/json", ""), whole.to_vec()];
    let reply = call(Wire::OpenaiChat, pieces, End::Close)
        .await
        .expect("a reply");
    assert_eq!(
        (told(&reply), reply.usage.input),
        (vec!["text Hi".to_owned()], 3)
    );

    let error = br#"{"error":{"type":"server_error","code":"rate_limit_exceeded","message":"Try again in 2s"}}"#;
    let pieces = vec![head("application/json", ""), error.to_vec()];
    let failure = call(Wire::OpenaiChat, pieces, End::Close)
        .await
        .expect_err("an error");
    assert_eq!(
        (failure.reason, failure.retry_after_ms),
        (Reason::RateLimited, 2_000)
    );

    let length = "content-length: 500\r\n";
    let pieces = vec![head("application/json", length), whole.to_vec()];
    let failure = call(Wire::OpenaiChat, pieces, End::Close)
        .await
        .expect_err("cut");
    assert_eq!(failure.reason, Reason::Cut);

    let pieces = vec![head("application/json", length), whole.to_vec()];
    let failure = call(Wire::OpenaiChat, pieces, End::Silence)
        .await
        .expect_err("stalled");
    assert_eq!(failure.reason, Reason::Stalled);

    let pieces = vec![head("text/html", ""), b"<html>".to_vec()];
    let failure = call(Wire::OpenaiChat, pieces, End::Close)
        .await
        .expect_err("a page");
    assert_eq!(failure.reason, Reason::Garbled);

    let pieces = vec![head("application/json", ""), vec![b' '; 5 << 20]];
    let failure = call(Wire::OpenaiChat, pieces, End::Close)
        .await
        .expect_err("endless");
    assert_eq!(failure.reason, Reason::Garbled);
}

#[tokio::test]
async fn a_budget_and_a_wait_are_in_the_head() {
    let head = b"HTTP/1.1 402 Payment Required\r\ncontent-type: application/json\r\n\
        x-cocoonbox-reason: budget\r\nretry-after: 60\r\ncontent-length: 2\r\n\r\n{}";
    let failure = call(Wire::OpenaiResponses, vec![head.to_vec()], End::Close).await;
    let failure = failure.expect_err("no budget");
    assert_eq!(
        (failure.reason, failure.retry_after_ms),
        (Reason::Budget, 60_000)
    );
    let head = b"HTTP/1.1 529 \r\nretry-after-ms: 250\r\ncontent-length: 0\r\n\r\n";
    let failure = call(Wire::AnthropicMessages, vec![head.to_vec()], End::Close).await;
    let failure = failure.expect_err("overloaded");
    assert_eq!(
        (failure.reason, failure.retry_after_ms),
        (Reason::Overloaded, 250)
    );
}

#[tokio::test]
async fn an_absent_vendor_is_unreachable() {
    let (door, task) = server(Vec::new(), End::Close).await;
    task.abort();
    task.await.expect_err("stopped");
    let model = ModelChoice::default();
    let request = Request {
        model: &model,
        system: "s",
        conversation: &[],
        tools: &[],
        images: &ImageBytes::new(),
    };
    let failure = door.call(CALLER, &request).await.err().expect("a failure");
    assert_eq!(
        (failure.reason, failure.retryable),
        (Reason::Unreachable, true)
    );
}
