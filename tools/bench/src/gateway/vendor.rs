//! A vendor that says when it wrote what.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

/// Events of an answer.
pub(super) const EVENTS: usize = 8;
/// Between two events: as a fast model.
const PAUSE: Duration = Duration::from_millis(5);

const HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

pub(super) struct Vendor {
    pub(super) address: SocketAddr,
    written: Arc<Mutex<Vec<Instant>>>,
}

impl Vendor {
    pub(super) async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let written = Arc::<Mutex<Vec<Instant>>>::default();
        let writing = written.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // Calls come one after the other.
                let _cut = answer(stream, &writing).await;
            }
        });
        Ok(Self { address, written })
    }

    /// Takes when the events of the last answer were written.
    pub(super) fn written(&self) -> Vec<Instant> {
        std::mem::take(&mut self.written.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The event with this number.
pub(super) fn event(number: usize) -> String {
    if number + 1 == EVENTS {
        "data: {\"type\":\"message_delta\",\"usage\":{\"input_tokens\":10,\"output_tokens\":8}}\n\n\
         data: {\"type\":\"message_stop\"}\n\n"
            .to_owned()
    } else {
        format!(
            "data: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\"token {number}\"}}}}\n\n"
        )
    }
}

async fn answer(mut stream: TcpStream, written: &Mutex<Vec<Instant>>) -> anyhow::Result<()> {
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
    stream.write_all(HEAD.as_bytes()).await?;
    for number in 0..EVENTS {
        tokio::time::sleep(PAUSE).await;
        written
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Instant::now());
        stream.write_all(event(number).as_bytes()).await?;
    }
    Ok(())
}
