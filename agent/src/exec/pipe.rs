//! The task of a pipe: bytes both ways as fast as the slower side, nothing of them in the log.

use cocoonbox_proto::{
    agent::v1::{ExecOutput, ExecRequest, ExecResponse, exec_request, exec_response},
    log::v1::{ExecExited, OutputSummary, exec_exited::Reason, exec_output_streamed::Source},
    toolhost::v1::{RunInput, RunOutput, run_input, run_output::Frame},
};
use futures::{StreamExt, stream::BoxStream};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::{
    execs::Task,
    logged::{ended, exited, not_started},
    stream::Frames,
};

/// HUP, INT, KILL and TERM.
const ENDING: [i32; 4] = [1, 2, 9, 15];

/// Frames on their way to and from a caller in this process.
const FRAMES_MAX: usize = 2;

/// The two sides of the caller.
pub(crate) struct Caller {
    pub(crate) input: BoxStream<'static, ExecRequest>,
    pub(crate) frames: Frames,
}

/// A pipe whose caller is in this process. Dropping it ends the command.
pub(crate) struct Piped {
    pub(crate) input: mpsc::Sender<ExecRequest>,
    pub(crate) output: mpsc::Receiver<Result<ExecResponse, Status>>,
}

impl Piped {
    pub(super) fn new() -> (Self, Caller) {
        let (input, requests) = mpsc::channel(FRAMES_MAX);
        let (frames, output) = mpsc::channel(FRAMES_MAX);
        let input_stream = ReceiverStream::new(requests).boxed();
        let caller = Caller {
            input: input_stream,
            frames,
        };
        (Self { input, output }, caller)
    }
}

#[derive(Default)]
struct Counts {
    stdout: u64,
    stderr: u64,
}

/// Runs a pipe whose first event is written, to its last.
pub(super) async fn run(mut task: Task, caller: Caller) {
    let first = exec_response::Frame::Started(task.spec.exec_id.clone());
    caller.frames.send(Ok(response(first))).await.ok();
    let mut counts = Counts::default();
    let Caller { input, frames } = caller;
    let exited = copy(&mut task, input, &frames, &mut counts).await;
    let count = |total_bytes| {
        Some(OutputSummary {
            total_bytes,
            omitted_bytes: total_bytes,
            ..OutputSummary::default()
        })
    };
    let exited = ExecExited {
        stdout: count(counts.stdout),
        stderr: count(counts.stderr),
        ..exited
    };
    let (interrupt, cancel) = (task.inner.interrupt.clone(), task.cancel.clone());
    task.end(Vec::new(), exited.clone(), String::new()).await;
    // A caller that reads nothing must not keep the box from going to sleep.
    tokio::select! {
        () = interrupt.cancelled() => {}
        () = cancel.cancelled() => {}
        sent = frames.send(Ok(response(exec_response::Frame::Exited(exited)))) => drop(sent.ok()),
    }
}

async fn copy(
    task: &mut Task,
    input: BoxStream<'static, ExecRequest>,
    frames: &Frames,
    counts: &mut Counts,
) -> ExecExited {
    let start = task.spec.run_start(true);
    let interrupt = task.inner.interrupt.clone();
    let begun = tokio::select! {
        () = interrupt.cancelled() => return ended(Reason::Interrupted),
        () = task.cancel.cancelled() => return ended(Reason::Cancelled),
        () = frames.closed() => return ended(Reason::Cancelled),
        begun = task.inner.toolhost.run(start) => begun,
    };
    let mut run = match begun {
        Ok(run) => run,
        Err(status) => return not_started(&status),
    };
    let mut waiting = None;
    let signals = run.input.clone();
    let feeding = feed(input, run.input);
    tokio::pin!(feeding);
    loop {
        // Room for the answer first: then a slow caller slows the command down.
        let read = async {
            let permit = frames.reserve().await.ok()?;
            Some((permit, run.output.message().await))
        };
        tokio::select! {
            () = interrupt.cancelled() => return ended(Reason::Interrupted),
            () = task.cancel.cancelled() => return ended(Reason::Cancelled),
            () = frames.closed() => return ended(Reason::Cancelled),
            () = &mut feeding => {}
            Some(signal) = task.signals.recv(), if waiting.is_none() => {
                // Signals go the way of the input. One that is to end a command that does not read
                // its input cannot get through: the tree is ended without it.
                if signals.capacity() == 0 && ENDING.contains(&signal) {
                    return ended(Reason::Cancelled);
                }
                waiting = Some(signal);
            }
            room = signals.reserve(), if waiting.is_some() => {
                if let (Ok(room), Some(signal)) = (room, waiting.take()) {
                    room.send(RunInput { frame: Some(run_input::Frame::Signal(signal)) });
                }
            }
            read = read => {
                let Some((permit, output)) = read else { return ended(Reason::Cancelled) };
                let Ok(Some(RunOutput { frame: Some(frame) })) = output else {
                    return ExecExited {
                        detail: "the toolhost ended while this ran".to_owned(),
                        ..ended(Reason::Interrupted)
                    };
                };
                let (source, data) = match frame {
                    Frame::Started(_) => continue,
                    Frame::Exited(exit) => return exited(exit),
                    Frame::Stdout(data) => (Source::Stdout, data),
                    Frame::Stderr(data) => (Source::Stderr, data),
                };
                let bytes = data.len() as u64;
                match source {
                    Source::Stderr => counts.stderr += bytes,
                    Source::Stdout | Source::Unspecified => counts.stdout += bytes,
                }
                let output = ExecOutput { source: source.into(), data, skipped_bytes: 0 };
                permit.send(Ok(response(exec_response::Frame::Output(output))));
            }
        }
    }
}

/// Passes the caller's input on. Never returns: the end of the input is not the end of the pipe.
async fn feed(mut input: BoxStream<'static, ExecRequest>, to: mpsc::Sender<RunInput>) {
    while let Some(ExecRequest { frame: Some(frame) }) = input.next().await {
        let frame = match frame {
            exec_request::Frame::Stdin(bytes) => run_input::Frame::Stdin(bytes),
            exec_request::Frame::StdinEof(_) => run_input::Frame::StdinEof(true),
            exec_request::Frame::Start(_) | exec_request::Frame::Resize(_) => continue,
        };
        if to.send(RunInput { frame: Some(frame) }).await.is_err() {
            break;
        }
    }
    to.send(RunInput {
        frame: Some(run_input::Frame::StdinEof(true)),
    })
    .await
    .ok();
    std::future::pending::<()>().await;
}

fn response(frame: exec_response::Frame) -> ExecResponse {
    ExecResponse {
        offset_key: String::new(),
        frame: Some(frame),
    }
}
