//! Sees one run to its end.

use std::time::Duration;

use cocoonbox_commands::{
    boxes,
    routine::{Command, Prompted, State},
};
use cocoonbox_events::{AgentEvent, CommandId, Fold, LogId, OffsetKey, Payload};
use cocoonbox_projections::transcript::AgentState;
use cocoonbox_proto::{
    agent::v1::{
        AgentRef, CreateAgentRequest, SendRequest, WithdrawRequest, agents_client::AgentsClient,
    },
    log::v1::{agent_turn_ended::Outcome as Turn, routine_run_ended::Outcome},
};
use tokio::time::{Instant, sleep, timeout};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::{
    agent_nonce,
    due::{Fault, Parts, by_clock, execute, of_box},
};
use crate::{channel::BoxChannel, status::describe};

/// Why a run came to nothing that ends its routine.
const BOX_DELETED: &str = "BOX_DELETED";
/// Between two looks at a box that comes up, and at the log of one whose doorbell does not ring.
const LOOK: Duration = Duration::from_millis(500);
/// Between two tries to write into a store, or to reach an agent, that does not answer.
const AGAIN: Duration = Duration::from_secs(1);
/// For an agent to answer.
const ANSWER: Duration = Duration::from_secs(10);
/// A turn that was cancelled because its time was over ends within this; else the run does without it.
const CANCELLED_US: i64 = 30_000_000;
/// A box that was woken for a run is looked at for this long behind it, for a moment at which nobody needs it.
const SETTLE: Duration = Duration::from_mins(2);

/// A person who calls into the box now and then, as command lines do, is there in between.
const ABSENT: Duration = Duration::from_secs(5);

/// One run.
pub(super) struct Run {
    parts: Parts,
    fold: Fold<State>,
    box_id: String,
    id: String,
    /// Of the box's log, up to where it was looked through, and the turn that has the prompt.
    seen: Option<(LogId, u64)>,
    turn_id: Option<String>,
}

/// How a run came out.
struct End {
    outcome: Outcome,
    turn: Turn,
    reason: String,
}

impl Run {
    pub(super) fn new(parts: Parts, fold: Fold<State>, box_id: String, id: String) -> Self {
        Self {
            parts,
            fold,
            box_id,
            id,
            seen: None,
            turn_id: None,
        }
    }

    /// Works until the log says that the run has ended.
    pub(super) async fn see_to(mut self) {
        let mut is_failing = false;
        let wakes = loop {
            match self.step().await {
                Ok(Some(wakes)) => break wakes,
                Ok(None) => is_failing = false,
                Err(error) => {
                    if !std::mem::replace(&mut is_failing, true) {
                        let (run, error) = (&self.id, describe(&error));
                        tracing::warn!(run, error, "a run of a routine does not get on");
                    }
                    sleep(AGAIN).await;
                }
            }
        };
        if wakes {
            self.let_sleep().await;
        }
    }

    /// Does what is due and waits for what may come of it. Once the run has ended: whether it was what woke the box.
    async fn step(&mut self) -> Result<Option<bool>, Fault> {
        self.fold.refresh(&*self.parts.store).await?;
        let Some(run) = self.fold.state.run_of(&self.id).cloned() else {
            return Ok(Some(false));
        };
        let late_us = self.parts.clock.now_us().saturating_sub(run.until_us);
        let end = match &run.prompted {
            None => self.reach(late_us).await?,
            Some(prompted) => self.wait(prompted, late_us).await?,
        };
        let Some(end) = end else {
            return Ok(None);
        };
        let is_deleted = end.reason == BOX_DELETED;
        let command = Command::End {
            run_id: self.id.clone(),
            outcome: end.outcome,
            turn: end.turn,
            reason: end.reason,
        };
        let step = format!("end {}", self.id);
        execute(&self.parts, &mut self.fold, &command, &step).await?;
        if is_deleted {
            // There will not be such a box again.
            execute(&self.parts, &mut self.fold, &Command::Delete, "delete").await?;
        }
        Ok(Some(run.wakes))
    }

