//! The task of a logged exec.

use std::{sync::Arc, time::Duration};

use cocoonbox_commands::exec::Command;
use cocoonbox_proto::{
    log::v1::{ExecExited, exec_exited::Reason, exec_output_streamed::Source},
    toolhost::v1::{RunExit, RunInput, RunOutput, run_exit, run_input, run_output::Frame},
};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::{coalescer::Coalescer, execs::Task, screen::Screen, summary::HeadTail, toolhost::Run};

/// Between two appends of output: ten a second.
const PACE: Duration = Duration::from_millis(100);
/// From the first output behind a silence until it is written: most commands say little and end right behind it, and
/// then that is one append.
const GATHER: Duration = Duration::from_millis(2);
/// Of each output, at its head and at its tail.
const KEPT_BYTES_MAX: usize = 32 * 1024;
/// What a model is shown of both outputs together: about 8,000 tokens, half at each end.
const MERGED_BYTES_MAX: usize = 15_000;
/// From a cancel until the command is gone: it is asked, given 400 ms, and killed.
const GONE_MAX: Duration = Duration::from_secs(5);

/// What is kept of an exec's output.
struct Kept {
    coalescer: Coalescer,
    stdout: HeadTail,
    stderr: HeadTail,
    merged: HeadTail,
}

/// Runs an exec whose first event is written, to its last.
pub(super) async fn run(mut task: Task) {
    let mut kept = Kept {
        coalescer: Coalescer::default(),
        stdout: HeadTail::new(KEPT_BYTES_MAX),
        stderr: HeadTail::new(KEPT_BYTES_MAX),
        merged: HeadTail::new(MERGED_BYTES_MAX),
    };
    let exited = pump(&mut task, &mut kept).await;
    let mut left = kept.coalescer.drain();
    while kept.coalescer.is_due() {
        if !write(&mut task, left).await {
            left = Vec::new();
            break;
        }
        left = kept.coalescer.drain();
    }
    let merged = kept.merged.text();
    let exited = ExecExited {
        stdout: Some(kept.stdout.summary()),
        stderr: Some(kept.stderr.summary()),
        ..exited
    };
    task.end(left, exited, merged).await;
}

async fn pump(task: &mut Task, kept: &mut Kept) -> ExecExited {
    let start = task.spec.run_start(false);
    let interrupt = task.inner.interrupt.clone();
    let cancel = task.cancel.clone();
    let started = tokio::select! {
        started = task.inner.toolhost.run(start) => started,
        () = interrupt.cancelled() => return ended(Reason::Interrupted),
        () = cancel.cancelled() => return ended(Reason::Cancelled),
    };
    let mut run = match started {
        Ok(run) => run,
        Err(status) => return not_started(&status),
    };
    let mut next_write = Instant::now();
    let mut was_due = false;
    loop {
        let due = kept.coalescer.is_due();
        if due && !was_due {
            next_write = next_write.max(Instant::now() + GATHER);
        }
        was_due = due;
        tokio::select! {
            biased;
            () = interrupt.cancelled() => return ended(Reason::Interrupted),
            () = cancel.cancelled() => return stop(run, kept, &interrupt).await,
            Some(signal) = task.signals.recv() => {
                let frame = RunInput { frame: Some(run_input::Frame::Signal(signal)) };
                // A toolhost that is gone is noticed by its output.
                run.input.send(frame).await.ok();
            }
            Some(typed) = task.typed.recv() => {
                run.input.send(RunInput { frame: Some(typed) }).await.ok();
            }
            () = sleep_until(next_write), if due => {
                next_write = Instant::now() + PACE;
                if !write(task, kept.coalescer.drain()).await
                    && (interrupt.is_cancelled() || !cancel.is_cancelled())
                {
                    return ended(Reason::Interrupted);
                }
            }
            output = run.output.message(), if !kept.coalescer.is_full() => {
                if let Some(screen) = &task.screen {
                    see(screen, &output);
                }
                if let Some(exited) = take(output, kept) {
                    return exited;
                }
                show_beginning(task, kept);
            }
        }
    }
}

