//! One agent's loop.

use std::{sync::Arc, time::Duration};

use cocoonbox_commands::agent::{Command, Next, Rejection, Stage, State, ToolCall};
use cocoonbox_events::Fold;
use cocoonbox_proto::log::v1::{Actor, ModelChoice, actor};
use tokio::{
    sync::{Notify, Semaphore},
    task::JoinSet,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{
    model::{self, Streamed},
    prompt,
};
use crate::{
    journal::{self, Journal},
    tool::{Finished, Tools},
    wire::{Call, Door, Heard, Request, ToolSpec},
};

/// Tools of one reply that run at one time. Only those that read do so beside each other.
const TOOLS_MAX: usize = 8;
/// Chunks of one append; their limit is 64, and bytes count too.
const CHUNKS_MAX: usize = 32;

/// What every loop of a process shares.
pub(super) struct Shared {
    pub(super) journal: Journal,
    pub(super) tools: Tools,
    pub(super) specs: Vec<ToolSpec>,
    pub(super) door: Door,
    pub(super) box_id: String,
    pub(super) stop: CancellationToken,
}

pub(super) struct TurnLoop {
    shared: Arc<Shared>,
    agent_id: String,
    fold: Fold<State>,
    wake: Arc<Notify>,
    /// The attempt that is waited for, and until when.
    retry: Option<((String, u32), Instant)>,
}

/// Why a loop ends.
enum End {
    /// The process is ending.
    Stopped,
    Journal(journal::Error<Rejection>),
}

impl From<journal::Error<Rejection>> for End {
    fn from(error: journal::Error<Rejection>) -> Self {
        match error {
            journal::Error::Closed => Self::Stopped,
            error => Self::Journal(error),
        }
    }
}

impl TurnLoop {
    pub(super) fn new(
        shared: Arc<Shared>,
        agent_id: String,
        fold: Fold<State>,
        wake: Arc<Notify>,
    ) -> Self {
        Self {
            shared,
            agent_id,
            fold,
            wake,
            retry: None,
        }
    }

    /// Works until the process ends.
    pub(super) async fn run(mut self) {
        if let Err(End::Journal(error)) = self.work().await {
            // The agent stands still until the next start; its log says where.
            tracing::error!(%error, agent = self.agent_id, "turn loop ended");
            if !matches!(error, journal::Error::Rejected(_)) {
                self.shared.journal.broken().cancel();
            }
        }
    }

    async fn work(&mut self) -> Result<(), End> {
        loop {
            self.refresh().await?;
            match self.fold.state.next() {
                Next::Idle | Next::Wait(_) => self.woken().await?,
                Next::Advance => self.advance().await?,
                Next::CallModel { call_id, model, .. } => self.call(&call_id, &model).await?,
                Next::RunTools(calls) => self.run_tools(calls).await?,
            }
        }
    }

    async fn refresh(&mut self) -> Result<(), End> {
        let store = Arc::clone(self.shared.journal.store());
        let refreshed = self.fold.refresh(&*store).await;
        refreshed.map_err(|error| End::Journal(journal::Error::Load(error)))
    }

    async fn woken(&self) -> Result<(), End> {
        tokio::select! {
            biased;
            () = self.shared.stop.cancelled() => Err(End::Stopped),
            () = self.wake.notified() => Ok(()),
        }
    }

    async fn execute(&mut self, command: &Command) -> Result<(), End> {
        let journal = self.shared.journal.clone();
        let actor = Actor {
            kind: actor::Kind::Agent.into(),
            id: self.agent_id.clone(),
        };
        Ok(journal
            .execute(&mut self.fold, command, actor)
            .await
            .map(drop)?)
    }

    /// Reports what came of an effect. A report that the decider does not take must not lead to the
    /// same effect again: then `instead` is reported.
    async fn report(&mut self, command: &Command, instead: Command) -> Result<(), End> {
        match self.execute(command).await {
            Err(End::Journal(journal::Error::Rejected(rejection))) => {
                tracing::warn!(%rejection, agent = self.agent_id, "report refused");
                self.execute(&instead).await
            }
            executed => executed,
        }
    }

    /// Writes the step that is due, after the wait that it asks for.
    async fn advance(&mut self) -> Result<(), End> {
        if let Some(until) = self.retry_at() {
            tokio::select! {
                biased;
                () = self.shared.stop.cancelled() => return Err(End::Stopped),
                // A cancel must not wait; anything else finds the same moment again.
                () = self.wake.notified() => return Ok(()),
                () = sleep_until(until) => {}
            }
        }
        self.retry = None;
        let journal = &self.shared.journal;
        let command = Command::Advance {
            turn_id: journal.draw(),
            call_id: journal.draw(),
            approval_id: journal.draw(),
        };
        self.execute(&command).await
    }

    fn retry_at(&mut self) -> Option<Instant> {
        let wait_ms = self.fold.state.retry_after_ms();
        let turn = self.fold.state.turn.as_ref()?;
        let Stage::CallDue {
            failure: Some(failure),
        } = &turn.stage
        else {
            return None;
        };
        if wait_ms == 0 {
            return None;
        }
        let attempt = (turn.turn_id.clone(), failure.attempt);
        let until = match &self.retry {
            Some((waiting, until)) if *waiting == attempt => *until,
            _ => Instant::now() + Duration::from_millis(wait_ms + jitter(wait_ms)),
        };
        self.retry = Some((attempt, until));
        Some(until)
    }

    /// Makes a model call and reports how it ended.
    async fn call(&mut self, call_id: &str, model: &ModelChoice) -> Result<(), End> {
        if self.fold.state.is_cancelling() {
            return self.execute(&model::cancelled(call_id)).await;
        }
        let shared = Arc::clone(&self.shared);
        let system = prompt::system(&shared.box_id, shared.journal.now_us());
        let conversation = self.fold.state.conversation().to_vec();
        let request = Request {
            model,
            system: &system,
            conversation: &conversation,
            tools: &shared.specs,
        };
        let calling = shared.door.call(call_id, &request);
        tokio::pin!(calling);
        let begun = loop {
            tokio::select! {
                biased;
                () = shared.stop.cancelled() => return Err(End::Stopped),
                () = self.wake.notified() => if self.is_cancelled().await? {
                    return self.execute(&model::cancelled(call_id)).await;
                },
                begun = &mut calling => break begun,
            }
        };
        let command = match begun {
            Ok(call) => self.listen(call_id, call).await?,
            Err(failure) => model::failed(call_id, failure),
        };
        self.report(&command, model::unusable(call_id)).await
    }

    /// Writes what a stream says as it comes, and returns how it ended.
    async fn listen(&mut self, call_id: &str, mut call: Call) -> Result<Command, End> {
        let mut streamed = Streamed::new();
        let stop = self.shared.stop.clone();
        let wake = Arc::clone(&self.wake);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return Err(End::Stopped),
                () = wake.notified() => if self.is_cancelled().await? {
                    return Ok(model::cancelled(call_id));
                },
                () = streamed.due() => self.write(call_id, &mut streamed).await?,
                heard = call.next() => match heard {
                    Ok(Heard::More(deltas)) => streamed.take(deltas),
                    Ok(Heard::Whole(reply)) => {
                        self.write(call_id, &mut streamed).await?;
                        return Ok(model::replied(call_id, *reply));
                    }
                    Err(failure) => {
                        self.write(call_id, &mut streamed).await?;
                        return Ok(model::failed(call_id, failure));
                    }
                },
            }
        }
    }

    async fn write(&mut self, call_id: &str, streamed: &mut Streamed) -> Result<(), End> {
        let mut chunks = streamed.drain();
        while !chunks.is_empty() {
            let rest = chunks.split_off(chunks.len().min(CHUNKS_MAX));
            let command = Command::Streamed {
                call_id: call_id.to_owned(),
                chunks,
            };
            self.execute(&command).await?;
            chunks = rest;
        }
        Ok(())
    }

    async fn is_cancelled(&mut self) -> Result<bool, End> {
        self.refresh().await?;
        Ok(self.fold.state.is_cancelling())
    }

    /// Runs tools and reports each as it ends.
    async fn run_tools(&mut self, calls: Vec<ToolCall>) -> Result<(), End> {
        let cancel = CancellationToken::new();
        if self.fold.state.is_cancelling() {
            cancel.cancel();
        }
        let room = Arc::new(Semaphore::new(TOOLS_MAX));
        let mut running = JoinSet::new();
        for call in calls {
            let (tools, agent_id) = (self.shared.tools.clone(), self.agent_id.clone());
            let (room, cancel) = (Arc::clone(&room), cancel.clone());
            running.spawn(async move {
                let _room = room.acquire_owned().await;
                let finished = tools.run(&agent_id, &call, &cancel).await;
                (call.tool_call_id, finished)
            });
        }
        let stop = self.shared.stop.clone();
        let wake = Arc::clone(&self.wake);
        loop {
            let ended = tokio::select! {
                biased;
                () = stop.cancelled() => return Err(End::Stopped),
                () = wake.notified(), if !cancel.is_cancelled() => {
                    if self.is_cancelled().await? {
                        cancel.cancel();
                    }
                    continue;
                }
                ended = running.join_next() => ended,
            };
            let Some(ended) = ended else { return Ok(()) };
            // A panic is our bug: this agent stands still, and the next start says `interrupted`.
            let Ok((tool_call_id, Some(finished))) = ended else {
                stop_or_panic(&stop).await;
                return Err(End::Stopped);
            };
            let unusable = Finished::unusable().report(tool_call_id.clone());
            self.report(&finished.report(tool_call_id), unusable)
                .await?;
        }
    }
}

/// A tool without a result means that the process is ending, or that it panicked.
async fn stop_or_panic(stop: &CancellationToken) {
    tracing::warn!("tool ended without a result");
    stop.cancelled().await;
}

/// Up to a quarter more, so that boxes that failed together do not come back together.
fn jitter(wait_ms: u64) -> u64 {
    let mut random = [0; 8];
    match getrandom::fill(&mut random) {
        Ok(()) => u64::from_le_bytes(random) % (wait_ms / 4 + 1),
        Err(_) => 0,
    }
}
