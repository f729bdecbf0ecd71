//! What was said and done in each box, item by item, and the agents that said it.
//!
//! Box logs are written in boxes, and a box may lie: nothing here fails on an odd sequence, and
//! whatever a box writes stays under the prefix of its own log.

mod item;
mod open_call;

pub use item::ItemRow;
pub use open_call::OpenCall;

use cocoonbox_events::{AgentEvent, Kind, LogInfo, LogKind, Payload, Recorded};
use cocoonbox_proto::{
    agent::v1::{self as wire, transcript_item::Kind as ItemKind},
    log::v1 as log,
};
use serde::{Deserialize, Serialize};

use crate::{
    projection::{ApplyError, Projection, Seen},
    row_key,
    rows::{self, Rows, View},
};
use item::{Scope, lower};

pub struct Transcript;

/// One agent of a box.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentRow {
    pub id: String,
    pub name: String,
    /// Number of [`log::Wire`].
    pub wire: i32,
    pub model: String,
    pub output_tokens_max: u32,
    /// `idle`, `working`, `waiting` or `closed`.
    pub state: AgentState,
    /// Text form of the offset key of the last event, streamed output left out.
    pub offset_key: String,
    /// Approvals that wait for a person.
    pub approvals_waiting: u32,
    /// The model call that is out.
    pub call: Option<OpenCall>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum AgentState {
    #[default]
    Idle,
    Working,
    /// For a person.
    Waiting,
    Closed,
}

impl AgentState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Working => "working",
            Self::Waiting => "waiting",
            Self::Closed => "closed",
        }
    }
}

impl From<AgentRow> for wire::Agent {
    fn from(row: AgentRow) -> Self {
        Self {
            id: row.id,
            name: row.name,
            model: Some(log::ModelChoice {
                wire: row.wire,
                model: row.model,
                output_tokens_max: row.output_tokens_max,
            }),
            state: row.state.as_str().to_owned(),
            offset_key: row.offset_key,
        }
    }
}

impl Projection for Transcript {
    fn name(&self) -> &'static str {
        "transcript"
    }

    fn version(&self) -> u32 {
        1
    }

    fn views(&self) -> &'static [View] {
        &[View::Agents, View::Transcript, View::TranscriptMarks]
    }

    fn wants(&self, kind: LogKind) -> bool {
        kind == LogKind::Box
    }

    fn apply(&self, rows: &mut dyn Rows, event: &Recorded, _: &LogInfo) -> Result<(), ApplyError> {
        let Some(Seen {
            payload: Payload::Agent(payload),
            erased,
        }) = Seen::read(event)?
        else {
            return Ok(());
        };
        let scope = Scope::of(event);
        let mut agent: AgentRow = rows::get(rows, View::Agents, &scope.agent_key())?
            .unwrap_or_else(|| AgentRow {
                id: event.stream.id().to_owned(),
                ..AgentRow::default()
            });
        if let AgentEvent::OutputStreamed(chunk) = payload {
            if !erased {
                open_call::stream(rows, &scope, agent.call.as_ref(), chunk)?;
            }
            return Ok(());
        }
        step(rows, &scope, &mut agent, payload, erased)?;
        agent.offset_key = event.offset_key().to_string();
        rows::put(rows, View::Agents, &scope.agent_key(), &agent)?;
        Ok(())
    }

    /// Streamed output is gone from the rows once the whole reply is in them, so the everyday erasure
    /// of chunks costs nothing.
    fn holds(&self, rows: &dyn Rows, event: &Recorded, _: &LogInfo) -> Result<bool, rows::Error> {
        if event.kind != Kind::AgentOutputStreamed.number() {
            return Ok(
                Kind::from_number(event.kind).is_some_and(|kind| kind.name().starts_with("agent."))
            );
        }
        let scope = Scope::of(event);
        let agent: Option<AgentRow> = rows::get(rows, View::Agents, &scope.agent_key())?;
        let open = agent
            .and_then(|agent| agent.call)
            .is_some_and(|call| call.pos < event.pos);
        Ok(open || open_call::cut_holds(rows, &scope)?)
    }

    fn clear(&self, rows: &mut dyn Rows, log: &LogInfo) -> Result<(), rows::Error> {
        let all = row_key::prefix(&[&row_key::log(log.id)]);
        for view in self.views() {
            rows.delete_prefix(*view, &all)?;
        }
        Ok(())
    }
}

