//! Which agents there are, and what can be asked of them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use cocoonbox_commands::agent::{Command, Life, Next, Rejection, State};
use cocoonbox_events::{CommandId, Fold, OffsetKey, StreamName};
use cocoonbox_proto::log::v1::{Actor, ApprovalPolicy, Effect, ModelChoice};
use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::turn_loop::{Shared, TurnLoop};
use crate::{
    journal::{self, Journal},
    tool::{Tools, specs},
    wire::Door,
};

/// The agent that is there without being made.
pub(crate) const MAIN: &str = "main";
/// Agents in one box. Each may hold a conversation in memory.
const AGENTS_MAX: usize = 64;

/// Every agent of the box.
#[derive(Clone)]
pub(crate) struct Agents {
    shared: Arc<Shared>,
    /// Agents that exist, with the bell of their loop if it runs.
    known: Arc<Mutex<HashMap<String, Option<Arc<Notify>>>>>,
    tasks: TaskTracker,
}

/// What a new agent is to be.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) name: String,
    pub(crate) model: ModelChoice,
    pub(crate) approval: ApprovalPolicy,
    pub(crate) steps_max: u32,
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

impl Agents {
    pub(crate) fn new(
        journal: Journal,
        tools: Tools,
        door: Door,
        box_id: &str,
        stop: CancellationToken,
    ) -> Self {
        let shared = Shared {
            journal,
            tools,
            specs: specs(),
            door,
            box_id: box_id.to_owned(),
            stop,
        };
        Self {
            shared: Arc::new(shared),
            known: Arc::default(),
            tasks: TaskTracker::new(),
        }
    }

    /// Takes up an agent that the log has, and its turn if it is in one.
    pub(crate) async fn resume(&self, agent_id: &str) -> Result<(), Fault> {
        let mut fold = self.folded(agent_id).await?;
        let actor = self.shared.journal.own_actor();
        if fold.state.turn.is_some() {
            let journal = &self.shared.journal;
            for command in self.known_results(&fold.state).await {
                match journal.execute(&mut fold, &command, actor.clone()).await {
                    // Then it stays what `Restarted` makes of it: not known.
                    Err(journal::Error::Rejected(rejection)) => {
                        tracing::warn!(%rejection, agent = agent_id, "known result refused");
                    }
                    executed => drop(executed?),
                }
            }
            journal
                .execute(&mut fold, &Command::Restarted, actor)
                .await?;
        }
        let has_work = fold.state.next() != Next::Idle;
        self.known().insert(agent_id.to_owned(), None);
        if has_work {
            self.wake(agent_id);
        }
        Ok(())
    }

    /// Results of tools that an earlier process was running and that the log knows the end of. What is
    /// not among them is what nobody knows.
    async fn known_results(&self, state: &State) -> Vec<Command> {
        let Next::RunTools(calls) = state.next() else {
            return Vec::new();
        };
        let mut results = Vec::new();
        for call in calls
            .into_iter()
            .filter(|call| call.effect != Effect::ReadOnly)
        {
            if let Some(finished) = self.shared.tools.recover(&state.agent_id, &call).await {
                results.push(finished.report(call.tool_call_id));
            }
        }
        results
    }

    pub(crate) async fn create(
        &self,
        agent_id: &str,
        settings: Settings,
        actor: Actor,
    ) -> Result<AgentState, Fault> {
        let is_full = {
            let known = self.known();
            !known.contains_key(agent_id) && known.len() >= AGENTS_MAX
        };
        if is_full {
            return Err(Fault::TooMany);
        }
        let mut fold = self.folded(agent_id).await?;
        let command = Command::Create {
            agent_id: agent_id.to_owned(),
            name: settings.name,
            model: settings.model,
            approval: settings.approval,
            steps_max: settings.steps_max,
        };
        let journal = &self.shared.journal;
        let id = CommandId::derive(agent_id.as_bytes(), "create");
        let asked = agent_id.as_bytes();
        let done = journal
            .execute_once(&mut fold, &command, actor, id, asked)
            .await?;
        self.known().entry(agent_id.to_owned()).or_insert(None);
        Ok(AgentState {
            state: fold.state,
            key: done.key,
        })
    }

    /// Whether the agent was ever made.
    pub(crate) fn exists(&self, agent_id: &str) -> bool {
        self.known().contains_key(agent_id)
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

    pub(crate) async fn list(&self) -> Result<Vec<AgentState>, Fault> {
        let mut ids: Vec<String> = self.known().keys().cloned().collect();
        ids.sort();
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

    /// Rings an agent's loop, starting it if it does not run.
    fn wake(&self, agent_id: &str) {
        let mut known = self.known();
        let Some(bell) = known.get_mut(agent_id) else {
            return;
        };
        if let Some(bell) = bell {
            bell.notify_one();
            return;
        }
        let Ok(fold) = self.fold(agent_id) else {
            return;
        };
        let wake = Arc::new(Notify::new());
        *bell = Some(Arc::clone(&wake));
        let shared = Arc::clone(&self.shared);
        self.tasks
            .spawn(TurnLoop::new(shared, agent_id.to_owned(), fold, wake).run());
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

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<String, Option<Arc<Notify>>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
