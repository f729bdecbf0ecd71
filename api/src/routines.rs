//! Prompts that are sent to boxes by the clock: kept and started here, so that a box sleeps until it is due and
//! cannot wake itself.
//!
//! A run is owed by the account log from `routine.run_started` on. Any process starts what is due (the log lets one
//! through), and the process that drives the box gives its agent the prompt and waits for the turn. Every step names
//! the run, so that one that is made twice is one.

mod due;
mod refused;
mod run;
mod schedule;
mod service;
mod shown;

pub use due::{Clockwork, Parts};
pub use service::Routines;

use cocoonbox_events::{CommandId, StreamName, id::BadStreamName};

/// Of a user that are not deleted: each is looked at by the clock, and told in one list.
const ROUTINES_MAX: usize = 20;

/// Stream of the account log that has a routine.
fn stream(routine_id: &str) -> Result<StreamName, BadStreamName> {
    StreamName::new(format!("routine/{routine_id}"))
}

/// What the box makes a routine's agent of; its id follows from it.
fn agent_nonce(routine_id: &str) -> String {
    format!("routine {routine_id}")
}

/// The id that the box gives the agent of [`agent_nonce`].
fn agent_id(routine_id: &str) -> String {
    CommandId::derive(agent_nonce(routine_id).as_bytes(), "agent").to_string()
}
