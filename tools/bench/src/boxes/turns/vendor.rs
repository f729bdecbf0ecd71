//! A vendor on a port that the api was told of: says when it wrote the first token, and when it was left.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};

/// Between the head of an answer and its first token: nothing of the connection is in that token's time.
const THINKING: Duration = Duration::from_millis(20);
const HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

/// Of what it did.
const UNREAD_MAX: usize = 64;

/// What the model does in the next turn.
#[derive(Clone, Debug)]
pub(super) enum Play {
    /// Says a few words and ends.
    Words,
    /// Says one word, and no more until it is left.
    Silence,
    /// Runs this command; when it is asked again it says a few words.
    Command(String),
}

/// What it did.
#[derive(Clone, Copy, Debug)]
pub(super) enum Did {
    /// Wrote the first token of an answer.
    Token(Instant),
    /// Saw its caller leave.
    Left(Instant),
}

pub(super) struct Vendor {
    play: Arc<Mutex<Play>>,
    did: mpsc::Receiver<Did>,
}

impl Vendor {
    pub(super) async fn start(address: SocketAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("listening at {address} as the vendor"))?;
        let play = Arc::new(Mutex::new(Play::Words));
        let (doing, did) = mpsc::channel(UNREAD_MAX);
        let next = play.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let play = {
                    let mut next = next.lock().unwrap_or_else(PoisonError::into_inner);
                    // What it was asked for happens once.
                    std::mem::replace(&mut *next, Play::Words)
                };
                let doing = doing.clone();
                tokio::spawn(async move { answer(stream, &play, &doing).await });
            }
        });
        Ok(Self { play, did })
    }

    pub(super) fn plays(&self, play: Play) {
        *self.play.lock().unwrap_or_else(PoisonError::into_inner) = play;
    }

    /// Returns what it does next.
    pub(super) async fn next(&mut self) -> anyhow::Result<Did> {
        self.did.recv().await.context("the vendor ended")
    }
}

async fn answer(
    mut stream: TcpStream,
    play: &Play,
    doing: &mpsc::Sender<Did>,
) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8(head)?.to_ascii_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.context("a length")?.parse()?];
    stream.read_exact(&mut body).await?;
    stream
        .write_all(format!("{HEAD}{}", begins()).as_bytes())
        .await?;
    tokio::time::sleep(THINKING).await;
    if let Play::Command(command) = play {
        let args = serde_json::json!({ "command": command }).to_string();
        stream.write_all(tool(&args).as_bytes()).await?;
        return Ok(());
    }
    let at = Instant::now();
    stream.write_all(word("one").as_bytes()).await?;
    doing.send(Did::Token(at)).await?;
    if matches!(play, Play::Silence) {
        let mut rest = [0; 1];
        let _gone = stream.read(&mut rest).await;
        doing.send(Did::Left(Instant::now())).await?;
        return Ok(());
    }
    // A reply that ends in the same piece is not streamed at all.
    tokio::time::sleep(THINKING).await;
    for other in ["two", "three"] {
        stream.write_all(word(other).as_bytes()).await?;
    }
    stream.write_all(ends("end_turn").as_bytes()).await?;
    Ok(())
}

fn event(data: &serde_json::Value) -> String {
    let kind = data["type"].as_str().unwrap_or_default();
    format!("event: {kind}\ndata: {data}\n\n")
}

fn begins() -> String {
    let message = serde_json::json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "bench", "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": { "input_tokens": 10, "output_tokens": 1 },
    });
    let block = serde_json::json!({ "type": "text", "text": "" });
    event(&serde_json::json!({ "type": "message_start", "message": message }))
        + &event(
            &serde_json::json!({ "type": "content_block_start", "index": 0, "content_block": block }),
        )
}

fn word(word: &str) -> String {
    let delta = serde_json::json!({ "type": "text_delta", "text": format!("{word} ") });
    event(&serde_json::json!({ "type": "content_block_delta", "index": 0, "delta": delta }))
}

/// A call of the shell in the place of words.
fn tool(args: &str) -> String {
    let block =
        serde_json::json!({ "type": "tool_use", "id": "toolu_1", "name": "shell", "input": {} });
    let delta = serde_json::json!({ "type": "input_json_delta", "partial_json": args });
    word("look:")
        + &event(&serde_json::json!({ "type": "content_block_stop", "index": 0 }))
        + &event(
            &serde_json::json!({ "type": "content_block_start", "index": 1, "content_block": block }),
        )
        + &event(&serde_json::json!({ "type": "content_block_delta", "index": 1, "delta": delta }))
        + &event(&serde_json::json!({ "type": "content_block_stop", "index": 1 }))
        + &finish("tool_use")
}

fn ends(reason: &str) -> String {
    event(&serde_json::json!({ "type": "content_block_stop", "index": 0 })) + &finish(reason)
}

fn finish(reason: &str) -> String {
    let delta = serde_json::json!({ "stop_reason": reason, "stop_sequence": null });
    event(
        &serde_json::json!({ "type": "message_delta", "delta": delta, "usage": { "output_tokens": 3 } }),
    ) + &event(&serde_json::json!({ "type": "message_stop" }))
}
