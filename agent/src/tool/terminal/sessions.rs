//! Which sessions there are. A session is an exec of the log whose id says whose it is and how many of
//! its name there were before, so that a lost one is known for lost.

use std::{collections::HashMap, sync::Arc, time::Duration};

use cocoonbox_proto::{
    log::v1::{ExecExited, exec_exited::Reason},
    toolhost::v1::WindowSize,
};
use tokio::{sync::Mutex, time::timeout};

use super::{plain::plain, view::View};
use crate::{
    exec::{Execs, Live, Spec, StartError},
    tool::Context,
};

/// How long a shell may take to show its first prompt. It is typed into all the same then.
const FIRST_PROMPT_MAX: Duration = Duration::from_secs(10);
/// How long a session that is closed may take to be gone.
const CLOSE_MAX: Duration = Duration::from_secs(5);
/// Of a lost session's last output that is told.
const LAST_CHARS_MAX: usize = 2_000;

/// Every session that this process opened.
pub(super) struct Sessions {
    execs: Execs,
    all: Mutex<HashMap<Key, Entry>>,
}

type Key = (String, String);

/// The last session of a name.
struct Entry {
    number: u64,
    session: Option<Arc<Mutex<Session>>>,
    live: Option<Live>,
}

/// A shell that is open.
pub(super) struct Session {
    pub(super) exec_id: String,
    pub(super) live: Live,
    pub(super) view: View,
}

pub(super) enum Found {
    There(Arc<Mutex<Session>>),
    /// It is gone, and nobody has said so yet.
    Ended(String),
}

impl Sessions {
    pub(super) fn new(execs: Execs) -> Self {
        Self {
            execs,
            all: Mutex::default(),
        }
    }

    /// Finds a session, or opens it. One that ended since the last call is told once.
    pub(super) async fn open(
        &self,
        context: &Context<'_>,
        name: &str,
        size: WindowSize,
        timeout_ms: u64,
        env: HashMap<String, String>,
    ) -> Result<Found, String> {
        let mut all = self.all.lock().await;
        let key = (context.agent_id.to_owned(), name.to_owned());
        let mut number = match all.get_mut(&key) {
            Some(Entry {
                session: Some(session),
                live: Some(live),
                number,
            }) => {
                if live.progress().borrow().ending.is_none() {
                    return Ok(Found::There(Arc::clone(session)));
                }
                let number = *number;
                let last = session.lock().await.last_words(name);
                all.insert(key, Entry::past(number));
                return Ok(Found::Ended(last));
            }
            Some(entry) => entry.number,
            None => {
                let number = self.last_number(context.agent_id, name).await?;
                all.insert(key.clone(), Entry::past(number));
                if let Some(text) = self.lost(context.agent_id, name, number).await? {
                    return Ok(Found::Ended(text));
                }
                number
            }
        };
        number += 1;
        let exec_id = exec_id(context.agent_id, name, number);
        let spec = Spec {
            exec_id: exec_id.clone(),
            argv: shell(),
            env: env.into_iter().chain(environment()).collect(),
            timeout_ms,
            tool_call_id: context.call.tool_call_id.clone(),
            background: true,
            tty: Some(size),
            ..Spec::default()
        };
        let live = self.execs.start(spec).await.map_err(|error| said(&error))?;
        let Some((live, screen)) = live.and_then(|live| Some((live.clone(), live.screen()?)))
        else {
            return Err(format!(
                "session `{name}` cannot be opened; use another name"
            ));
        };
        let mut view = View::new(screen, size);
        first_prompt(&mut view, &live).await;
        let session = Arc::new(Mutex::new(Session {
            exec_id,
            live: live.clone(),
            view,
        }));
        let entry = Entry {
            number,
            session: Some(Arc::clone(&session)),
            live: Some(live),
        };
        all.insert(key, entry);
        Ok(Found::There(session))
    }

    /// Ends a session with everything in it.
    pub(super) async fn close(&self, agent_id: &str, name: &str) -> Result<String, String> {
        let key = (agent_id.to_owned(), name.to_owned());
        let mut all = self.all.lock().await;
        let entry = all.get_mut(&key);
        let Some((number, live)) = entry.and_then(|entry| Some((entry.number, entry.live.take()?)))
        else {
            return Err(format!("no session `{name}` is open"));
        };
        all.insert(key, Entry::past(number));
        drop(all);
        live.cancel();
        let mut progress = live.progress();
        let gone = progress.wait_for(|now| now.ending.is_some());
        Ok(match timeout(CLOSE_MAX, gone).await {
            Ok(_) => format!("closed session `{name}` and everything in it"),
            Err(_) => format!("session `{name}` is being closed"),
        })
    }

    pub(super) async fn list(&self, agent_id: &str) -> String {
        let all = self.all.lock().await;
        let mut lines: Vec<_> = all
            .iter()
            .filter(|((agent, _), _)| agent == agent_id)
            .filter_map(|((_, name), entry)| {
                let is_open = entry.live.as_ref()?.progress().borrow().ending.is_none();
                let state = if is_open { "open" } else { "ended" };
                let id = exec_id(agent_id, name, entry.number);
                Some(format!("{name}: {state}, exec `{id}`"))
            })
            .collect();
        lines.sort();
        if lines.is_empty() {
            return "[no session is open]".to_owned();
        }
        lines.join("\n")
    }

