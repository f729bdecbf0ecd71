//! Which agents there are, and what can be asked of them.

use std::sync::Arc;

use cocoonbox_commands::agent::{Command, Life, Next, Rejection, State};
use cocoonbox_events::{
    AgentEvent, CommandId, Fold, OffsetKey, Payload, StreamName, limits::PAGE_EVENTS_MAX,
};
use cocoonbox_proto::log::v1::{Actor, AgentCreated, AgentTurnEnded, Effect};
use futures::future::join_all;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    roster::{Ring, Roster},
    turn_loop::{Shared, TurnLoop},
};
use crate::{
    blobs::Blobs,
    exec::Toolhost,
    journal::{self, Journal},
    saves::Saves,
    tool::{Asker, Tools},
    wire::Door,
};

/// The agent that is there without being made.
pub(crate) const MAIN: &str = "main";
/// Agents in one box, subagents and those of the past included. An agent that rests costs its name.
const AGENTS_MAX: usize = 16_384;

/// Events behind the end of a turn that are looked through for it: what people set meanwhile.
const ENDING_EVENTS_MAX: u64 = 100;

/// Every agent of the box.
#[derive(Clone)]
pub(crate) struct Agents {
    shared: Arc<Shared>,
    tasks: TaskTracker,
}

/// What an agent is at an offset.
#[derive(Clone, Debug)]
pub(crate) struct AgentState {
    pub(crate) state: State,
    pub(crate) key: OffsetKey,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error("`{0}` is not usable as an agent id")]
    BadId(String),
    #[error("this box has {AGENTS_MAX} agents already")]
    TooMany,
    #[error(transparent)]
    Journal(#[from] journal::Error<Rejection>),
}

impl Fault {
    /// Whether the process is ending and nothing is written any more.
    pub(crate) fn is_ending(&self) -> bool {
        matches!(self, Self::Journal(journal::Error::Closed))
    }
}

impl Agents {
    pub(crate) fn new(
        journal: Journal,
        tools: Tools,
        toolhost: Toolhost,
        door: Door,
        saves: Saves,
        box_id: &str,
        stop: CancellationToken,
    ) -> Self {
        let shared = Shared {
            blobs: Blobs::new(journal.clone()),
            journal,
            tools,
            toolhost,
            door,
            saves,
            roster: Roster::new(),
            box_id: box_id.to_owned(),
            stop,
        };
        Self {
            shared: Arc::new(shared),
            tasks: TaskTracker::new(),
        }
    }

    /// How many agents have something to do, or had until a moment ago.
    pub(crate) fn working(&self) -> usize {
        self.shared.roster.working("").len()
    }

    /// Takes up an agent that the log has, and says whether it has something to do. It does nothing before
    /// [`Self::wake`]: agents start each other, and none may do so before all are taken up.
    pub(crate) async fn resume(&self, agent_id: &str) -> Result<bool, Fault> {
        let mut fold = self.folded(agent_id).await?;
        let actor = self.shared.journal.own_actor();
        if fold.state.turn.is_some() {
            let Shared { journal, stop, .. } = &*self.shared;
            for command in self.known_results(&fold.state).await {
                let actor = actor.clone();
                match journal.record(&mut fold, &command, actor, stop).await {
                    // Then it stays what `Restarted` makes of it: not known.
                    Err(journal::Error::Rejected(rejection)) => {
                        tracing::warn!(%rejection, agent = agent_id, "known result refused");
                    }
                    executed => drop(executed?),
                }
            }
            journal
                .record(&mut fold, &Command::Restarted, actor, stop)
                .await?;
        }
        let has_work = fold.state.next() != Next::Idle;
        self.shared.roster.add(agent_id);
        Ok(has_work)
    }

    /// Takes up an agent whose turn, if one was under way, is to go no further. Says the same.
    pub(crate) async fn resume_at_rest(&self, agent_id: &str) -> Result<bool, Fault> {
        let has_work = self.resume(agent_id).await?;
        let mut fold = self.folded(agent_id).await?;
        if fold.state.turn.is_some() {
            let turn_id = self.draw();
            let (journal, cancel) = (&self.shared.journal, Command::Cancel { turn_id });
            let actor = journal.own_actor();
            journal.execute(&mut fold, &cancel, actor).await?;
        }
        Ok(has_work || fold.state.next() != Next::Idle)
    }

