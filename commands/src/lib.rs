//! What may happen: one pure state machine per aggregate.
//!
//! Each module has a `State` (an [`cocoonbox_events::Aggregate`]), a `Command` and a `Rejection`.
//! `decide` says which events a command leads to, `evolve` takes an event in. No clock, no chance, no
//! I/O: times and ids come in as values. Rejections are facts about the state, never opinions.

#![forbid(unsafe_code)]

pub mod agent;
pub mod blob;
pub mod bounded;
pub mod boxes;
pub mod budget;
pub mod capsule;
pub mod control;
pub mod desktop;
pub mod directory;
pub mod erasure;
pub mod exec;
pub mod models;
pub mod name;
pub mod routine;
pub mod share;
pub mod snapshot;
pub mod user;
