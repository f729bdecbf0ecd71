//! Which execs run, and how one is started, found again, signalled and stopped.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use cocoonbox_commands::exec::{Command, Rejection, State};
use cocoonbox_events::{Fold, StreamName};
use cocoonbox_proto::{
    log::v1::{ExecExited, ExecStarted},
    toolhost::v1::{RunStart, WindowSize, run_input},
};
use tokio::{
    sync::{Semaphore, mpsc, oneshot, watch},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{Toolhost, logged, pipe, pipe::Piped, screen::Screen};
use crate::journal::{self, Journal};

/// At one time, pipes and logged together; as many as the toolhost runs. Others wait.
const EXECS_MAX: usize = 256;
/// How long an exec waits for its turn.
const TURN_MAX: Duration = Duration::from_mins(1);
/// Signals on their way to an exec.
const SIGNALS_MAX: usize = 8;
/// Frames on their way to a terminal. The toolhost takes them at once, read or not.
const TYPED_MAX: usize = 16;
/// Terminals at one time: each keeps its last output in memory and a shell alive.
pub(crate) const TERMINALS_MAX: usize = 16;
/// Of an id that a caller chose.
const ID_BYTES_MAX: usize = 64;

/// A command to run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spec {
    pub(crate) exec_id: String,
    pub(crate) argv: Vec<String>,
    /// What the log has in the place of `argv`, where somebody may have written a secret there; empty = that.
    pub(crate) argv_told: Vec<String>,
    pub(crate) cwd: String,
    pub(crate) env: HashMap<String, String>,
    pub(crate) timeout_ms: u64,
    pub(crate) tool_call_id: String,
    pub(crate) background: bool,
    /// It runs at a terminal of this size.
    pub(crate) tty: Option<WindowSize>,
}

/// Every exec of this process.
#[derive(Clone)]
pub(crate) struct Execs(Arc<Inner>);

pub(super) struct Inner {
    pub(super) journal: Journal,
    pub(super) toolhost: Toolhost,
    live: Mutex<HashMap<String, Live>>,
    turns: Arc<Semaphore>,
    tasks: TaskTracker,
    /// Ends every exec as interrupted.
    pub(super) interrupt: CancellationToken,
}

/// An exec that runs in this process.
#[derive(Clone, Debug)]
pub(crate) struct Live {
    started: Arc<ExecStarted>,
    signals: mpsc::Sender<i32>,
    typed: mpsc::Sender<run_input::Frame>,
    screen: Option<Screen>,
    cancel: CancellationToken,
    progress: watch::Receiver<Progress>,
}

/// How far an exec is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    /// Sequence number of the last event written to its stream.
    pub(crate) seq: u64,
    pub(crate) ending: Option<Arc<Ending>>,
    /// Output in the order in which it came, as long as it is short. For tools.
    pub(crate) beginning: Arc<str>,
}

/// How an exec ended.
#[derive(Debug)]
pub(crate) struct Ending {
    pub(crate) exited: ExecExited,
    /// Both outputs in the order in which they came, bounded. For tools.
    pub(crate) merged: String,
}

enum Entered {
    First(Box<Task>, Live),
    There(Live),
}

/// What the task of an exec holds of it.
pub(super) struct Task {
    pub(super) inner: Arc<Inner>,
    pub(super) spec: Spec,
    started: Arc<ExecStarted>,
    pub(super) fold: Fold<State>,
    pub(super) signals: mpsc::Receiver<i32>,
    pub(super) typed: mpsc::Receiver<run_input::Frame>,
    pub(super) screen: Option<Screen>,
    pub(super) cancel: CancellationToken,
    pub(super) progress: watch::Sender<Progress>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error("`{0}` is not usable as an exec id: letters, digits, `-`, `_` and `.`, at most 64")]
    BadId(String),
    #[error(transparent)]
    Rejected(Rejection),
    #[error("too many commands run in this box")]
    Busy,
    #[error(
        "{TERMINALS_MAX} terminals are open in this box, and that is the most; close one first"
    )]
    TooManyTerminals,
    #[error("the box is being stopped")]
    Stopping,
    #[error("exec `{0}` ran before, and a pipe cannot be joined again")]
    PipeEnded(String),
    #[error(transparent)]
    Journal(journal::Error<Rejection>),
}

impl From<journal::Error<Rejection>> for StartError {
    fn from(error: journal::Error<Rejection>) -> Self {
        match error {
            journal::Error::Rejected(rejection) => Self::Rejected(rejection),
            journal::Error::Closed => Self::Stopping,
            error => Self::Journal(error),
        }
    }
}

impl Execs {
    pub(crate) fn new(journal: Journal, toolhost: Toolhost) -> Self {
        Self(Arc::new(Inner {
            journal,
            toolhost,
            live: Mutex::default(),
            turns: Arc::new(Semaphore::new(EXECS_MAX)),
            tasks: TaskTracker::new(),
            interrupt: CancellationToken::new(),
        }))
    }

