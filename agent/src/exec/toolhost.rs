//! The loop's end of the toolhost's socket.

use std::{error::Error, io, path::PathBuf, time::Duration};

use cocoonbox_proto::toolhost::v1::{
    FileResponse, GuidanceRequest, GuidanceResponse, RunInput, RunOutput, RunStart,
    run_input::Frame, toolhost_client::ToolhostClient,
};
use tokio::{sync::mpsc, time::sleep};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{
    Status, Streaming,
    transport::{Channel, Endpoint},
};

use crate::socket;

/// A command that is not read must not starve the others of the connection: every run may have its
/// own window full, 256 of 64 KiB.
const CONNECTION_WINDOW_BYTES: u32 = 16 * 1024 * 1024 + 64 * 1024;
const STREAM_WINDOW_BYTES: u32 = 64 * 1024;

/// Frames on their way to a command.
const INPUT_FRAMES_MAX: usize = 2;

/// A toolhost that was restarted is back within the first steps of init's backoff.
const CONNECT_TRIES_MAX: u32 = 20;
const CONNECT_WAIT: Duration = Duration::from_millis(100);

/// As the toolhost takes them.
const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Connects when it is first used, and again when the toolhost was restarted.
#[derive(Clone, Debug)]
pub(crate) struct Toolhost {
    client: ToolhostClient<Channel>,
}

/// A command under way. Dropping it cancels the command.
pub(crate) struct Run {
    pub(crate) input: mpsc::Sender<RunInput>,
    pub(crate) output: Streaming<RunOutput>,
}

impl Toolhost {
    pub(crate) fn new(socket: PathBuf) -> Self {
        let endpoint = Endpoint::from_static("http://toolhost")
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .initial_stream_window_size(STREAM_WINDOW_BYTES);
        let client = ToolhostClient::new(socket::over(endpoint, socket))
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        Self { client }
    }

    pub(crate) async fn run(&self, start: RunStart) -> Result<Run, Status> {
        let mut tries = 0;
        loop {
            let (input, frames) = mpsc::channel(INPUT_FRAMES_MAX);
            // The queue is empty, so this cannot wait.
            let first = RunInput {
                frame: Some(Frame::Start(start.clone())),
            };
            input
                .send(first)
                .await
                .map_err(|_| Status::internal("the queue closed"))?;
            match self.client.clone().run(ReceiverStream::new(frames)).await {
                Ok(output) => {
                    return Ok(Run {
                        input,
                        output: output.into_inner(),
                    });
                }
                Err(status) => again(&mut tries, status).await?,
            }
        }
    }

    /// Reads what files of the box say about how to work in it.
    pub(crate) async fn guidance(&self) -> Result<GuidanceResponse, Status> {
        let mut tries = 0;
        loop {
            match self.client.clone().guidance(GuidanceRequest {}).await {
                Ok(response) => return Ok(response.into_inner()),
                Err(status) => again(&mut tries, status).await?,
            }
        }
    }

    /// Calls one of the file tools.
    pub(crate) async fn file<F>(
        &self,
        call: impl Fn(ToolhostClient<Channel>) -> F,
    ) -> Result<FileResponse, Status>
    where
        F: Future<Output = Result<tonic::Response<FileResponse>, Status>>,
    {
        let mut tries = 0;
        loop {
            match call(self.client.clone()).await {
                Ok(response) => return Ok(response.into_inner()),
                Err(status) => again(&mut tries, status).await?,
            }
        }
    }
}

/// Waits before another try if nobody took the call; gives the error back otherwise. A call that was
/// taken is never repeated.
async fn again(tries: &mut u32, status: Status) -> Result<(), Status> {
    *tries += 1;
    if *tries > CONNECT_TRIES_MAX || !was_not_taken(&status) {
        return Err(status);
    }
    sleep(CONNECT_WAIT).await;
    Ok(())
}

/// Whether connecting is what went wrong.
fn was_not_taken(status: &Status) -> bool {
    let mut source = status.source();
    while let Some(error) = source {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
            );
        }
        source = error.source();
    }
    false
}
