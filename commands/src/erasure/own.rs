//! Erasures in one log, stream `log/erasure` of that log.

use std::collections::BTreeSet;

use cocoonbox_events::{
    Aggregate, IllegalTransition, LogEvent, Payload,
    erasure::{POSITIONS_MAX, REASON_BYTES_MAX},
};
use cocoonbox_proto::log::v1::{Husk, LogErasureDone, LogErasureRequested};

/// What was asked for and what was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    requested: BTreeSet<u64>,
    done: BTreeSet<u64>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Positions that were asked for before are passed over. The husks are those of all positions.
    Request {
        positions: Vec<u64>,
        reason: String,
        husks: Vec<Husk>,
    },
    /// Report: the rows at these positions hold no payload any more.
    Done { positions: Vec<u64> },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    #[error("{positions} positions in one request; {POSITIONS_MAX} fit")]
    TooMany { positions: usize },
    #[error("the reason has {bytes} bytes; {REASON_BYTES_MAX} fit, without control characters")]
    BadReason { bytes: usize },
    #[error("the erasure of position {pos} was not asked for")]
    NotRequested { pos: u64 },
}

impl State {
    /// Returns the positions that were asked for and are not done, in order.
    pub fn owed(&self) -> Vec<u64> {
        self.requested.difference(&self.done).copied().collect()
    }

    /// Returns every position that was ever asked for, in order.
    pub fn requested(&self) -> Vec<u64> {
        self.requested.iter().copied().collect()
    }
}

/// Whether a reason can be written into a log.
pub fn check_reason(reason: &str) -> Result<(), Rejection> {
    let bytes = reason.len();
    if bytes > REASON_BYTES_MAX || reason.chars().any(char::is_control) {
        return Err(Rejection::BadReason { bytes });
    }
    Ok(())
}

impl Aggregate for State {
    type Command = Command;
    type Event = LogEvent;
    type Rejection = Rejection;

    fn decide(&self, command: &Command) -> Result<Vec<LogEvent>, Rejection> {
        match command {
            Command::Request {
                positions,
                reason,
                husks,
            } => {
                if positions.len() > POSITIONS_MAX {
                    let positions = positions.len();
                    return Err(Rejection::TooMany { positions });
                }
                check_reason(reason)?;
                let fresh: BTreeSet<u64> = positions
                    .iter()
                    .copied()
                    .filter(|pos| !self.requested.contains(pos))
                    .collect();
                if fresh.is_empty() {
                    return Ok(Vec::new());
                }
                let husks = husks.iter().filter(|husk| fresh.contains(&husk.pos));
                Ok(vec![LogEvent::ErasureRequested(LogErasureRequested {
                    husks: husks.cloned().collect(),
                    positions: fresh.into_iter().collect(),
                    reason: reason.clone(),
                })])
            }
            Command::Done { positions } => {
                if let Some(pos) = positions.iter().find(|pos| !self.requested.contains(pos)) {
                    return Err(Rejection::NotRequested { pos: *pos });
                }
                let fresh: Vec<u64> = self
                    .owed()
                    .into_iter()
                    .filter(|pos| positions.contains(pos))
                    .collect();
                if fresh.is_empty() {
                    return Ok(Vec::new());
                }
                Ok(vec![LogEvent::ErasureDone(LogErasureDone {
                    positions: fresh,
                })])
            }
        }
    }

    fn evolve(mut self, event: &LogEvent) -> Result<Self, IllegalTransition> {
        match event {
            LogEvent::ErasureRequested(asked) => self.requested.extend(&asked.positions),
            LogEvent::ErasureDone(done) => {
                if done
                    .positions
                    .iter()
                    .any(|pos| !self.requested.contains(pos))
                {
                    return Err(IllegalTransition {
                        state: format!("{} owed", self.owed().len()),
                        event: event.kind().name(),
                    });
                }
                self.done.extend(&done.positions);
            }
            LogEvent::CheckpointKeyIssued(_)
            | LogEvent::CheckpointKeyRetired(_)
            | LogEvent::Rewound(_) => {
                return Err(IllegalTransition {
                    state: "erasure".to_owned(),
                    event: event.kind().name(),
                });
            }
        }
        Ok(self)
    }

    fn pick(payload: Payload) -> Option<LogEvent> {
        LogEvent::pick(payload)
    }
}