    /// Results of tools that an earlier process was running and that the log knows the end of. What is
    /// not among them is what nobody knows.
    async fn known_results(&self, state: &State) -> Vec<Command> {
        let Next::RunTools(calls) = state.next() else {
            return Vec::new();
        };
        let asker = Asker::of(state);
        let mut results = Vec::new();
        for call in calls
            .into_iter()
            .filter(|call| call.effect != Effect::ReadOnly)
        {
            if let Some(finished) = self
                .shared
                .tools
                .recover(&state.agent_id, asker, &call)
                .await
            {
                results.push(finished.report(call.tool_call_id));
            }
        }
        results
    }

    /// Makes an agent. The same id is one agent.
    pub(crate) async fn create(
        &self,
        agent: AgentCreated,
        actor: Actor,
    ) -> Result<AgentState, Fault> {
        let agent_id = agent.agent_id.clone();
        let roster = &self.shared.roster;
        if !roster.has(&agent_id) && roster.count() >= AGENTS_MAX {
            return Err(Fault::TooMany);
        }
        let mut fold = self.folded(&agent_id).await?;
        let command = Command::Create(Box::new(agent));
        let journal = &self.shared.journal;
        let id = CommandId::derive(agent_id.as_bytes(), "create");
        let asked = agent_id.as_bytes();
        let done = journal
            .execute_once(&mut fold, &command, actor, id, asked)
            .await?;
        self.shared.roster.add(&agent_id);
        Ok(AgentState {
            state: fold.state,
            key: done.key,
        })
    }

    /// Whether the agent was ever made.
    pub(crate) fn exists(&self, agent_id: &str) -> bool {
        self.shared.roster.has(agent_id)
    }

    /// Executes a command of a person and wakes the loop.
    pub(crate) async fn tell(
        &self,
        agent_id: &str,
        command: Command,
        actor: Actor,
        id: Option<(CommandId, Vec<u8>)>,
    ) -> Result<OffsetKey, Fault> {
        let mut fold = self.folded(agent_id).await?;
        let journal = &self.shared.journal;
        let done = match id {
            Some((id, asked)) => {
                journal
                    .execute_once(&mut fold, &command, actor, id, &asked)
                    .await?
            }
            None => journal.execute(&mut fold, &command, actor).await?,
        };
        self.wake(agent_id);
        Ok(done.key)
    }

    /// Cancels an agent's turn, and those of its subagents that work. The agent would cancel these itself, but
    /// only when its loop gets to it, and each way through a loop is a wait where the machine is busy.
    pub(crate) async fn cancel(&self, agent_id: &str, actor: Actor) -> Result<(), Fault> {
        // First: a subagent that had ended before it would be a result to go on with.
        self.cancel_one(agent_id, actor.clone()).await?;
        let working = self.shared.roster.working(&format!("{agent_id}."));
        let cancels = working
            .iter()
            .map(|child| self.cancel_one(child, actor.clone()));
        for told in join_all(cancels).await {
            if let Err(fault) = told {
                tracing::warn!(%fault, agent = agent_id, "subagent left to its agent to cancel");
            }
        }
        Ok(())
    }

    async fn cancel_one(&self, agent_id: &str, actor: Actor) -> Result<(), Fault> {
        let turn_id = self.draw();
        let cancel = Command::Cancel { turn_id };
        self.tell(agent_id, cancel, actor, None).await.map(drop)
    }

    /// Returns what an agent is.
    pub(crate) async fn get(&self, agent_id: &str) -> Result<State, Fault> {
        Ok(self.folded(agent_id).await?.state)
    }

    /// Returns the agents that work for this one, and those that did.
    pub(crate) fn children(&self, agent_id: &str) -> Vec<String> {
        let of = format!("{agent_id}.");
        let mut ids = self.shared.roster.ids();
        ids.retain(|id| id.starts_with(&of));
        ids
    }

