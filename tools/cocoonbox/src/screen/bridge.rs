//! One viewer's connection, and the stream that it sees the screen by.

use std::time::Duration;

use bytes::Bytes;
use cocoonbox_proto::agent::v1::{
    ScreenRequest, ScreenResponse, ScreenStart, screen_request, screen_response,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::mpsc,
    time::timeout,
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::{
    client::{Control, Session},
    control::Lease,
    exit::Exit,
    failure::Failure,
};

/// Under the contract's 64 KiB a frame.
const INPUT_BYTES: usize = 32 * 1024;
/// A viewer that pastes much waits.
const INPUT_FRAMES: usize = 4;
/// Without input.
const IDLE: Duration = Duration::from_mins(1);
/// For the box to take the last of a viewer that has left.
const LEAVING: Duration = Duration::from_secs(2);

/// Shows one display.
#[derive(Clone)]
pub(super) struct Bridge {
    pub(super) session: Session,
    pub(super) control: Control,
    pub(super) display: u32,
    pub(super) takes_control: bool,
    pub(super) steals: bool,
}

/// How it was with a viewer.
pub(super) struct Ended {
    /// Why it had no control, though it was to have it.
    pub(super) lost: Option<String>,
    pub(super) result: Result<(), Failure>,
}

impl Bridge {
    pub(super) async fn run(self, viewer: TcpStream) -> Ended {
        let mut lost = None;
        let mut lease_id = String::new();
        if self.takes_control {
            let calls = self.control.clone();
            match Lease::take(calls, self.display, "screen", IDLE, self.steals).await {
                Ok(lease) => lease_id = lease.id,
                Err(failure) => lost = Some(failure.message),
            }
        }
        let result = self.relay(viewer, lease_id).await;
        Ended { lost, result }
    }

    /// Relays until one side ends. With the stream ends what it holds in the box.
    async fn relay(mut self, viewer: TcpStream, lease_id: String) -> Result<(), Failure> {
        drop(viewer.set_nodelay(true));
        let (reader, writer) = viewer.into_split();
        let (requests, sent) = mpsc::channel(INPUT_FRAMES);
        let start = screen_request::Frame::Start(ScreenStart {
            display: self.display,
            lease_id,
        });
        let first = ScreenRequest { frame: Some(start) };
        requests
            .try_send(first)
            .map_err(|_| Failure::new(Exit::Failure, "the request has no room"))?;
        let answer = self.session.screen(ReceiverStream::new(sent)).await?;
        let mut frames = answer.into_inner();
        let mut hearing = Box::pin(hear(reader, requests));
        let shown = tokio::select! {
            () = &mut hearing => Ok(true),
            shown = show(&mut frames, writer) => shown.map(|()| false),
        };
        if !shown? {
            // It has left, and what it said before may not be read yet.
            drop(timeout(LEAVING, hearing).await);
        }
        // Said is not done: the last keys are on their way until the stream has ended.
        let end = async { while matches!(frames.message().await, Ok(Some(_))) {} };
        drop(timeout(LEAVING, end).await);
        Ok(())
    }
}

/// Sends what the viewer says, until it has left.
async fn hear(mut viewer: OwnedReadHalf, requests: mpsc::Sender<ScreenRequest>) {
    let mut buffer = vec![0; INPUT_BYTES];
    loop {
        // A viewer that breaks off has left, too.
        let count = viewer.read(&mut buffer).await.unwrap_or(0);
        if count == 0 {
            return;
        }
        let bytes = Bytes::copy_from_slice(&buffer[..count]);
        let frame = Some(screen_request::Frame::Rfb(bytes));
        if requests.send(ScreenRequest { frame }).await.is_err() {
            // Why is said by the stream that is shown.
            std::future::pending::<()>().await;
        }
    }
}

/// Shows the screen until the viewer has left.
async fn show(
    frames: &mut Streaming<ScreenResponse>,
    mut viewer: OwnedWriteHalf,
) -> Result<(), Failure> {
    while let Some(response) = frames.message().await? {
        if let Some(screen_response::Frame::Rfb(bytes)) = response.frame
            && viewer.write_all(&bytes).await.is_err()
        {
            return Ok(());
        }
    }
    Ok(())
}
