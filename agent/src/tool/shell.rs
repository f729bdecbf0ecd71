//! `shell`: a command as an exec of the log.

use std::{collections::HashMap, time::Duration};

use async_trait::async_trait;
use cocoonbox_proto::log::v1::{
    ExecExited, OutputSummary, agent_tool_finished::Outcome, exec_exited::Reason,
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{
    Context, Finished, Tool,
    args::typed,
    computer::Shown,
    schema::{flag, number, object, text},
    terminal::plain,
};
use crate::{
    exec::{Ending, Execs, Live, Spec, StartError},
    seats::Seats,
    wire::ToolSpec,
};

/// Time-out where the model says nothing.
const TIMEOUT_DEFAULT_MS: u64 = 120_000;
/// Longest time-out of a command in the foreground; longer work belongs in the background.
const TIMEOUT_MAX_MS: u64 = 600_000;
/// How long a command in the background is listened to for what it says first.
const FIRST_OUTPUT_MAX: Duration = Duration::from_secs(1);

/// `shell`.
pub(crate) struct ShellTool {
    execs: Execs,
    seats: Seats,
    spec: ToolSpec,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Shell {
    command: String,
    timeout_ms: Option<u64>,
    #[serde(default)]
    background: bool,
}

impl ShellTool {
    pub(crate) fn new(execs: Execs, seats: Seats) -> Self {
        let description = "Runs a command with bash in /workspace as the user of this box. Returns \
            the exit code and what was written to both outputs, the middle left out where it is \
            long. There is no terminal and no input. A command that does not end by itself (a \
            server, a watcher) belongs in the background: that returns at once, the command goes \
            on, and its output is recorded for the user; redirect it to a file to look at it \
            yourself.";
        let timeout = "Kills the command and everything it started. Default 120000; in the \
            background none.";
        let spec = ToolSpec {
            name: "shell".into(),
            description: description.into(),
            parameters: object(
                json!({
                    "command": text("A bash command line."),
                    "timeout_ms": number(timeout, 1, TIMEOUT_MAX_MS),
                    "background": flag("Return at once and let it run."),
                }),
                &["command"],
            ),
        };
        Self { execs, seats, spec }
    }
}

#[async_trait]
impl Tool for ShellTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn stops(&self) -> bool {
        true
    }

    async fn run(
        &self,
        context: &Context<'_>,
        args: Value,
        cancel: &CancellationToken,
    ) -> Option<Finished> {
        match parse(args) {
            Ok(args) => {
                let Some(shown) = Shown::of(&self.seats, context, cancel).await else {
                    return Some(Finished::cancelled());
                };
                let finished = run(&self.execs, context, args, shown.env, cancel).await?;
                Some(finished.behind(&shown.note))
            }
            Err(finished) => Some(finished),
        }
    }

    async fn recover(&self, context: &Context<'_>, args: Value) -> Option<Finished> {
        match parse(args) {
            Ok(_) => recover(&self.execs, context).await,
            // It cannot have run.
            Err(finished) => Some(finished),
        }
    }
}

fn parse(args: Value) -> Result<Shell, Finished> {
    let shell: Shell = typed(args)?;
    if shell.command.trim().is_empty() {
        return Err(Finished::error("nothing was run: `command` is empty"));
    }
    match shell.timeout_ms {
        Some(asked) if !(1..=TIMEOUT_MAX_MS).contains(&asked) => Err(Finished::error(format!(
            "nothing was run: `timeout_ms` is {asked}; it can be 1 to {TIMEOUT_MAX_MS}"
        ))),
        _ => Ok(shell),
    }
}

async fn run(
    execs: &Execs,
    context: &Context<'_>,
    args: Shell,
    env: HashMap<String, String>,
    cancel: &CancellationToken,
) -> Option<Finished> {
    let call = context.call;
    let exec_id = exec_id(context);
    let timeout_ms = match args.timeout_ms {
        Some(ms) => ms,
        None if args.background => 0,
        None => TIMEOUT_DEFAULT_MS,
    };
    let spec = Spec {
        exec_id: exec_id.clone(),
        argv: vec!["bash".to_owned(), "-c".to_owned(), args.command],
        env,
        timeout_ms,
        tool_call_id: call.tool_call_id.clone(),
        background: args.background,
        ..Spec::default()
    };
    let started = execs.start(spec).await;
    let finished = match started {
        Ok(Some(live)) if args.background => background(live, &exec_id).await?,
        Ok(Some(live)) => foreground(live, cancel).await?,
        Ok(None) => Finished::new(
            Outcome::Interrupted,
            "this command ran before, and what it said then is not known here",
        ),
        Err(StartError::Stopping) => return None,
        Err(StartError::Journal(error)) => {
            tracing::error!(%error, "exec not started");
            return None;
        }
        Err(error) => Finished::error(format!("nothing was run: {error}")),
    };
    Some(Finished {
        exec_id,
        ..finished
    })
}

/// What the log knows of a command that an earlier process ran.
async fn recover(execs: &Execs, context: &Context<'_>) -> Option<Finished> {
    let exec_id = exec_id(context);
    let state = match execs.state(&exec_id).await {
        Ok(state) => state,
        Err(error) => {
            tracing::warn!(%error, "exec not read");
            return None;
        }
    };
    let Some(started) = state.started else {
        // An exec is in the log before its process is there.
        return Some(Finished::error(
            "nothing was run: the agent was restarted before it began. Call it again if it is still \
             wanted.",
        ));
    };
    let exited = state
        .exited
        .filter(|exited| exited.reason() != Reason::Interrupted)?;
    if started.background {
        let text = format!("Ran in the background as exec `{exec_id}` and has ended.");
        return Some(Finished {
            exec_id,
            ..Finished::ok(text)
        });
    }
    let merged = [&exited.stdout, &exited.stderr]
        .into_iter()
        .flatten()
        .map(text_of)
        .collect();
    let finished = finished(&Ending { exited, merged })?;
    Some(Finished {
        exec_id,
        ..finished
    })
}

fn text_of(kept: &OutputSummary) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match kept.omitted_bytes {
        0 => text(&[kept.head.as_slice(), &kept.tail].concat()),
        left => format!(
            "{}\n[{left} bytes left out]\n{}",
            text(&kept.head),
            text(&kept.tail)
        ),
    }
}