    /// Starts a logged exec, or finds the one that was started with this id. `None`: it has ended, and
    /// the log has all of it.
    pub(crate) async fn start(&self, spec: Spec) -> Result<Option<Live>, StartError> {
        let asked = spec.started(false);
        let (task, live) = match self.enter(spec, asked)? {
            Entered::First(task, live) => (task, live),
            Entered::There(live) => return Ok(Some(live)),
        };
        let is_fresh = self.launch(task, logged::run).await?;
        Ok(is_fresh.then_some(live))
    }

    /// Starts a pipe. It lives as long as its caller.
    pub(crate) async fn pipe(&self, spec: Spec, caller: pipe::Caller) -> Result<(), StartError> {
        let (asked, exec_id) = (spec.started(true), spec.exec_id.clone());
        let Entered::First(task, _) = self.enter(spec, asked)? else {
            return Err(StartError::PipeEnded(exec_id));
        };
        let is_fresh = self.launch(task, |task| pipe::run(task, caller)).await?;
        if is_fresh {
            Ok(())
        } else {
            Err(StartError::PipeEnded(exec_id))
        }
    }

    /// Starts a pipe for a caller in this process.
    pub(crate) async fn piped(&self, spec: Spec) -> Result<Piped, StartError> {
        let (piped, caller) = Piped::new();
        self.pipe(spec, caller).await?;
        Ok(piped)
    }

    /// Draws an id.
    pub(crate) fn draw(&self) -> String {
        self.0.journal.draw()
    }

    /// Sends a signal to a running exec's process group; false if there is none.
    pub(crate) async fn signal(&self, exec_id: &str, signal: i32) -> bool {
        match self.live(exec_id) {
            Some(live) => live.signal(signal).await,
            None => false,
        }
    }

    /// Ends every exec as interrupted and returns once that is written.
    pub(crate) async fn interrupt(&self) {
        self.0.interrupt.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }

    /// Writes the end of execs that an earlier process left running.
    pub(crate) async fn bury(&self, exec_id: &str) -> Result<(), StartError> {
        let mut fold = self.0.journal.fold::<State>(stream(exec_id)?);
        let actor = self.0.journal.own_actor();
        self.0
            .journal
            .record(&mut fold, &Command::Interrupt, actor, &self.0.interrupt)
            .await?;
        Ok(())
    }

    /// Returns what the log knows of an exec.
    pub(crate) async fn state(&self, exec_id: &str) -> Result<State, StartError> {
        let mut fold = self.0.journal.fold::<State>(stream(exec_id)?);
        fold.refresh(&**self.0.journal.store())
            .await
            .map_err(journal::Error::Load)?;
        Ok(fold.state)
    }

    pub(crate) fn live(&self, exec_id: &str) -> Option<Live> {
        self.0
            .live
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(exec_id)
            .cloned()
    }

    /// Runs an exec in a task of its own once its first event is written. False: the log had it
    /// already, and it must not run again.
    async fn launch<F>(
        &self,
        mut task: Box<Task>,
        run: impl FnOnce(Task) -> F + Send + 'static,
    ) -> Result<bool, StartError>
    where
        F: Future<Output = ()> + Send,
    {
        let (answer, answered) = oneshot::channel();
        let turns = Arc::clone(&self.0.turns);
        self.0.tasks.spawn(async move {
            let begun = match timeout(TURN_MAX, turns.acquire_owned()).await {
                Ok(Ok(turn)) => task.begin().await.map(|is_fresh| is_fresh.then_some(turn)),
                Ok(Err(_)) | Err(_) => Err(StartError::Busy),
            };
            match begun {
                Ok(Some(_turn)) => {
                    // A caller that went away does not matter: the exec is the log's.
                    answer.send(Ok(true)).ok();
                    run(*task).await;
                }
                not_begun => {
                    task.forget();
                    answer.send(not_begun.map(|_| false)).ok();
                }
            }
        });
        answered.await.unwrap_or(Err(StartError::Stopping))
    }

    /// Enters an exec among the live ones, or finds it there.
    fn enter(&self, spec: Spec, asked: ExecStarted) -> Result<Entered, StartError> {
        let stream = stream(&spec.exec_id)?;
        let mut all = self.0.live.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(live) = all.get(&spec.exec_id) {
            if *live.started != asked {
                let exec_id = spec.exec_id;
                return Err(StartError::Rejected(Rejection::OtherExec { exec_id }));
            }
            return Ok(Entered::There(live.clone()));
        }
        let open = all.values().filter(|live| live.screen.is_some()).count();
        if spec.tty.is_some() && open >= TERMINALS_MAX {
            return Err(StartError::TooManyTerminals);
        }
        let screen = spec.tty.map(|_| Screen::new());
        let (signal, signals) = mpsc::channel(SIGNALS_MAX);
        let (type_in, typed) = mpsc::channel(TYPED_MAX);
        let (progress, watched) = watch::channel(Progress::default());
        let cancel = self.0.interrupt.child_token();
        let live = Live {
            started: Arc::new(asked),
            signals: signal,
            typed: type_in,
            screen: screen.clone(),
            cancel: cancel.clone(),
            progress: watched,
        };
        all.insert(spec.exec_id.clone(), live.clone());
        let task = Task {
            inner: Arc::clone(&self.0),
            started: Arc::clone(&live.started),
            fold: self.0.journal.fold::<State>(stream),
            spec,
            signals,
            typed,
            screen,
            cancel,
            progress,
        };
        Ok(Entered::First(Box::new(task), live))
    }
}

