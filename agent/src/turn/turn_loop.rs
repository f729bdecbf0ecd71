//! One agent's loop.

mod saved;
mod waits;

use std::{sync::Arc, time::Duration};

use cocoonbox_commands::agent::{Command, Entry, Next, Rejection, Stage, State, ToolCall};
use cocoonbox_events::{EventId, Fold};
use cocoonbox_proto::log::v1::{Actor, ModelChoice, ModelRole, actor};
use futures::FutureExt as _;
use tokio::{
    sync::{Notify, Semaphore},
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{
    instruct,
    model::{self, Ended, Streamed},
    roster::Roster,
    summary,
};
use crate::{
    blobs::Blobs,
    exec::Toolhost,
    journal::{self, Journal},
    saves::Saves,
    tool::{self, Asker, Offered, Tools},
    wire::{Call, Caller, Door, Heard, ImageBytes, Request, images_shown},
};

/// Tools of one reply that run at one time. Only those that read do so beside each other.
const TOOLS_MAX: usize = 8;
/// Chunks of one append; their limit is 64, and bytes count too.
const CHUNKS_MAX: usize = 32;

/// How long a loop with nothing to do keeps its conversation at hand.
const LINGER: Duration = Duration::from_secs(20);

/// What every loop of a process shares.
pub(super) struct Shared {
    pub(super) journal: Journal,
    pub(super) tools: Tools,
    pub(super) blobs: Blobs,
    pub(super) toolhost: Toolhost,
    pub(super) door: Door,
    pub(super) saves: Saves,
    pub(super) roster: Roster,
    pub(super) box_id: String,
    pub(super) stop: CancellationToken,
}

pub(super) struct TurnLoop {
    shared: Arc<Shared>,
    agent_id: String,
    fold: Fold<State>,
    /// Erasures that the fold is behind of.
    erasures: u64,
    wake: Arc<Notify>,
    /// The attempt that is waited for, and until when.
    retry: Option<((String, u32, u32), Instant)>,
    /// The failure after which a budget is waited for, and until when.
    budget: Option<(Option<EventId>, Instant)>,
    told: Option<Arc<Told>>,
}

/// What the model of a turn is told before the conversation.
struct Told {
    turn_id: String,
    system: String,
    offered: Arc<Offered>,
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
        let erasures = shared.journal.erasures();
        Self {
            shared,
            agent_id,
            fold,
            erasures,
            wake,
            retry: None,
            budget: None,
            told: None,
        }
    }

    /// Works until there is nothing to do for a while, or the process ends.
    pub(super) async fn run(mut self) {
        if let Err(End::Journal(error)) = self.work().await {
            self.shared.tools.turn_over(&self.agent_id);
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
                Next::Idle => {
                    // The next turn asks anew.
                    self.told = None;
                    self.shared.tools.turn_over(&self.agent_id);
                    self.shared.roster.settle();
                    if self.rest().await? {
                        return Ok(());
                    }
                }
                Next::Wait(waiting) => self.wait(&waiting).await?,
                Next::WaitBudget { retry_after_ms } => self.wait_for_budget(retry_after_ms).await?,
                Next::Advance => self.advance().await?,
                Next::CallModel {
                    call_id,
                    role,
                    model,
                    ..
                } => self.call(&call_id, role, &model).await?,
                Next::RunTools(calls) => self.run_tools(calls).await?,
            }
        }
    }

    async fn refresh(&mut self) -> Result<(), End> {
        let erasures = self.shared.journal.erasures();
        if erasures != self.erasures {
            // It has the words in it that are erased.
            self.fold = self.shared.journal.fold(self.fold.stream.clone());
            self.erasures = erasures;
        }
        let store = Arc::clone(self.shared.journal.store());
        let refreshed = self.fold.refresh(&*store).await;
        refreshed.map_err(|error| End::Journal(journal::Error::Load(error)))
    }

    /// Waits for something to do; true once the loop is off the list and has to end.
    async fn rest(&self) -> Result<bool, End> {
        tokio::select! {
            biased;
            () = self.shared.stop.cancelled() => Err(End::Stopped),
            () = self.wake.notified() => Ok(false),
            () = sleep(LINGER) => Ok(self.shared.roster.leave(&self.agent_id)),
        }
    }

    async fn execute(&mut self, command: &Command) -> Result<(), End> {
        let journal = self.shared.journal.clone();
        let actor = Actor {
            kind: actor::Kind::Agent.into(),
            id: self.agent_id.clone(),
        };
        let stop = &self.shared.stop;
        match journal.record(&mut self.fold, command, actor, stop).await {
            Err(_) if stop.is_cancelled() => Err(End::Stopped),
            Err(error) => Err(error.into()),
            Ok(_) => Ok(()),
        }
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
        let turn = self.fold.state.turn.as_ref();
        if turn.is_some_and(|turn| !turn.cancelling && matches!(turn.stage, Stage::CallDue { .. }))
        {
            tokio::select! {
                biased;
                () = self.shared.stop.cancelled() => return Err(End::Stopped),
                // Nor must a cancel wait for servers that have to be started first.
                () = self.wake.notified() => return Ok(()),
                () = self.shared.tools.refresh() => {}
            }
        }
        self.instruct().await?;
        if !self.save_first().await? {
            // Something else is due.
            return Ok(());
        }
        self.write_step().await
    }

    async fn write_step(&mut self) -> Result<(), End> {
        self.execute(&self.step()).await
    }

    /// The step that is due, whichever that is.
    fn step(&self) -> Command {
        let journal = &self.shared.journal;
        Command::Advance {
            turn_id: journal.draw(),
            call_id: journal.draw(),
            approval_id: journal.draw(),
            now_us: journal.now_us(),
        }
    }

    /// Reports what came of an effect together with the step that follows, which saves a wait for the disk. Where that
    /// does not fit or is refused, each is written by itself.
    async fn report_and_go_on(
        &mut self,
        reports: Vec<Command>,
        calls: bool,
        instead: Command,
    ) -> Result<(), End> {
        let series = Command::Series {
            reports: reports.clone(),
            step: Box::new(self.step()),
            calls,
        };
        match self.execute(&series).await {
            Err(End::Journal(journal::Error::Rejected(_))) => {}
            executed => return executed,
        }
        let Some((last, before)) = reports.split_last() else {
            return Ok(());
        };
        for report in before {
            self.execute(report).await?;
        }
        self.report(last, instead).await
    }

    /// Whether a model call can begin at once: what its model is told is written, and no server has to be waited for.
    fn is_prepared(&self) -> bool {
        let Some(told) = &self.told else { return false };
        if self.shared.tools.refresh().now_or_never().is_none() {
            return false;
        }
        let offered = self.shared.tools.offered(Asker::of(&self.fold.state));
        let turn = self.fold.state.turn.as_ref();
        turn.is_some_and(|turn| turn.turn_id == told.turn_id) && offered.hash == told.offered.hash
    }

    /// Makes what the model is told before the conversation: once in a turn, and when the tools change.
    async fn instruct(&mut self) -> Result<(), End> {
        let state = &self.fold.state;
        let Some(turn) = &state.turn else {
            return Ok(());
        };
        if turn.cancelling || !matches!(turn.stage, Stage::CallDue { .. }) {
            return Ok(());
        }
        let asker = Asker::of(state);
        let offered = self.shared.tools.offered(asker);
        let is_told =
            |told: &Arc<Told>| told.turn_id == turn.turn_id && told.offered.hash == offered.hash;
        if self.told.as_ref().is_some_and(is_told) {
            return Ok(());
        }
        let turn_id = turn.turn_id.clone();
        let system = instruct::system(&self.shared, asker, &offered.tools).await;
        let names: Vec<_> = offered.names().collect();
        if !state.is_instructed(&system, &names, &offered.hash) {
            let command = Command::Instruct {
                system: system.clone(),
                tools: names,
                tools_hash: offered.hash.clone(),
            };
            self.execute(&command).await?;
        }
        self.told = Some(Arc::new(Told {
            turn_id,
            system,
            offered,
        }));
        Ok(())
    }

    /// Makes a model call and reports how it ended.
    async fn call(
        &mut self,
        call_id: &str,
        role: ModelRole,
        model: &ModelChoice,
    ) -> Result<(), End> {
        if self.fold.state.is_cancelling() {
            return self.execute(&model::cancelled(call_id)).await;
        }
        let shared = Arc::clone(&self.shared);
        let conversation = self.fold.state.told();
        let images = self.images(model, &conversation).await;
        let is_summary = role == ModelRole::Summarize;
        let told = self.told.clone().filter(|_| !is_summary);
        let request = Request {
            model,
            system: told.as_ref().map_or(summary::SYSTEM, |told| &told.system),
            conversation: &conversation,
            tools: told.as_ref().map_or(&[], |told| &told.offered.tools),
            images: &images,
        };
        let agent_id = self.agent_id.clone();
        let caller = Caller {
            call_id,
            agent_id: &agent_id,
            role,
        };
        let calling = shared.door.call(caller, &request);
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
        let ended = match begun {
            Ok(call) => self.listen(call_id, call).await?,
            Err(failure) => Ended::Broken(model::failed(call_id, failure)),
        };
        let unusable = model::unusable(call_id);
        match ended {
            Ended::Whole(reports) => self.report_and_go_on(reports, false, unusable).await,
            Ended::Broken(failed) => self.report(&failed, unusable).await,
        }
    }

    /// Reads the pictures that a call shows. One that cannot be read is told of in words.
    async fn images(&self, model: &ModelChoice, conversation: &[Arc<Entry>]) -> ImageBytes {
        let mut bytes = ImageBytes::new();
        for image in images_shown(model, conversation) {
            if bytes.contains_key(&image.blob) {
                continue;
            }
            match self.shared.blobs.whole(&image.blob).await {
                Ok(piece) => drop(bytes.insert(image.blob.clone(), piece.data.into())),
                Err(error) => tracing::warn!(%error, agent = self.agent_id, "picture not read"),
            }
        }
        bytes
    }

    /// Writes what a stream says as it comes, and returns how it ended.
    async fn listen(&mut self, call_id: &str, mut call: Call) -> Result<Ended, End> {
        let mut streamed = Streamed::new();
        let stop = self.shared.stop.clone();
        let wake = Arc::clone(&self.wake);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return Err(End::Stopped),
                () = wake.notified() => if self.is_cancelled().await? {
                    return Ok(Ended::Broken(model::cancelled(call_id)));
                },
                () = streamed.overdue() => self.write(call_id, &mut streamed).await?,
                // Before what is only due: what has come already goes into the same append, perhaps the whole reply.
                heard = call.next() => match heard {
                    Ok(Heard::More(deltas)) => streamed.take(deltas),
                    Ok(Heard::Whole(mut reply)) => {
                        let asker = Asker::of(&self.fold.state);
                        self.shared.tools.note_risks(asker, &mut reply.blocks);
                        if !streamed.fits_beside() {
                            self.write(call_id, &mut streamed).await?;
                        }
                        let left = model::streamed(call_id, streamed.drain());
                        let reply = model::replied(call_id, *reply);
                        return Ok(Ended::Whole(vec![left, reply]));
                    }
                    Err(failure) => {
                        self.write(call_id, &mut streamed).await?;
                        return Ok(Ended::Broken(model::failed(call_id, failure)));
                    }
                },
                () = streamed.due() => self.write(call_id, &mut streamed).await?,
            }
        }
    }

    async fn write(&mut self, call_id: &str, streamed: &mut Streamed) -> Result<(), End> {
        let mut chunks = streamed.drain();
        while !chunks.is_empty() {
            let rest = chunks.split_off(chunks.len().min(CHUNKS_MAX));
            self.execute(&model::streamed(call_id, chunks)).await?;
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
        let asker = Asker::of(&self.fold.state);
        let mut running = JoinSet::new();
        for call in calls {
            let (tools, agent_id) = (self.shared.tools.clone(), self.agent_id.clone());
            let (room, cancel) = (Arc::clone(&room), cancel.clone());
            running.spawn(async move {
                let _room = room.acquire_owned().await;
                let finished = tools.run(&agent_id, asker, &call, &cancel).await;
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
            let unusable = tool::Told::unusable().report(tool_call_id.clone());
            let report = finished.report(tool_call_id);
            if running.is_empty() {
                let calls = self.is_prepared();
                self.report_and_go_on(vec![report], calls, unusable).await?;
            } else {
                self.report(&report, unusable).await?;
            }
        }
    }
}

/// A tool without a result means that the process is ending, or that it panicked.
async fn stop_or_panic(stop: &CancellationToken) {
    tracing::warn!("tool ended without a result");
    stop.cancelled().await;
}
