//! `terminal`: shells that stay open between calls, each an exec of the log with a terminal.

mod keys;
mod plain;
mod sessions;
mod view;
mod wait;

use std::time::Duration;

use async_trait::async_trait;
use cocoonbox_proto::{
    log::v1::agent_tool_finished::Outcome,
    toolhost::v1::{WindowSize, run_input::Frame},
};
use regex::Regex;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

pub(crate) use self::plain::plain;
use self::{
    sessions::{Found, Session, Sessions},
    wait::{Until, wait},
};
use super::{
    Context, Finished, Tool,
    args::typed,
    computer::Shown,
    schema::{flag, number, object, text},
};
use crate::{exec::Execs, seats::Seats, wire::ToolSpec};

/// How long a call waits where the model says nothing.
const WAIT_DEFAULT_MS: u64 = 20_000;
const WAIT_MAX_MS: u64 = 600_000;
/// Longest text typed at once; files are for `write`.
const INPUT_BYTES_MAX: usize = 64 * 1024;
/// Typed in one frame.
const FRAME_BYTES_MAX: usize = 4 * 1024;
/// Memory for a compiled pattern.
const PATTERN_BYTES_MAX: usize = 1024 * 1024;
const SESSION_CHARS_MAX: usize = 40;
const SIGINT: i32 = 2;

/// `terminal`.
pub(crate) struct TerminalTool {
    sessions: Sessions,
    seats: Seats,
    spec: ToolSpec,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    #[serde(default)]
    session: String,
    input: Option<String>,
    #[serde(default)]
    no_enter: bool,
    #[serde(default)]
    keys: Vec<String>,
    wait_ms: Option<u64>,
    until: Option<String>,
    signal: Option<String>,
    rows: Option<u32>,
    cols: Option<u32>,
    timeout_ms: Option<u64>,
    #[serde(default)]
    close: bool,
    #[serde(default)]
    list: bool,
}

/// What is done at a session, checked.
struct Deed {
    typed: Vec<u8>,
    signal: Option<i32>,
    size: Option<WindowSize>,
    until: Until,
}

impl TerminalTool {
    pub(crate) fn new(execs: Execs, seats: Seats) -> Self {
        Self {
            sessions: Sessions::new(execs),
            seats,
            spec: spec(),
        }
    }

    async fn at(
        &self,
        context: &Context<'_>,
        args: Args,
        cancel: &CancellationToken,
    ) -> Result<Finished, String> {
        if args.list {
            return Ok(Finished::ok(self.sessions.list(context.agent_id).await));
        }
        let name = name(&args.session)?;
        if args.close {
            let closed = self.sessions.close(context.agent_id, name).await;
            return Ok(closed.map_or_else(Finished::error, Finished::ok));
        }
        let deed = deed(&args)?;
        let Some(shown) = Shown::of(&self.seats, context, cancel).await else {
            return Ok(Finished::cancelled());
        };
        let size = deed.size.unwrap_or_default();
        let timeout_ms = args.timeout_ms.unwrap_or(0);
        let found = self
            .sessions
            .open(context, name, size, timeout_ms, shown.env);
        let session = match found.await? {
            Found::There(session) => session,
            Found::Ended(text) => return Ok(Finished::error(text)),
        };
        // Two calls at one session would type into each other.
        let Ok(mut session) = session.try_lock() else {
            return Err(format!(
                "another call is at session `{name}`; wait for it, or use another session"
            ));
        };
        let done = work(&mut session, name, deed, cancel).await;
        Ok(done.behind(&shown.note))
    }
}

#[async_trait]
impl Tool for TerminalTool {
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
        let args = match typed(args) {
            Ok(args) => args,
            Err(finished) => return Some(finished),
        };
        let done = self.at(context, args, cancel).await;
        Some(
            done.unwrap_or_else(|problem| Finished::error(format!("nothing was typed: {problem}"))),
        )
    }
}

async fn work(
    session: &mut Session,
    name: &str,
    deed: Deed,
    cancel: &CancellationToken,
) -> Finished {
    let live = session.live.clone();
    session.view.begin(!deed.typed.is_empty());
    if let Some(size) = deed.size {
        live.type_in(Frame::Resize(size)).await;
        session.view.resize(size);
    }
    if let Some(signal) = deed.signal {
        live.signal(signal).await;
    }
    for piece in deed.typed.chunks(FRAME_BYTES_MAX) {
        live.type_in(Frame::Stdin(piece.to_vec())).await;
    }
    let is_idle = deed.typed.is_empty() && deed.signal.is_none();
    let waited = wait(session, &deed.until, is_idle, cancel).await;
    let mut finished = match waited {
        wait::Waited::Cancelled => {
            live.signal(SIGINT).await;
            Finished::new(
                Outcome::Cancelled,
                format!(
                    "stopped: the turn was cancelled, and Ctrl-C was sent to session `{name}`\n{}",
                    session.view.text()
                ),
            )
        }
        waited => Finished::ok(format!(
            "[session {name}: {}]\n{}",
            waited.words(session),
            session.view.text()
        )),
    };
    finished.exec_id.clone_from(&session.exec_id);
    finished
}

