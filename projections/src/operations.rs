//! What was asked of boxes and how far it is: one row per operation, one per step of it.

use cocoonbox_events::{BoxEvent, Kind, LogInfo, LogKind, Payload, Recorded};
use cocoonbox_proto::control::v1::{self as control, Phase};
use serde::{Deserialize, Serialize};

use crate::{
    boxes::told,
    projection::{ApplyError, Projection, Seen, at_ms},
    row_key,
    rows::{self, Rows, View},
};

pub struct Operations;

/// One operation as its last step left it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationRow {
    pub id: String,
    pub box_id: String,
    /// `ensure`, `wake`, `hibernate` or `delete`.
    pub kind: String,
    /// Number of [`Phase`].
    pub phase: i32,
    pub detail: String,
    /// Nothing further comes: `phase` is DONE or FAILED_PHASE.
    pub ended: bool,
    /// Text form of the offset key of the last step.
    pub offset_key: String,
}

/// One step of an operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationEventRow {
    pub operation_id: String,
    /// Number of [`Phase`].
    pub phase: i32,
    pub detail: String,
    pub offset_key: String,
    /// Position in the account log.
    pub pos: u64,
    pub at_ms: i64,
}

impl From<OperationRow> for control::Operation {
    fn from(row: OperationRow) -> Self {
        Self {
            id: row.id,
            box_id: row.box_id,
            phase: row.phase,
            detail: row.detail,
            offset_key: row.offset_key,
            kind: row.kind,
        }
    }
}

impl From<OperationEventRow> for control::OperationEvent {
    fn from(row: OperationEventRow) -> Self {
        Self {
            operation_id: row.operation_id,
            phase: row.phase,
            detail: row.detail,
            offset_key: row.offset_key,
            at_ms: row.at_ms,
        }
    }
}

/// What one event says of an operation.
enum Step {
    /// Somebody asks for something; whatever was under way on the box is superseded, but for a
    /// hibernation that a wake waits for.
    Asked {
        operation: String,
        kind: &'static str,
        phase: Phase,
    },
    Moved {
        operation: String,
        phase: Phase,
        detail: String,
    },
    Ended {
        operation: String,
        phase: Phase,
        detail: String,
    },
}

impl Projection for Operations {
    fn name(&self) -> &'static str {
        "operations"
    }

    fn version(&self) -> u32 {
        2
    }

    fn views(&self) -> &'static [View] {
        &[
            View::Operations,
            View::OperationEvents,
            View::OperationsOpen,
        ]
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
            payload: Payload::Box(payload),
            ..
        }) = Seen::read(event)?
        else {
            return Ok(());
        };
        let box_id = event.stream.id();
        let open_key = row_key::key(&[&log.owner, box_id]);
        let mut open: Vec<String> =
            rows::get(rows, View::OperationsOpen, &open_key)?.unwrap_or_default();
        let Some(step) = step(payload, open.last().map(String::as_str)) else {
            return Ok(());
        };
        match step {
            Step::Asked {
                operation,
                kind,
                phase,
            } => {
                let waits = kind == "wake" && sleeps(rows, log, open.last())?;
                if !waits {
                    for open in open.drain(..).filter(|open| *open != operation) {
                        let detail = format!("superseded by {operation}");
                        note(rows, event, log, &open, Phase::FailedPhase, &detail, true)?;
                    }
                }
                // An erased request: there is no id that anybody could ask by.
                if operation.is_empty() {
                    rows.delete(View::OperationsOpen, &open_key)?;
                    return Ok(());
                }
                let key = row_key::key(&[&log.owner, &operation]);
                let row = OperationRow {
                    id: operation.clone(),
                    box_id: box_id.to_owned(),
                    kind: kind.to_owned(),
                    ..OperationRow::default()
                };
                rows::put(rows, View::Operations, &key, &row)?;
                note(rows, event, log, &operation, phase, "requested", false)?;
                open.push(operation);
                rows::put(rows, View::OperationsOpen, &open_key, &open)?;
            }
            Step::Moved {
                operation,
                phase,
                detail,
            } => {
                note(rows, event, log, &operation, phase, &detail, false)?;
            }
            Step::Ended {
                operation,
                phase,
                detail,
            } => {
                note(rows, event, log, &operation, phase, &detail, true)?;
                open.retain(|open| *open != operation);
                if open.is_empty() {
                    rows.delete(View::OperationsOpen, &open_key)?;
                } else {
                    rows::put(rows, View::OperationsOpen, &open_key, &open)?;
                }
            }
        }
        Ok(())
    }

    fn holds(&self, _: &dyn Rows, event: &Recorded, _: &LogInfo) -> Result<bool, rows::Error> {
        Ok(Kind::from_number(event.kind).is_some_and(|kind| kind.name().starts_with("box.")))
    }

    fn clear(&self, rows: &mut dyn Rows, log: &LogInfo) -> Result<(), rows::Error> {
        let all = row_key::prefix(&[&log.owner]);
        for view in self.views() {
            rows.delete_prefix(*view, &all)?;
        }
        Ok(())
    }
}