/// Has the tree ended and returns once all of it is gone, so that the log never says so too early.
async fn stop(mut run: Run, kept: &mut Kept, interrupt: &CancellationToken) -> ExecExited {
    let frame = RunInput {
        frame: Some(run_input::Frame::Cancel(true)),
    };
    let gone = async {
        run.input.send(frame).await.ok();
        loop {
            match run.output.message().await {
                // What it says at last is not worth a wait for the disk.
                Ok(Some(RunOutput {
                    frame: Some(Frame::Stdout(_) | Frame::Stderr(_)),
                })) if kept.coalescer.is_full() => {}
                output => {
                    if let Some(exited) = take(output, kept) {
                        return exited;
                    }
                }
            }
        }
    };
    tokio::select! {
        biased;
        () = interrupt.cancelled() => ended(Reason::Interrupted),
        // Whatever it was that ended it: it was asked to.
        exited = timeout(GONE_MAX, gone) => match exited {
            Ok(exited) => ExecExited { detail: exited.detail, ..ended(Reason::Cancelled) },
            Err(_) => ExecExited {
                detail: "it was not seen to end".to_owned(),
                ..ended(Reason::Cancelled)
            },
        },
    }
}

/// Takes a frame in; an ending if it is one.
fn take(output: Result<Option<RunOutput>, Status>, kept: &mut Kept) -> Option<ExecExited> {
    match output {
        Ok(Some(RunOutput { frame: Some(frame) })) => match frame {
            Frame::Started(_) => None,
            Frame::Stdout(bytes) => {
                kept.take(Source::Stdout, &bytes);
                None
            }
            Frame::Stderr(bytes) => {
                kept.take(Source::Stderr, &bytes);
                None
            }
            Frame::Exited(exit) => Some(exited(exit)),
        },
        Ok(Some(RunOutput { frame: None })) => None,
        // The stream ended without the command's end.
        Ok(None) | Err(_) => Some(ExecExited {
            detail: "the toolhost ended while this ran".to_owned(),
            ..ended(Reason::Interrupted)
        }),
    }
}

/// Shows it to those who look on.
fn see(screen: &Screen, output: &Result<Option<RunOutput>, Status>) {
    if let Ok(Some(RunOutput {
        frame: Some(Frame::Stdout(bytes)),
    })) = output
    {
        screen.push(bytes);
    }
}

/// Writes what is due; false if the log is closed. Where the disk is full the command waits with it, as at a pipe
/// that nobody reads.
async fn write(task: &mut Task, output: Vec<Command>) -> bool {
    let cancel = task.cancel.clone();
    let written = task.write(&Command::Together(output), &cancel).await;
    if let Err(error) = &written {
        tracing::warn!(%error, exec = task.spec.exec_id, "output of exec not written");
    }
    written.is_ok()
}

fn show_beginning(task: &Task, kept: &Kept) {
    // Only background tools look at it, and only within their first second.
    if task.spec.background && kept.merged.total() <= MERGED_BYTES_MAX as u64 {
        let text: Arc<str> = kept.merged.text().into();
        task.progress
            .send_modify(|progress| progress.beginning = text);
    }
}

impl Kept {
    fn take(&mut self, source: Source, bytes: &[u8]) {
        self.coalescer.take(source, bytes);
        self.merged.take(bytes);
        match source {
            Source::Stderr => self.stderr.take(bytes),
            Source::Stdout | Source::Unspecified => self.stdout.take(bytes),
        }
    }
}

/// The end of a run in the log's words.
pub(super) fn exited(exit: RunExit) -> ExecExited {
    let reason = match exit.reason() {
        run_exit::Reason::Exited => Reason::Exited,
        run_exit::Reason::Signalled => Reason::Signalled,
        run_exit::Reason::TimedOut => Reason::TimedOut,
        run_exit::Reason::NotStarted => Reason::NotStarted,
        run_exit::Reason::Cancelled => Reason::Cancelled,
        run_exit::Reason::Unspecified => Reason::Interrupted,
    };
    ExecExited {
        code: exit.code,
        signal: exit.signal,
        detail: exit.detail,
        ..ended(reason)
    }
}

pub(super) fn ended(reason: Reason) -> ExecExited {
    ExecExited {
        reason: reason.into(),
        ..ExecExited::default()
    }
}

pub(super) fn not_started(status: &Status) -> ExecExited {
    ExecExited {
        detail: format!("the toolhost did not start it: {}", status.message()),
        ..ended(Reason::NotStarted)
    }
}
