//! The pipes of a command.

use std::{fs::OpenOptions, io, os::fd::OwnedFd, time::Duration};

use bytes::BytesMut;
use cocoonbox_proto::toolhost::v1::{RunOutput, RunStart, run_output::Frame};
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite},
    net::unix::pipe::{Receiver, Sender},
    sync::mpsc,
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::terminal::Terminal;
use crate::supervise::word::Stdio;

/// Bytes of output in one frame. With two frames in the queue a command holds 100 KiB here at most.
const FRAME_BYTES_MAX: usize = 32 * 1024;

/// After the command has ended, an open pipe belongs to something it left behind; how long that is
/// listened to for more.
const DRAIN_IDLE: Duration = Duration::from_millis(200);

/// And how much of it is taken: what the command itself wrote fits in a pipe's 64 KiB.
const DRAIN_BYTES_MAX: usize = 128 * 1024;

pub(crate) type Input = Box<dyn AsyncWrite + Send + Unpin>;
pub(crate) type Outlet = Box<dyn AsyncRead + Send + Unpin>;

/// Our ends.
pub(crate) struct Ends {
    pub(crate) stdin: Option<Input>,
    pub(crate) stdout: Outlet,
    /// `None`: a terminal has one output.
    pub(crate) stderr: Option<Outlet>,
    pub(crate) terminal: Option<Terminal>,
}

/// Which of the two outputs.
#[derive(Clone, Copy)]
pub(crate) enum Output {
    Stdout,
    Stderr,
}

/// Makes what a command reads and writes: our ends and its.
pub(crate) fn open(start: &RunStart) -> io::Result<(Ends, Stdio)> {
    if let Some(size) = start.tty {
        let (terminal, its) = Terminal::open(size)?;
        let ends = Ends {
            stdin: Some(Box::new(terminal.clone())),
            stdout: Box::new(terminal.clone()),
            stderr: None,
            terminal: Some(terminal),
        };
        return Ok((ends, its));
    }
    let (stdout, its_stdout) = pipe_with(PipeFlags::CLOEXEC)?;
    let (stderr, its_stderr) = pipe_with(PipeFlags::CLOEXEC)?;
    let (stdin, its_stdin) = if start.stdin {
        let (its_stdin, stdin) = pipe_with(PipeFlags::CLOEXEC)?;
        let stdin: Input = Box::new(Sender::from_owned_fd(stdin)?);
        (Some(stdin), its_stdin)
    } else {
        (
            None,
            OwnedFd::from(OpenOptions::new().read(true).open("/dev/null")?),
        )
    };
    let ends = Ends {
        stdin,
        stdout: Box::new(Receiver::from_owned_fd(stdout)?),
        stderr: Some(Box::new(Receiver::from_owned_fd(stderr)?)),
        terminal: None,
    };
    Ok((ends, [its_stdin, its_stdout, its_stderr]))
}

/// Passes output on until its end, or until nothing more comes once the command has `exited`. Waits
/// for the caller, so that a slow caller slows the command down and memory stays flat.
pub(crate) async fn pump(
    mut from: Outlet,
    output: Output,
    out: mpsc::Sender<Result<RunOutput, Status>>,
    exited: CancellationToken,
) {
    let mut drained = 0;
    let mut buffer = BytesMut::new();
    loop {
        let Ok(permit) = out.reserve().await else {
            return;
        };
        buffer.reserve(FRAME_BYTES_MAX);
        let mut limited = (&mut from).take(FRAME_BYTES_MAX as u64);
        let read = limited.read_buf(&mut buffer);
        let got = if exited.is_cancelled() {
            timeout(DRAIN_IDLE, read).await.unwrap_or(Ok(0))
        } else {
            tokio::select! {
                got = read => got,
                () = exited.cancelled() => continue,
            }
        };
        let Ok(1..) = got else { return };
        if exited.is_cancelled() {
            drained += buffer.len();
        }
        permit.send(Ok(frame(output, buffer.split().to_vec())));
        if drained > DRAIN_BYTES_MAX {
            return;
        }
    }
}

fn frame(output: Output, bytes: Vec<u8>) -> RunOutput {
    let frame = match output {
        Output::Stdout => Frame::Stdout(bytes),
        Output::Stderr => Frame::Stderr(bytes),
    };
    RunOutput { frame: Some(frame) }
}