fn name(session: &str) -> Result<&str, String> {
    let is_usual = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    match session {
        "" => Ok("main"),
        name if name.len() <= SESSION_CHARS_MAX && name.chars().all(is_usual) => Ok(name),
        _ => Err(format!(
            "a session's name is letters, digits, `-`, `_` and `.`, at most {SESSION_CHARS_MAX}"
        )),
    }
}

fn deed(args: &Args) -> Result<Deed, String> {
    let mut typed = Vec::new();
    if let Some(input) = &args.input {
        if input.len() > INPUT_BYTES_MAX {
            return Err(format!(
                "`input` has {} bytes, over the {INPUT_BYTES_MAX} that are typed at once; use `write` \
                 for a file",
                input.len()
            ));
        }
        // The key that ends a line sends a carriage return; the terminal makes a line end of it.
        typed.extend(input.replace("\r\n", "\n").replace('\n', "\r").into_bytes());
        if !args.no_enter && !input.ends_with('\n') {
            typed.push(b'\r');
        }
    }
    for key in &args.keys {
        typed.extend(keys::bytes(key)?);
    }
    let signal = args.signal.as_deref().map(keys::signal).transpose()?;
    let wait_ms = args.wait_ms.unwrap_or(WAIT_DEFAULT_MS);
    if wait_ms > WAIT_MAX_MS {
        return Err(format!(
            "`wait_ms` is {wait_ms}; it can be 0 to {WAIT_MAX_MS}"
        ));
    }
    let pattern = args.until.as_deref().map(|pattern| {
        let built = regex::RegexBuilder::new(pattern)
            .multi_line(true)
            .size_limit(PATTERN_BYTES_MAX)
            .build();
        built.map_err(|error| format!("`until` is not a regular expression: {error}"))
    });
    let pattern: Option<Regex> = pattern.transpose()?;
    let size = (args.rows.is_some() || args.cols.is_some()).then(|| WindowSize {
        rows: args.rows.unwrap_or(0),
        cols: args.cols.unwrap_or(0),
    });
    Ok(Deed {
        typed,
        signal,
        size,
        until: Until {
            pattern,
            wait: Duration::from_millis(wait_ms),
        },
    })
}

fn spec() -> ToolSpec {
    let description = "Types into a shell (bash) that stays open between calls: its folder, variables, \
        background jobs and running programs persist. Use it for what needs a terminal or input (a REPL, a \
        debugger, ssh, a prompt to answer) or has to be looked at again (a server, a long build); use `shell` \
        for single commands. A session is opened when it is first named. Returns what was shown since the \
        call before, as plain text, as soon as the command typed is done (then with its exit code), `until` \
        matches, a running program has been silent for two seconds, or `wait_ms` is over; the command goes on \
        then, and calling again without `input` looks further. Of a program that fills the screen the screen is \
        shown. At most 16 sessions; a session is lost when the box stops.";
    let key = "As `enter`, `tab`, `escape`, `backspace`, `delete`, `up`, `down`, `left`, `right`, `home`, \
        `end`, `pageup`, `pagedown`, `space`, `f1` to `f12`, `ctrl-c`, `alt-b`, or one character.";
    ToolSpec {
        name: "terminal".into(),
        description: description.into(),
        parameters: object(
            json!({
                "session": text("Its name. Default `main`."),
                "input": text("Typed as it is, and the Enter key behind it."),
                "no_enter": flag("Do not press Enter behind `input`."),
                "keys": {
                    "type": "array",
                    "items": { "type": "string", "description": key },
                    "description": "Keys pressed after `input`, in order.",
                },
                "wait_ms": number("How long to wait at most. Default 20000.", 0, WAIT_MAX_MS),
                "until": text("Regular expression (Rust syntax, `^` and `$` at line ends): return as soon as \
                    what is shown matches, and not for silence."),
                "signal": text("Sent to what runs in the foreground, as `INT` or `TERM`."),
                "rows": number("Height of the terminal. Default 40.", 2, 500),
                "cols": number("Width of the terminal. Default 120.", 10, 1_000),
                "timeout_ms": number("For a session that is opened by this call: when it is ended with \
                    everything in it. Default never.", 1, u64::from(u32::MAX)),
                "close": flag("End the session and everything in it."),
                "list": flag("Only list the sessions."),
            }),
            &[],
        ),
    }
}
