//! What is known of a user's capsule.

use cocoonbox_events::{Aggregate, CapsuleEvent, IllegalTransition, Payload};

use super::{Command, Rejection, decide, evolve};
use crate::snapshot::Rule;

/// One user's capsule, folded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    pub rule: Rule,
    /// The sweep that is owed.
    pub owed: Option<Sweep>,
    /// When the last sweep ended, well or not; 0 = none did.
    pub swept_ms: i64,
    /// What the store held after the last sweep.
    pub bytes: u64,
    pub objects: u64,
    /// The part of the store that is to be checked next, and when one was last; 0 = never.
    pub next_slice: u32,
    pub checked_ms: i64,
    /// Damaged objects that were found in each part when it was last checked.
    pub damaged: Vec<u64>,
}

/// A sweep that is owed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sweep {
    pub id: String,
    pub reason: String,
    pub is_planned: bool,
}

impl Aggregate for State {
    type Command = Command;
    type Event = CapsuleEvent;
    type Rejection = Rejection;

    fn decide(&self, command: &Command) -> Result<Vec<CapsuleEvent>, Rejection> {
        decide::decide(self, command)
    }

    fn evolve(self, event: &CapsuleEvent) -> Result<Self, IllegalTransition> {
        evolve::evolve(self, event)
    }

    fn pick(payload: Payload) -> Option<CapsuleEvent> {
        CapsuleEvent::pick(payload)
    }
}