/// Whether the operation is a hibernation that goes on.
fn sleeps(rows: &dyn Rows, log: &LogInfo, operation: Option<&String>) -> Result<bool, rows::Error> {
    let Some(operation) = operation else {
        return Ok(false);
    };
    let key = row_key::key(&[&log.owner, operation]);
    let row: Option<OperationRow> = rows::get(rows, View::Operations, &key)?;
    Ok(row.is_some_and(|row| row.kind == "hibernate" && !row.ended))
}

/// Reads what an event says. Where its operation id is erased, the one under way is meant.
fn step(event: BoxEvent, open: Option<&str>) -> Option<Step> {
    let or_open = |id: String| {
        if id.is_empty() {
            open.map(str::to_owned)
        } else {
            Some(id)
        }
    };
    let asked = |operation, kind, phase| {
        Some(Step::Asked {
            operation,
            kind,
            phase,
        })
    };
    let done = |id: String| {
        let operation = or_open(id)?;
        Some(Step::Ended {
            operation,
            phase: Phase::Done,
            detail: String::new(),
        })
    };
    match event {
        BoxEvent::EnsureRequested(e) => asked(e.operation_id, "ensure", Phase::Creating),
        BoxEvent::WakeRequested(e) => asked(e.operation_id, "wake", Phase::Creating),
        BoxEvent::HibernateRequested(e) => asked(e.operation_id, "hibernate", Phase::CleaningUp),
        BoxEvent::DeleteRequested(e) => asked(e.operation_id, "delete", Phase::CleaningUp),
        BoxEvent::Starting(e) => Some(Step::Moved {
            operation: or_open(e.operation_id)?,
            phase: Phase::Creating,
            detail: "starting".to_owned(),
        }),
        BoxEvent::Running(e) => done(e.operation_id),
        BoxEvent::Hibernated(e) => done(e.operation_id),
        BoxEvent::Deleted(e) => done(e.operation_id),
        BoxEvent::Failed(e) => Some(Step::Ended {
            operation: or_open(e.operation_id)?,
            phase: Phase::FailedPhase,
            detail: told(&e.reason, &e.detail),
        }),
        // The operation goes on being owed: the reactor starts again or says `box.failed`.
        BoxEvent::MachineLost(e) => Some(Step::Moved {
            operation: or_open(String::new())?,
            phase: Phase::Creating,
            detail: told("machine lost", &e.detail),
        }),
        BoxEvent::Created(_)
        | BoxEvent::Renamed(_)
        | BoxEvent::ModelsSet(_)
        | BoxEvent::MemoryExhausted(_)
        | BoxEvent::KeptAwake(_)
        | BoxEvent::LogAnchored(_)
        | BoxEvent::LogRewound(_) => None,
    }
}

/// Writes one step. Steps of an operation that is not known or has ended are passed over: a late
/// `box.running` of a start that was superseded says nothing to who follows the start.
fn note(
    rows: &mut dyn Rows,
    event: &Recorded,
    log: &LogInfo,
    operation: &str,
    phase: Phase,
    detail: &str,
    ends: bool,
) -> Result<(), rows::Error> {
    let key = row_key::key(&[&log.owner, operation]);
    let Some(mut row) = rows::get::<OperationRow>(rows, View::Operations, &key)? else {
        return Ok(());
    };
    if row.ended {
        return Ok(());
    }
    // A machine lost while the box is going to sleep does not make it a start.
    let moving =
        phase == Phase::Creating && !ends && matches!(row.kind.as_str(), "hibernate" | "delete");
    let phase = if moving { Phase::CleaningUp } else { phase };
    row.phase = phase.into();
    detail.clone_into(&mut row.detail);
    row.ended = ends;
    row.offset_key = event.offset_key().to_string();
    rows::put(rows, View::Operations, &key, &row)?;
    let step = OperationEventRow {
        operation_id: operation.to_owned(),
        phase: phase.into(),
        detail: detail.to_owned(),
        offset_key: row.offset_key,
        pos: event.pos,
        at_ms: at_ms(event),
    };
    let key = row_key::key(&[&log.owner, operation, &row_key::pos(event.pos)]);
    rows::put(rows, View::OperationEvents, &key, &step)
}