    /// How many sessions of this name there were. Looked for by doubling, because each is an exec.
    async fn last_number(&self, agent_id: &str, name: &str) -> Result<u64, String> {
        let (mut there, mut beyond) = (0, 1);
        while self.state(agent_id, name, beyond).await?.0 {
            there = beyond;
            beyond *= 2;
        }
        while beyond - there > 1 {
            let middle = there + (beyond - there) / 2;
            if self.state(agent_id, name, middle).await?.0 {
                there = middle;
            } else {
                beyond = middle;
            }
        }
        Ok(there)
    }

    /// What is to be said of the last session of an earlier process.
    async fn lost(
        &self,
        agent_id: &str,
        name: &str,
        number: u64,
    ) -> Result<Option<String>, String> {
        if number == 0 {
            return Ok(None);
        }
        let (_, exited) = self.state(agent_id, name, number).await?;
        let exited = exited.unwrap_or_default();
        let was_lost = matches!(exited.reason(), Reason::Interrupted | Reason::Unspecified);
        Ok(was_lost.then(|| {
            let last = exited.stdout.map(|kept| match kept.tail.as_slice() {
                [] => kept.head,
                tail => tail.to_vec(),
            });
            format!(
                "nothing was typed: session `{name}` was lost when the box was stopped or its agent restarted. \
                 Its folder, variables and programs are gone; files are not. Call again, and a fresh one is \
                 opened in /workspace.{}",
                last_output(&last.unwrap_or_default())
            )
        }))
    }

    /// Whether there was such a session, and how it ended.
    async fn state(
        &self,
        agent_id: &str,
        name: &str,
        number: u64,
    ) -> Result<(bool, Option<ExecExited>), String> {
        let id = exec_id(agent_id, name, number);
        let state = self.execs.state(&id).await.map_err(|error| said(&error))?;
        Ok((state.started.is_some(), state.exited))
    }
}

impl Entry {
    fn past(number: u64) -> Self {
        Self {
            number,
            session: None,
            live: None,
        }
    }
}

impl Session {
    /// How it ended, in short.
    pub(super) fn ending_words(&self) -> String {
        let ending = self.live.progress().borrow().ending.clone();
        let Some(ending) = ending else {
            return "it is ending".to_owned();
        };
        let exited = &ending.exited;
        match exited.reason() {
            Reason::Exited => format!("the shell has ended with exit code {}", exited.code),
            Reason::Signalled => format!("the shell was killed by signal {}", exited.signal),
            Reason::TimedOut => {
                "its `timeout_ms` was over, and everything in it was killed".to_owned()
            }
            Reason::NotStarted => format!("it was not started: {}", exited.detail),
            Reason::Cancelled | Reason::Interrupted | Reason::Unspecified => {
                "it was ended from outside".to_owned()
            }
        }
    }

    fn last_words(&mut self, name: &str) -> String {
        self.view.look();
        format!(
            "nothing was typed: session `{name}` is over ({}). Call again, and a fresh one is opened in \
             /workspace. It showed last:\n{}",
            self.ending_words(),
            self.view.text()
        )
    }
}

async fn first_prompt(view: &mut View, live: &Live) {
    let mut progress = live.progress();
    let prompt = async {
        loop {
            view.look();
            if view.is_at_prompt() || progress.borrow().ending.is_some() {
                return;
            }
            tokio::select! {
                () = view.more() => {}
                ended = progress.wait_for(|now| now.ending.is_some()) => {
                    if ended.is_err() {
                        return;
                    }
                }
            }
        }
    };
    timeout(FIRST_PROMPT_MAX, prompt).await.ok();
}

/// Without the user's own files, whose prompts and aliases would be in the way.
fn shell() -> Vec<String> {
    let argv = ["bash", "--noprofile", "--norc", "-i"];
    argv.map(ToOwned::to_owned).to_vec()
}

/// Prompts that say what is going on in marks which no reader sees.
fn environment() -> HashMap<String, String> {
    let done = r#"printf '\033]133;D;%s\007\033]7;%s\007' "$?" "$PWD""#;
    [
        ("PROMPT_COMMAND", done),
        ("PS1", r"\[\e]133;A\a\]$ "),
        ("PS0", r"\e]133;C\a"),
        ("PS2", "> "),
        ("HISTFILE", "/dev/null"),
        ("NO_COLOR", "1"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into()
}

fn last_output(bytes: &[u8]) -> String {
    let text = plain(&String::from_utf8_lossy(bytes));
    let text = text.trim_end();
    if text.is_empty() {
        return String::new();
    }
    let skipped = text.chars().count().saturating_sub(LAST_CHARS_MAX);
    let end: String = text.chars().skip(skipped).collect();
    format!(" It showed last:\n{end}")
}

fn said(error: &StartError) -> String {
    match error {
        StartError::Journal(error) => {
            tracing::error!(%error, "session not opened");
            "the log cannot be written".to_owned()
        }
        error => error.to_string(),
    }
}

fn exec_id(agent_id: &str, name: &str, number: u64) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(agent_id.as_bytes());
    hasher.update(&[0]);
    hasher.update(name.as_bytes());
    let owner = hex::encode(&hasher.finalize().as_bytes()[..8]);
    format!("term-{owner}-{number}")
}