/// Takes in what is not streamed output.
fn step(
    rows: &mut dyn Rows,
    scope: &Scope<'_>,
    agent: &mut AgentRow,
    event: AgentEvent,
    erased: bool,
) -> Result<(), rows::Error> {
    let whole = |kind: ItemKind, text: String| ItemRow {
        text,
        ..scope.item(kind, erased)
    };
    match event {
        AgentEvent::Created(created) => {
            let model = created.model.unwrap_or_default();
            agent.name = created.name;
            agent.wire = model.wire;
            agent.model = model.model;
            agent.output_tokens_max = model.output_tokens_max;
            agent.state = AgentState::Idle;
        }
        AgentEvent::Renamed(renamed) => agent.name = renamed.name,
        AgentEvent::Closed(_) => {
            open_call::cut(rows, scope, agent)?;
            agent.state = AgentState::Closed;
        }
        AgentEvent::PromptReceived(prompt) => {
            scope.put(rows, &whole(ItemKind::Prompt, prompt.text))?;
        }
        AgentEvent::TurnStarted(_) => agent.state = AgentState::Working,
        AgentEvent::ModelCalled(call) => {
            open_call::cut(rows, scope, agent)?;
            agent.call = Some(OpenCall {
                call_id: call.call_id,
                pos: scope.event.pos,
            });
        }
        AgentEvent::ModelReplied(reply) => {
            open_call::reply(rows, scope, agent, reply, erased)?;
        }
        AgentEvent::ModelFailed(failed) => {
            open_call::cut(rows, scope, agent)?;
            let mut item = whole(ItemKind::ModelFailed, failed.detail.clone());
            if !erased {
                item.outcome = lower(failed.reason().as_str_name());
            }
            scope.put(rows, &item)?;
        }
        AgentEvent::ToolCalled(call) => {
            if scope.mark(rows, "tool", &call.tool_call_id)?.is_none() {
                let item = ItemRow {
                    tool_name: call.name,
                    tool_call_id: call.tool_call_id,
                    ..whole(ItemKind::ToolCall, call.args_json)
                };
                scope.put(rows, &item)?;
                if !erased {
                    let mark = item::Mark {
                        item: scope.own_key(),
                        tool_name: item.tool_name,
                    };
                    scope.set_mark(rows, "tool", &item.tool_call_id, &mark)?;
                }
            }
        }
        AgentEvent::ToolFinished(finished) => {
            let mark = scope.take_mark(rows, "tool", &finished.tool_call_id)?;
            let mut item = whole(ItemKind::ToolResult, finished.content.clone());
            if !erased {
                item.outcome = lower(finished.outcome().as_str_name());
            }
            item.tool_call_id = finished.tool_call_id;
            item.tool_name = mark.map(|mark| mark.tool_name).unwrap_or_default();
            scope.put(rows, &item)?;
        }
        AgentEvent::ApprovalRequested(asked) => {
            let tool = scope.mark(rows, "tool", &asked.tool_call_id)?;
            let mut item = whole(ItemKind::Approval, asked.approval_id);
            if !erased {
                "pending".clone_into(&mut item.outcome);
                let mark = item::Mark {
                    item: scope.own_key(),
                    ..item::Mark::default()
                };
                scope.set_mark(rows, "approval", &item.text, &mark)?;
            }
            item.tool_call_id = asked.tool_call_id;
            item.tool_name = tool.map(|tool| tool.tool_name).unwrap_or_default();
            scope.put(rows, &item)?;
            agent.approvals_waiting = agent.approvals_waiting.saturating_add(1);
            agent.state = AgentState::Waiting;
        }
        AgentEvent::ApprovalDecided(decided) => {
            let outcome = if decided.allowed { "allowed" } else { "denied" };
            if let Some(mark) = scope.take_mark(rows, "approval", &decided.approval_id)?
                && let Some(mut item) = rows::get::<ItemRow>(rows, View::Transcript, &mark.item)?
            {
                outcome.clone_into(&mut item.outcome);
                item.offset_key = scope.event.offset_key().to_string();
                rows::put(rows, View::Transcript, &mark.item, &item)?;
            }
            agent.approvals_waiting = agent.approvals_waiting.saturating_sub(1);
            if agent.approvals_waiting == 0 && agent.state == AgentState::Waiting {
                agent.state = AgentState::Working;
            }
        }
        AgentEvent::TurnEnded(ended) => {
            open_call::cut(rows, scope, agent)?;
            let mut item = whole(ItemKind::TurnEnded, ended.detail.clone());
            if !erased {
                item.outcome = lower(ended.outcome().as_str_name());
            }
            scope.put(rows, &item)?;
            agent.approvals_waiting = 0;
            if agent.state != AgentState::Closed {
                agent.state = AgentState::Idle;
            }
        }
        // What comes of it is said by the events that follow.
        AgentEvent::CancelRequested(_) | AgentEvent::OutputStreamed(_) => {}
    }
    Ok(())
}
