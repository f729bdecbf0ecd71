//! Running commands in a box.

use cocoonbox_proto::{
    agent::v1::{ExecRequest, ExecResponse, ExecStart, exec_request, exec_response},
    log::v1::{ExecExited, exec_exited::Reason, exec_output_streamed::Source},
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use crate::{TheBox, until::soon};

/// The most that a frame of input may hold.
const STDIN_FRAME_BYTES: usize = 64 * 1024;
/// Frames of input on their way; the rest waits in the test.
const STDIN_FRAMES: usize = 4;

/// What a command did.
#[derive(Clone, Debug, Default)]
pub struct Ran {
    pub exec_id: String,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// Bytes that the stream said it left out.
    pub skipped_bytes: u64,
    pub exited: ExecExited,
    /// Offset keys of the frames.
    pub keys: Vec<String>,
}

impl Ran {
    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    pub fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    pub fn code(&self) -> i32 {
        assert_eq!(self.exited.reason(), Reason::Exited, "{self:?}");
        self.exited.code
    }

    /// Takes one frame; returns whether it was the last.
    pub fn take(&mut self, frame: ExecResponse) -> bool {
        if !frame.offset_key.is_empty() {
            self.keys.push(frame.offset_key);
        }
        match frame.frame.expect("a frame holds something") {
            exec_response::Frame::Started(id) => self.exec_id = id,
            exec_response::Frame::Output(output) => {
                self.skipped_bytes += output.skipped_bytes;
                match output.source() {
                    Source::Stdout => self.stdout.extend(output.data),
                    Source::Stderr => self.stderr.extend(output.data),
                    Source::Unspecified => panic!("output of no source"),
                }
            }
            exec_response::Frame::Exited(exited) => {
                self.exited = exited;
                return true;
            }
        }
        false
    }
}

/// Begins a command that is given by program and arguments.
pub fn start(argv: &[&str]) -> ExecStart {
    ExecStart {
        argv: argv.iter().map(|arg| (*arg).to_owned()).collect(),
        ..Default::default()
    }
}

impl TheBox {
    /// Runs a shell command line, which must succeed, and returns its output.
    pub async fn sh(&self, line: &str) -> String {
        let ran = self
            .exec(start(&["bash", "-c", line]))
            .await
            .expect("a command can be run");
        assert_eq!(ran.code(), 0, "`{line}`: {}{}", ran.out(), ran.err());
        ran.out()
    }

    /// Runs something short and returns the key of its end: behind it, the box log is not empty.
    pub async fn touch(&self) -> String {
        let ran = self
            .exec(start(&["true"]))
            .await
            .expect("a command can be run");
        ran.keys
            .last()
            .expect("a command that is no pipe has keys")
            .clone()
    }

    /// Runs a command to its end.
    pub async fn exec(&self, start: ExecStart) -> Result<Ran, Status> {
        let what = format!("{:?} ends", start.argv);
        soon(&what, async {
            let mut stream = self.exec_stream(start).await?;
            collect(&mut stream).await
        })
        .await
    }

    /// Begins a command without input.
    pub async fn exec_stream(&self, start: ExecStart) -> Result<Streaming<ExecResponse>, Status> {
        let frames = tokio_stream::once(frame(exec_request::Frame::Start(start)));
        Ok(self.user.session(&self.id).exec(frames).await?.into_inner())
    }

    /// Runs a command as a pipe, with all of `input` as its input.
    pub async fn pipe(&self, mut start: ExecStart, input: Vec<u8>) -> Result<Ran, Status> {
        start.pipe = true;
        let (sender, frames) = mpsc::channel(STDIN_FRAMES);
        let feed = async move {
            let mut sent = sender
                .send(frame(exec_request::Frame::Start(start)))
                .await
                .is_ok();
            for piece in input.chunks(STDIN_FRAME_BYTES) {
                let piece = frame(exec_request::Frame::Stdin(piece.to_vec()));
                sent = sent && sender.send(piece).await.is_ok();
            }
            // Whoever ends before it has read everything does not get the end either.
            let _ended = sender
                .send(frame(exec_request::Frame::StdinEof(true)))
                .await;
            // The stream stays open until the command has ended: its end would kill it.
            sender
        };
        let read = async {
            let answer = self
                .user
                .session(&self.id)
                .exec(ReceiverStream::new(frames))
                .await;
            let mut stream = answer?.into_inner();
            collect(&mut stream).await
        };
        let (_sender, ran) = soon("the pipe ends", futures::future::join(feed, read)).await;
        ran
    }
}

/// Reads a command's stream to its end; an end without `exited` is a fault.
pub async fn collect(stream: &mut Streaming<ExecResponse>) -> Result<Ran, Status> {
    let mut ran = Ran::default();
    while let Some(frame) = stream.message().await? {
        if ran.take(frame) {
            return Ok(ran);
        }
    }
    panic!(
        "the stream ended without `exited`: {} bytes of output",
        ran.stdout.len()
    );
}

pub fn frame(frame: exec_request::Frame) -> ExecRequest {
    ExecRequest { frame: Some(frame) }
}
