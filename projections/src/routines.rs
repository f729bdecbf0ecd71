//! The routines of each user: which there are, when they are due, and how the last run came out.

use cocoonbox_events::{LogInfo, LogKind, Payload, Recorded, RoutineEvent};
use cocoonbox_proto::log::v1::RoutineRunStarted;
use serde::{Deserialize, Serialize};

use crate::{
    projection::{ApplyError, Projection, Seen, at_ms},
    row_key,
    rows::{self, Rows, View},
};

pub struct Routines;

/// One routine. What it asks is in the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoutineRow {
    pub id: String,
    pub box_id: String,
    pub agent_id: String,
    pub name: String,
    /// It is kept so that what it used goes on having a name.
    pub is_deleted: bool,
    pub is_paused: bool,
    /// When it is due, microseconds since the epoch; 0 = not by itself.
    pub next_us: i64,
    /// The run under way.
    pub run: Option<RunRow>,
    /// The newest run that has ended.
    pub last: Option<RunRow>,
    /// Of its last event.
    pub offset_key: String,
}

/// One run of a routine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRow {
    pub run_id: String,
    /// 0 = a person asked for it.
    pub due_us: i64,
    pub started_ms: i64,
    /// 0 = not yet.
    pub ended_ms: i64,
    /// Number of a `RoutineRunEnded.Outcome`.
    pub outcome: i32,
    /// Number of an `AgentTurnEnded.Outcome`.
    pub turn: i32,
    pub reason: String,
}

impl RoutineRow {
    /// When the clock starts it, if it does.
    pub fn due_us(&self) -> Option<i64> {
        let waits = !self.is_deleted && !self.is_paused && self.next_us > 0;
        waits.then_some(self.next_us)
    }
}

impl Projection for Routines {
    fn name(&self) -> &'static str {
        "routines"
    }

    fn version(&self) -> u32 {
        1
    }

    fn views(&self) -> &'static [View] {
        &[View::Routines]
    }

    fn wants(&self, kind: LogKind) -> bool {
        kind == LogKind::Account
    }

    fn gives_way(&self) -> bool {
        true
    }

    fn apply(
        &self,
        rows: &mut dyn Rows,
        event: &Recorded,
        log: &LogInfo,
    ) -> Result<(), ApplyError> {
        let Some(Seen {
            payload: Payload::Routine(payload),
            ..
        }) = Seen::read(event)?
        else {
            return Ok(());
        };
        let key = row_key::key(&[&log.owner, event.stream.id()]);
        let mut row: RoutineRow = rows::get(rows, View::Routines, &key)?.unwrap_or_default();
        event.stream.id().clone_into(&mut row.id);
        row.offset_key = event.offset_key().to_string();
        step(&mut row, payload, at_ms(event));
        rows::put(rows, View::Routines, &key, &row)?;
        Ok(())
    }

    fn holds(&self, _: &dyn Rows, _: &Recorded, _: &LogInfo) -> Result<bool, rows::Error> {
        // Nothing that can be erased is in a row.
        Ok(false)
    }

    fn clear(&self, rows: &mut dyn Rows, log: &LogInfo) -> Result<(), rows::Error> {
        rows.delete_prefix(View::Routines, &row_key::prefix(&[&log.owner]))
    }
}

fn step(row: &mut RoutineRow, event: RoutineEvent, at_ms: i64) {
    match event {
        RoutineEvent::Created(created) => {
            let definition = created.definition.unwrap_or_default();
            row.box_id = definition.box_id;
            row.name = definition.name;
            row.agent_id = created.agent_id;
            row.next_us = created.next_us;
        }
        RoutineEvent::Changed(changed) => {
            row.name = changed.definition.unwrap_or_default().name;
            row.next_us = changed.next_us;
        }
        RoutineEvent::Paused(_) => row.is_paused = true,
        RoutineEvent::Resumed(resumed) => {
            row.is_paused = false;
            row.next_us = resumed.next_us;
        }
        RoutineEvent::RunStarted(started) => {
            row.next_us = started.next_us;
            row.run = Some(run(started, at_ms));
        }
        RoutineEvent::PromptSet(_) | RoutineEvent::RunPrompted(_) => {}
        RoutineEvent::RunEnded(ended) => {
            let begun = row.run.take().unwrap_or_default();
            row.last = Some(RunRow {
                ended_ms: at_ms,
                outcome: ended.outcome,
                turn: ended.turn,
                reason: ended.reason,
                ..begun
            });
        }
        RoutineEvent::Missed(missed) => row.next_us = missed.next_us,
        RoutineEvent::Deleted(_) => row.is_deleted = true,
    }
}

fn run(started: RoutineRunStarted, started_ms: i64) -> RunRow {
    RunRow {
        run_id: started.run_id,
        due_us: started.due_us,
        started_ms,
        ..RunRow::default()
    }
}