    /// Wakes the box and gives its agent the prompt.
    async fn reach(&mut self, late_us: i64) -> Result<Option<End>, Fault> {
        let mut of_box = self.of_box().await?;
        let why = match &of_box.state.phase {
            boxes::Phase::Running { .. } => "AGENT_UNREACHED",
            boxes::Phase::Absent | boxes::Phase::Deleting { .. } | boxes::Phase::Deleted => {
                return Ok(Some(unreached(BOX_DELETED)));
            }
            boxes::Phase::Failed {
                operation, reason, ..
            } if *operation == self.operation() => {
                return Ok(Some(unreached(reason)));
            }
            boxes::Phase::Starting { .. }
            | boxes::Phase::Hibernating { .. }
            | boxes::Phase::Hibernated
            | boxes::Phase::Failed { .. } => "BOX_NOT_RUNNING",
        };
        if late_us > 0 {
            return Ok(Some(unreached(why)));
        }
        if why == "BOX_NOT_RUNNING" {
            self.wake(&mut of_box).await?;
            sleep(LOOK / 5).await;
            return Ok(None);
        }
        // Another process may drive the box; it sees to the run as well.
        let Some(channel) = self.parts.channels.get(&self.box_id) else {
            sleep(LOOK / 5).await;
            return Ok(None);
        };
        match timeout(ANSWER, self.prompt(&channel)).await {
            Ok(Ok(prompted)) => {
                let step = format!("prompted {}", self.id);
                execute(&self.parts, &mut self.fold, &prompted, &step).await?;
                Ok(None)
            }
            Ok(Err(status)) if !is_passing(status.code()) => {
                let info = status.get_details_error_info();
                let reason = info.map_or_else(|| "REFUSED".to_owned(), |info| info.reason);
                Ok(Some(unreached(&reason)))
            }
            Ok(Err(_)) | Err(_) => {
                sleep(AGAIN).await;
                Ok(None)
            }
        }
    }

    fn operation(&self) -> String {
        format!("op-{}", CommandId::derive(self.id.as_bytes(), "wake"))
    }

    async fn of_box(&self) -> Result<Fold<boxes::State>, Fault> {
        of_box(&self.parts, self.fold.log, &self.box_id).await
    }

    /// Asks that the box runs. The same run asks once for each state that the box is in.
    async fn wake(&self, of_box: &mut Fold<boxes::State>) -> Result<(), Fault> {
        let state = &of_box.state;
        let ensure = boxes::Command::Ensure {
            box_id: self.box_id.clone(),
            flavor: state.flavor,
            name: state.name.clone(),
            box_log: state.box_log.unwrap_or(of_box.log),
            user_id: state.user_id.clone(),
            operation_id: self.operation(),
        };
        let step = format!("wake at {}", of_box.seq);
        self.tell_box(of_box, &ensure, &step).await
    }

    async fn tell_box(
        &self,
        of_box: &mut Fold<boxes::State>,
        command: &boxes::Command,
        step: &str,
    ) -> Result<(), Fault> {
        let id = CommandId::derive(self.id.as_bytes(), step);
        by_clock(&self.parts, of_box, command, id, step).await?;
        Ok(())
    }

    /// Gives the routine's agent, which is made where there is none, the prompt of this run.
    async fn prompt(&self, channel: &BoxChannel) -> Result<Command, Status> {
        let state = &self.fold.state;
        let mut agents = AgentsClient::new(channel.transport.clone());
        let create = CreateAgentRequest {
            name: state.definition.name.clone(),
            client_nonce: agent_nonce(&state.routine_id),
            ..CreateAgentRequest::default()
        };
        let agent = agents.create(channel.sign(create)).await?.into_inner();
        let send = SendRequest {
            agent_id: agent.id,
            prompt: state.prompt.clone(),
            client_nonce: format!("run {}", self.id),
            ..SendRequest::default()
        };
        let sent = agents.send(channel.sign(send)).await?.into_inner();
        Ok(Command::Prompted {
            run_id: self.id.clone(),
            prompt_id: sent.prompt_id,
            offset_key: sent.offset_key,
        })
    }

