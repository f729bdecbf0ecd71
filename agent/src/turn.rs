//! The loop: one task per agent that asks its state what to do, does it, and reports.

mod agents;
mod instruct;
mod model;
mod prompt;
mod roster;
mod summary;
mod turn_loop;

pub(crate) use agents::{AgentState, Agents, Fault, MAIN};