impl Task {
    /// Writes the first event; false if the log had it.
    async fn begin(&mut self) -> Result<bool, StartError> {
        let journal = self.inner.journal.clone();
        let command = Command::Start((*self.started).clone());
        let written = journal
            .execute(&mut self.fold, &command, journal.own_actor())
            .await?;
        let seq = self.fold.seq;
        self.progress.send_modify(|progress| progress.seq = seq);
        // An append that was repeated because its outcome was not known was still ours.
        Ok(written.replayed || !written.events.is_empty())
    }

    /// Leaves the list of live execs. Before the last word to those who watch, so that whoever looks
    /// for it behind that finds it in the log.
    pub(super) fn forget(&self) {
        let mut all = self
            .inner
            .live
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        all.remove(&self.spec.exec_id);
    }

    /// Writes to the exec's stream and tells those who watch. A full disk holds it up until `stop`.
    pub(super) async fn write(
        &mut self,
        command: &Command,
        stop: &CancellationToken,
    ) -> Result<(), StartError> {
        let actor = self.inner.journal.own_actor();
        self.inner
            .journal
            .record(&mut self.fold, command, actor, stop)
            .await?;
        let seq = self.fold.seq;
        self.progress.send_modify(|progress| progress.seq = seq);
        Ok(())
    }

    /// Writes the end, with what is left of the output where that can be, and tells those who watch.
    pub(super) async fn end(mut self, left: Vec<Command>, exited: ExecExited, merged: String) {
        let interrupt = self.inner.interrupt.clone();
        let exit = Command::Exit(exited.clone());
        let mut whole = left;
        whole.push(exit.clone());
        let written = match self.write(&Command::Together(whole), &interrupt).await {
            // Output that was lost on the way leaves a gap. An exit has happened and stands by itself.
            Err(StartError::Rejected(_)) => self.write(&exit, &interrupt).await,
            written => written,
        };
        if let Err(error) = written {
            // The next process finds it running and buries it.
            tracing::warn!(%error, exec = self.spec.exec_id, "end of exec not written");
        }
        self.forget();
        let ending = Arc::new(Ending { exited, merged });
        self.progress
            .send_modify(|progress| progress.ending = Some(ending));
    }
}

impl Live {
    pub(crate) fn cancel(&self) {
        self.cancel.cancel();
    }

    pub(crate) fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.clone()
    }

    /// Its terminal, where it has one.
    pub(crate) fn screen(&self) -> Option<Screen> {
        self.screen.clone()
    }

    /// Types at its terminal, or resizes that; false if it has ended.
    pub(crate) async fn type_in(&self, frame: run_input::Frame) -> bool {
        self.typed.send(frame).await.is_ok()
    }

    /// Sends a signal to its process group, or to what is in the foreground of its terminal.
    pub(crate) async fn signal(&self, signal: i32) -> bool {
        self.signals.send(signal).await.is_ok()
    }
}

impl Spec {
    pub(super) fn started(&self, pipe: bool) -> ExecStarted {
        ExecStarted {
            exec_id: self.exec_id.clone(),
            argv: if self.argv_told.is_empty() {
                self.argv.clone()
            } else {
                self.argv_told.clone()
            },
            cwd: self.cwd.clone(),
            timeout_ms: self.timeout_ms,
            tool_call_id: self.tool_call_id.clone(),
            pipe,
            background: self.background,
            tty: self.tty.is_some(),
        }
    }

    pub(super) fn run_start(&mut self, stdin: bool) -> RunStart {
        RunStart {
            argv: self.argv.clone(),
            cwd: self.cwd.clone(),
            env: std::mem::take(&mut self.env),
            timeout_ms: self.timeout_ms,
            stdin,
            tty: self.tty,
        }
    }
}

/// The stream of an exec.
pub(crate) fn stream(exec_id: &str) -> Result<StreamName, StartError> {
    let bad = || StartError::BadId(exec_id.chars().take(ID_BYTES_MAX).collect());
    if exec_id.is_empty() || exec_id.len() > ID_BYTES_MAX || exec_id.contains('/') {
        return Err(bad());
    }
    StreamName::new(format!("exec/{exec_id}")).map_err(|_| bad())
}
