//! What was said and done in each box, item by item, and the agents that said it.
//!
//! Box logs are written in boxes, and a box may lie: nothing here fails on an odd sequence, and
//! whatever a box writes stays under the prefix of its own log.

mod agent_row;
mod item;
mod open_call;
mod step;

pub use agent_row::{AgentRow, AgentState};
pub use item::ItemRow;
pub use open_call::OpenCall;

use cocoonbox_events::{AgentEvent, Kind, LogInfo, LogKind, Payload, Recorded};

use crate::{
    projection::{ApplyError, Projection, Seen},
    row_key,
    rows::{self, Rows, View},
};
use item::Scope;

pub struct Transcript;

impl Projection for Transcript {
    fn name(&self) -> &'static str {
        "transcript"
    }

    fn version(&self) -> u32 {
        3
    }

    fn views(&self) -> &'static [View] {
        &[View::Agents, View::Transcript, View::TranscriptMarks]
    }

    fn wants(&self, kind: LogKind) -> bool {
        kind == LogKind::Box
    }

    fn gives_way(&self) -> bool {
        false
    }

    fn apply(
        &self,
        rows: &mut dyn Rows,
        event: &Recorded,
        log: &LogInfo,
    ) -> Result<(), ApplyError> {
        let Some(Seen {
            payload: Payload::Agent(payload),
            erased,
        }) = Seen::read(event)?
        else {
            return Ok(());
        };
        let mut scope = Scope::of(event, log);
        let mut agent: AgentRow = rows::get(rows, View::Agents, &scope.agent_key())?
            .unwrap_or_else(|| AgentRow {
                id: event.stream.id().to_owned(),
                ..AgentRow::default()
            });
        scope.branch_id = agent.more().branch_id;
        if let AgentEvent::OutputStreamed(chunk) = payload {
            if !erased {
                open_call::stream(rows, &scope, agent.call.as_ref(), chunk)?;
            }
            return Ok(());
        }
        step::step(rows, &scope, &mut agent, payload, erased)?;
        agent.offset_key = event.offset_key().to_string();
        rows::put(rows, View::Agents, &scope.agent_key(), &agent)?;
        Ok(())
    }

    /// Streamed output is gone from the rows once the whole reply is in them, so the everyday erasure
    /// of chunks costs nothing.
    fn holds(&self, rows: &dyn Rows, event: &Recorded, log: &LogInfo) -> Result<bool, rows::Error> {
        if event.kind != Kind::AgentOutputStreamed.number() {
            return Ok(
                Kind::from_number(event.kind).is_some_and(|kind| kind.name().starts_with("agent."))
            );
        }
        let scope = Scope::of(event, log);
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