    /// Waits until an agent rests: no turn, and no prompt that waits for one.
    pub(crate) async fn rested(&self, agent_id: &str) -> Result<State, Fault> {
        let mut settled = self.shared.roster.settled();
        let mut fold = self.fold(agent_id)?;
        let store = self.shared.journal.store();
        loop {
            fold.refresh(&**store).await.map_err(journal::Error::Load)?;
            if !fold.state.is_busy() {
                return Ok(fold.state);
            }
            if settled.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Returns how an agent's last turn ended.
    pub(crate) async fn ending(&self, agent_id: &str) -> Result<Option<AgentTurnEnded>, Fault> {
        let fold = self.folded(agent_id).await?;
        let after = fold.seq.saturating_sub(ENDING_EVENTS_MAX);
        let store = self.shared.journal.store();
        let page = store
            .read_stream(
                self.shared.journal.log(),
                &fold.stream,
                after,
                PAGE_EVENTS_MAX,
            )
            .await;
        let stream = fold.stream.clone();
        let page = page.map_err(|source| {
            journal::Error::Load(cocoonbox_events::LoadError::Read { stream, source })
        })?;
        let ended = page
            .events
            .iter()
            .rev()
            .find_map(|event| match event.payload() {
                Ok(Some(Payload::Agent(AgentEvent::TurnEnded(ended)))) => Some(ended),
                _ => None,
            });
        Ok(ended)
    }

    /// Draws an id.
    pub(crate) fn draw(&self) -> String {
        self.shared.journal.draw()
    }

    pub(crate) async fn list(&self) -> Result<Vec<AgentState>, Fault> {
        self.states(self.shared.roster.ids()).await
    }

    /// Returns an agent, and those that work or worked for it.
    pub(crate) async fn family(&self, agent_id: &str) -> Result<Vec<AgentState>, Fault> {
        let mut ids = self.children(agent_id);
        ids.push(agent_id.to_owned());
        self.states(ids).await
    }

    async fn states(&self, ids: Vec<String>) -> Result<Vec<AgentState>, Fault> {
        let mut all = Vec::with_capacity(ids.len());
        for agent_id in ids {
            let fold = self.folded(&agent_id).await?;
            let tail = self.shared.journal.tail().map_err(|source| {
                let stream = fold.stream.clone();
                journal::Error::Load(cocoonbox_events::LoadError::Read { stream, source })
            })?;
            if fold.state.life != Life::Absent {
                let key = OffsetKey::new(tail.log, tail.pos, tail.chain);
                all.push(AgentState {
                    state: fold.state,
                    key,
                });
            }
        }
        Ok(all)
    }

    /// Returns once every loop has ended. They do when the process's `stop` is cancelled.
    pub(crate) async fn ended(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Rings every loop that runs, so that it looks at the log again.
    pub(crate) fn wake_all(&self) {
        self.shared.roster.ring_all();
    }

    /// Rings an agent's loop, starting it if it does not run.
    pub(crate) fn wake(&self, agent_id: &str) {
        let Ring::Start(bell) = self.shared.roster.ring(agent_id) else {
            return;
        };
        let Ok(fold) = self.fold(agent_id) else {
            return;
        };
        let shared = Arc::clone(&self.shared);
        self.tasks
            .spawn(TurnLoop::new(shared, agent_id.to_owned(), fold, bell).run());
    }

    fn fold(&self, agent_id: &str) -> Result<Fold<State>, Fault> {
        let bad = || Fault::BadId(agent_id.chars().take(60).collect());
        if agent_id.is_empty() || agent_id.contains('/') {
            return Err(bad());
        }
        let stream = StreamName::new(format!("agent/{agent_id}")).map_err(|_| bad())?;
        Ok(self.shared.journal.fold(stream))
    }

    async fn folded(&self, agent_id: &str) -> Result<Fold<State>, Fault> {
        let mut fold = self.fold(agent_id)?;
        let store = self.shared.journal.store();
        fold.refresh(&**store).await.map_err(journal::Error::Load)?;
        Ok(fold)
    }
}
