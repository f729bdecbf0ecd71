//! One call of `Run`: the command, its pipes, its time, its caller.

use std::time::Duration;

use cocoonbox_proto::toolhost::v1::{
    RunExit, RunInput, RunOutput, RunStart, run_exit::Reason, run_input, run_output::Frame,
};
use tokio::{
    io::AsyncWriteExt,
    sync::mpsc,
    task::JoinSet,
    time::{Instant, sleep_until},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::{Status, Streaming};

use super::{
    runner::{Error, Report, Run, Runner},
    stdio::{Input, Output, pump},
    terminal::Terminal,
};
use crate::supervise::word::Word;

/// Frames of input waiting for the command to read them.
const STDIN_FRAMES_MAX: usize = 2;

/// Frames that wait to be typed. What comes on top of them is lost, as at any terminal whose program
/// does not read; otherwise it would hold up the signals behind it.
const TYPED_FRAMES_MAX: usize = 64;

/// "No time-out": further away than any box lives.
const NEVER: Duration = Duration::from_hours(24 * 3650);

pub(crate) type Out = mpsc::Sender<Result<RunOutput, Status>>;

/// Runs a command to its end or its caller's.
pub(crate) async fn run(
    runner: Runner,
    start: RunStart,
    input: Streaming<RunInput>,
    out: Out,
    reapers: TaskTracker,
) {
    let deadline = match start.timeout_ms {
        0 => NEVER,
        ms => Duration::from_millis(ms).min(NEVER),
    };
    let deadline = Instant::now() + deadline;
    let mut run = match runner.start(&start).await {
        Ok(run) => run,
        Err(error) => {
            let detail = match error {
                Error::Command(reason) => reason,
                Error::Supervisor(source) => format!("the toolhost could not start it: {source}"),
            };
            send(&out, exit(Reason::NotStarted, 0, 0, detail)).await;
            return;
        }
    };
    send(&out, Frame::Started(run.pid)).await;
    let exited = CancellationToken::new();
    let mut pumps = JoinSet::new();
    let mut theirs = Theirs::default();
    if let Some(ends) = run.ends.take() {
        let outputs = [
            (Some(ends.stdout), Output::Stdout),
            (ends.stderr, Output::Stderr),
        ];
        for (from, output) in outputs {
            if let Some(from) = from {
                pumps.spawn(pump(from, output, out.clone(), exited.clone()));
            }
        }
        theirs.stdin = ends.stdin.map(|pipe| {
            let frames_max = match ends.terminal {
                Some(_) => TYPED_FRAMES_MAX,
                None => STDIN_FRAMES_MAX,
            };
            let (sender, receiver) = mpsc::channel(frames_max);
            pumps.spawn(feed(pipe, receiver, exited.clone()));
            sender
        });
        theirs.terminal = ends.terminal;
    }
    let ending = watch(&mut run, input, theirs, &out, deadline).await;
    exited.cancel();
    let Run {
        mut control,
        report,
        ..
    } = run;
    let (reason, code, signal, detail) = match ending {
        Ending::Told(Word::Exited { code, left }) => (Reason::Exited, code, 0, running(left)),
        Ending::Told(Word::Signalled { signal, left }) => {
            (Reason::Signalled, 0, signal, running(left))
        }
        Ending::Told(_) | Ending::Lost => (
            Reason::Signalled,
            0,
            9,
            "its supervisor was killed, and it with it".to_owned(),
        ),
        Ending::TimedOut => {
            control.say(Word::Kill).await;
            gone(report, control).await;
            while pumps.join_next().await.is_some() {}
            let detail = format!(
                "killed after {} ms, with everything it had started",
                start.timeout_ms
            );
            send(&out, exit(Reason::TimedOut, 0, 9, detail)).await;
            return;
        }
        Ending::Cancelled => {
            control.say(Word::Cancel).await;
            gone(report, control).await;
            while pumps.join_next().await.is_some() {}
            send(&out, exit(Reason::Cancelled, 0, 0, String::new())).await;
            return;
        }
        Ending::CallerGone => {
            pumps.abort_all();
            control.say(Word::Cancel).await;
            gone(report, control).await;
            return;
        }
    };
    while pumps.join_next().await.is_some() {}
    // What the command left running goes on; its supervisor is collected whenever that ends.
    drop(control);
    reapers.spawn(report.ended());
    send(&out, exit(reason, code, signal, detail)).await;
}

enum Ending {
    Told(Word),
    Lost,
    TimedOut,
    Cancelled,
    CallerGone,
}

/// What a caller's frame asks of the supervisor.
enum Order {
    Signal(i32),
    Cancel,
}

/// Where the caller's frames go.
#[derive(Default)]
struct Theirs {
    stdin: Option<mpsc::Sender<Vec<u8>>>,
    terminal: Option<Terminal>,
}

impl Theirs {
    /// Gives a frame to the command. What is for its supervisor is given back.
    async fn take(&mut self, frame: run_input::Frame) -> Option<Order> {
        match (frame, &self.terminal) {
            (run_input::Frame::Stdin(bytes), Some(_)) => {
                if let Some(typed) = &self.stdin {
                    typed.try_send(bytes).ok();
                }
            }
            (run_input::Frame::Stdin(bytes), None) => {
                if let Some(pipe) = &self.stdin
                    && pipe.send(bytes).await.is_err()
                {
                    self.stdin = None;
                }
            }
            (run_input::Frame::StdinEof(_), None) => self.stdin = None,
            (run_input::Frame::Signal(number), terminal) => {
                let reached = terminal.as_ref().is_some_and(|it| it.signal(number));
                return (!reached).then_some(Order::Signal(number));
            }
            (run_input::Frame::Cancel(_), _) => return Some(Order::Cancel),
            (run_input::Frame::Resize(size), Some(terminal)) => {
                // A terminal that is gone has no size.
                terminal.resize(size).ok();
            }
            (
                run_input::Frame::Start(_)
                | run_input::Frame::StdinEof(_)
                | run_input::Frame::Resize(_),
                _,
            ) => {}
        }
        None
    }
}

async fn watch(
    run: &mut Run,
    mut input: Streaming<RunInput>,
    mut theirs: Theirs,
    out: &Out,
    deadline: Instant,
) -> Ending {
    // Input that the command does not read must not hide its end from us.
    let (forward, mut heard) = mpsc::channel(1);
    let reading = async {
        while let Ok(Some(RunInput { frame: Some(frame) })) = input.message().await {
            if let Some(order) = theirs.take(frame).await
                && forward.send(order).await.is_err()
            {
                return;
            }
        }
        // A half-closed call is the end of the input, not of the command.
        drop(theirs.stdin.take());
        std::future::pending::<()>().await;
    };
    tokio::pin!(reading);
    loop {
        tokio::select! {
            biased;
            word = run.report.next() => return word.map_or(Ending::Lost, Ending::Told),
            () = sleep_until(deadline) => return Ending::TimedOut,
            () = out.closed() => return Ending::CallerGone,
            Some(order) = heard.recv() => match order {
                Order::Signal(number) => run.control.say(Word::Signal(number)).await,
                Order::Cancel => return Ending::Cancelled,
            },
            () = &mut reading => {}
        }
    }
}

/// Waits for the tree to be gone; holds the control socket until then, because closing it is a
/// cancel, which is gentler than what was asked.
async fn gone(report: Report, control: super::runner::Control) {
    report.ended().await;
    drop(control);
}

async fn feed(mut pipe: Input, mut frames: mpsc::Receiver<Vec<u8>>, exited: CancellationToken) {
    loop {
        tokio::select! {
            () = exited.cancelled() => return,
            frame = frames.recv() => {
                let Some(bytes) = frame else { return };
                tokio::select! {
                    () = exited.cancelled() => return,
                    written = pipe.write_all(&bytes) => if written.is_err() { return },
                }
            }
        }
    }
}

fn running(left: bool) -> String {
    if left {
        "processes that it started are still running".to_owned()
    } else {
        String::new()
    }
}

fn exit(reason: Reason, code: i32, signal: i32, detail: String) -> Frame {
    Frame::Exited(RunExit {
        reason: reason.into(),
        code,
        signal,
        detail,
    })
}

async fn send(out: &Out, frame: Frame) {
    // A caller that is gone is noticed by `watch`.
    out.send(Ok(RunOutput { frame: Some(frame) })).await.ok();
}