async fn foreground(live: Live, cancel: &CancellationToken) -> Option<Finished> {
    let mut progress = live.progress();
    let ended = progress.wait_for(|progress| progress.ending.is_some());
    let ended = tokio::select! {
        ended = ended => Some(ended.ok()?.ending.clone()?),
        () = cancel.cancelled() => None,
    };
    let ending = match ended {
        Some(ending) => ending,
        None => {
            live.cancel();
            progress
                .wait_for(|progress| progress.ending.is_some())
                .await
                .ok()?
                .ending
                .clone()?
        }
    };
    finished(&ending)
}

async fn background(live: Live, exec_id: &str) -> Option<Finished> {
    let mut progress = live.progress();
    let said_or_ended =
        progress.wait_for(|now| now.ending.is_some() || !now.beginning.trim().is_empty());
    // Nothing said within the time is fine.
    timeout(FIRST_OUTPUT_MAX, said_or_ended).await.ok();
    let now = progress.borrow().clone();
    if let Some(ending) = now.ending {
        return finished(&ending);
    }
    let said = if now.beginning.trim().is_empty() {
        "It has said nothing yet.".to_owned()
    } else {
        format!("It says so far:\n{}", now.beginning)
    };
    Some(Finished::ok(format!(
        "Runs in the background as exec `{exec_id}`. {said}"
    )))
}

/// What the model is told. `None`: the box is being stopped, and the next process says so.
fn finished(ending: &Ending) -> Option<Finished> {
    let ExecExited {
        code,
        signal,
        detail,
        ..
    } = &ending.exited;
    let (outcome, mut head) = match ending.exited.reason() {
        Reason::Exited if *code == 0 => (Outcome::Ok, "exit code 0".to_owned()),
        Reason::Exited => (Outcome::Error, format!("exit code {code}")),
        Reason::Signalled => (Outcome::Error, format!("killed by signal {signal}")),
        Reason::TimedOut => (Outcome::Error, "timed out".to_owned()),
        Reason::Cancelled => (
            Outcome::Cancelled,
            "stopped: the turn was cancelled".to_owned(),
        ),
        Reason::NotStarted => (Outcome::Error, "not started".to_owned()),
        Reason::Interrupted if detail.is_empty() => return None,
        Reason::Interrupted | Reason::Unspecified => (
            Outcome::Interrupted,
            "interrupted; whether it took effect is not known".to_owned(),
        ),
    };
    if !detail.is_empty() {
        head = format!("{head} ({detail})");
    }
    // Colours and bars are for people; the log has them.
    let said = plain(&ending.merged);
    let text = if said.is_empty() {
        format!("{head}\n[no output]")
    } else {
        format!("{head}\n{said}")
    };
    Some(Finished::new(outcome, text))
}

/// The same call is the same exec, in whatever process it is made.
fn exec_id(context: &Context<'_>) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(context.agent_id.as_bytes());
    hasher.update(&[0]);
    hasher.update(context.call.tool_call_id.as_bytes());
    format!("tool-{}", hex::encode(&hasher.finalize().as_bytes()[..8]))
}