    /// Looks in the copy of the box's log for what comes of the prompt.
    async fn wait(&mut self, prompted: &Prompted, late_us: i64) -> Result<Option<End>, Fault> {
        let Ok(key) = prompted.offset_key.parse::<OffsetKey>() else {
            return Ok(Some(ended(Outcome::Lost, Turn::Unspecified)));
        };
        let of_box = self.of_box().await?;
        if let boxes::Phase::Deleting { .. } | boxes::Phase::Deleted = of_box.state.phase {
            return Ok(Some(unreached(BOX_DELETED)));
        }
        let store = self.parts.store.clone();
        let log = store.current(key.log)?;
        if self.seen.is_none_or(|(seen, _)| seen != log) {
            // A rewind to before the prompt undoes the run.
            if store
                .common(log, key.log)?
                .is_none_or(|common| common < key.pos)
            {
                return Ok(Some(ended(Outcome::Lost, Turn::Unspecified)));
            }
            self.seen = Some((log, key.pos.saturating_sub(1)));
        }
        let mut bell = store.doorbell(log)?;
        bell.mark_unchanged();
        let (end, is_at_tail) = self.look_on(log, &prompted.prompt_id).await?;
        if end.is_some() || !is_at_tail {
            return Ok(end);
        }
        if late_us > 0 {
            return self.give_up(key.log, &prompted.prompt_id, late_us).await;
        }
        drop(timeout(LOOK, bell.changed()).await);
        Ok(None)
    }

    /// Takes in what the box's log has got. Returns the end, if it is there, and whether there is no more.
    async fn look_on(&mut self, log: LogId, prompt_id: &str) -> Result<(Option<End>, bool), Fault> {
        let after = self.seen.map_or(0, |(_, pos)| pos);
        let limit = cocoonbox_events::limits::PAGE_EVENTS_MAX;
        let page = self.parts.store.read(log, after, limit).await?;
        for event in &page.events {
            self.seen = Some((log, event.pos));
            let is_own = event.stream.as_str().strip_prefix("agent/")
                == Some(self.fold.state.agent_id.as_str());
            if !is_own {
                continue;
            }
            // What is erased or from another build is not what is looked for.
            let Ok(Some(Payload::Agent(of_agent))) = event.payload() else {
                continue;
            };
            match of_agent {
                AgentEvent::PromptWithdrawn(withdrawn) if withdrawn.prompt_id == prompt_id => {
                    return Ok((Some(ended(Outcome::Cancelled, Turn::Unspecified)), false));
                }
                AgentEvent::TurnStarted(started)
                    if started.prompt_ids.iter().any(|id| id == prompt_id) =>
                {
                    self.turn_id = Some(started.turn_id);
                }
                AgentEvent::TurnEnded(turn) if self.turn_id.as_deref() == Some(&turn.turn_id) => {
                    let outcome = match turn.outcome() {
                        Turn::Done => Outcome::Done,
                        Turn::Cancelled => Outcome::Cancelled,
                        Turn::Unspecified
                        | Turn::Failed
                        | Turn::Refused
                        | Turn::StepLimit
                        | Turn::OutputLimit
                        | Turn::Loop
                        | Turn::TokenLimit => Outcome::Failed,
                    };
                    return Ok((Some(ended(outcome, turn.outcome())), false));
                }
                _ => {}
            }
        }
        Ok((None, page.events.is_empty()))
    }

