//! When a call at a session has seen enough.

use std::time::Duration;

use regex::Regex;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::sessions::Session;

/// A program that shows something and then nothing for so long waits for us, or works.
const SILENCE: Duration = Duration::from_secs(2);
/// Behind a prompt: the next of several lines that were typed at once begins by then.
const PROMPT: Duration = Duration::from_millis(150);

/// What is waited for.
pub(super) struct Until {
    pub(super) pattern: Option<Regex>,
    pub(super) wait: Duration,
}

/// How the waiting ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waited {
    /// The shell has done what was typed.
    Done,
    Matched,
    Silent,
    TimeUp,
    Ended,
    Cancelled,
}

pub(super) async fn wait(
    session: &mut Session,
    until: &Until,
    is_idle: bool,
    cancel: &CancellationToken,
) -> Waited {
    let deadline = Instant::now() + until.wait;
    let mut progress = session.live.progress();
    let mut last_seen = Instant::now();
    loop {
        let has_ended = progress.borrow().ending.is_some();
        if session.view.look() {
            last_seen = Instant::now();
        }
        if let Some(pattern) = &until.pattern
            && pattern.is_match(&session.view.recent())
        {
            return Waited::Matched;
        }
        if has_ended {
            return Waited::Ended;
        }
        let view = &session.view;
        let is_done = view.is_at_prompt() && (view.exit_code.is_some() || is_idle);
        let (quiet, enough) = if is_done {
            (Some(last_seen + PROMPT), Waited::Done)
        } else if until.pattern.is_none() && (view.has_output || view.is_at_prompt()) {
            (Some(last_seen + SILENCE), Waited::Silent)
        } else {
            (None, Waited::TimeUp)
        };
        let (at, enough) = match quiet {
            Some(at) if at < deadline => (at, enough),
            _ => (
                deadline,
                if is_done {
                    Waited::Done
                } else {
                    Waited::TimeUp
                },
            ),
        };
        tokio::select! {
            biased;
            () = cancel.cancelled() => return Waited::Cancelled,
            () = session.view.more() => {}
            ended = progress.wait_for(|now| now.ending.is_some()) => {
                if ended.is_err() {
                    return Waited::Ended;
                }
            }
            () = sleep_until(at) => return enough,
        }
    }
}

impl Waited {
    /// As the model is told.
    pub(super) fn words(self, session: &Session) -> String {
        let at = match session.view.folder.as_str() {
            "" => String::new(),
            folder => format!(", in {folder}"),
        };
        match (self, session.view.exit_code) {
            (Self::Done, Some(code)) => format!("exit code {code}{at}"),
            (Self::Done, None) => format!("waits for a command{at}"),
            (Self::Matched, _) => "`until` matches".to_owned(),
            (Self::Silent, _) if session.view.is_at_prompt() => {
                "the shell waits for more, as for the end of a quotation".to_owned()
            }
            (Self::Silent, _) => "silent, still running".to_owned(),
            (Self::TimeUp, _) => "still running when `wait_ms` was over".to_owned(),
            (Self::Ended | Self::Cancelled, _) => session.ending_words(),
        }
    }
}