    /// The time of the run is over. Who waits for a person goes on waiting; what works is cancelled, and what has not
    /// begun is taken back: the turn under way is then somebody else's.
    async fn give_up(
        &self,
        box_log: LogId,
        prompt_id: &str,
        late_us: i64,
    ) -> Result<Option<End>, Fault> {
        let agent_id = self.fold.state.agent_id.clone();
        let has_begun = self.turn_id.is_some();
        let row = self.parts.views.agent(box_log, &agent_id).await?;
        if has_begun && row.is_some_and(|row| waits(row.state)) {
            return Ok(Some(ended(Outcome::Waiting, Turn::Unspecified)));
        }
        if late_us > CANCELLED_US {
            return Ok(Some(ended(Outcome::TimedOut, Turn::Unspecified)));
        }
        if let Some(channel) = self.parts.channels.get(&self.box_id) {
            let mut agents = AgentsClient::new(channel.transport.clone());
            let (turn, asked) = if has_begun {
                let cancel = agents.cancel(channel.sign(AgentRef { agent_id }));
                (Turn::Cancelled, timeout(ANSWER, cancel).await)
            } else {
                let prompt_id = prompt_id.to_owned();
                let withdraw = WithdrawRequest {
                    agent_id,
                    prompt_id,
                };
                let withdraw = agents.withdraw(channel.sign(withdraw));
                (Turn::Unspecified, timeout(ANSWER, withdraw).await)
            };
            if let Ok(Ok(_)) = asked {
                return Ok(Some(ended(Outcome::TimedOut, turn)));
            }
        }
        sleep(AGAIN).await;
        Ok(None)
    }

    /// Puts a box to sleep that slept before the run, unless somebody or something needs it.
    async fn let_sleep(&self) {
        let until = Instant::now() + SETTLE;
        while Instant::now() < until {
            let Some(channel) = self.parts.channels.get(&self.box_id) else {
                return;
            };
            let attention = self.parts.channels.attention(&self.box_id);
            let busy = channel.busy().await;
            // Those that wait go on waiting when it is awake again.
            let waiting = self.waiting(channel.log()).await;
            let is_quiet = busy.is_some_and(|busy| busy.agents <= waiting && busy.jobs == 0);
            let absent = attention.absent_for();
            if is_quiet && absent.is_some_and(|absent| absent >= ABSENT) {
                if let Err(error) = self.hibernate().await {
                    let error = describe(&error);
                    tracing::warn!(
                        box_id = self.box_id,
                        error,
                        "a box is left awake behind a run"
                    );
                }
                return;
            }
            sleep(AGAIN).await;
        }
    }

    /// How many agents wait for a person or for a budget.
    async fn waiting(&self, box_log: LogId) -> u32 {
        let agents = self.parts.views.agents(box_log).await.unwrap_or_default();
        let waiting = agents.iter().filter(|agent| waits(agent.state)).count();
        u32::try_from(waiting).unwrap_or(u32::MAX)
    }

    async fn hibernate(&self) -> Result<(), Fault> {
        let mut of_box = self.of_box().await?;
        let is_awake = of_box.state.awake_until_ms > self.parts.clock.now_us() / 1_000;
        if is_awake || !matches!(of_box.state.phase, boxes::Phase::Running { .. }) {
            return Ok(());
        }
        let hibernate = boxes::Command::Hibernate {
            operation_id: format!("op-{}", CommandId::derive(self.id.as_bytes(), "sleep")),
            reason: "routine".to_owned(),
        };
        self.tell_box(&mut of_box, &hibernate, "sleep").await
    }
}

fn ended(outcome: Outcome, turn: Turn) -> End {
    End {
        outcome,
        turn,
        reason: String::new(),
    }
}

fn unreached(reason: &str) -> End {
    End {
        outcome: Outcome::Unreached,
        turn: Turn::Unspecified,
        reason: reason.to_owned(),
    }
}

fn waits(state: AgentState) -> bool {
    matches!(state, AgentState::Waiting | AgentState::WaitingForBudget)
}

/// Whether the same call may get through a moment later.
fn is_passing(code: Code) -> bool {
    matches!(
        code,
        Code::Unavailable
            | Code::DeadlineExceeded
            | Code::Cancelled
            | Code::Aborted
            | Code::ResourceExhausted
            | Code::Unknown
            | Code::Internal
    )
}
