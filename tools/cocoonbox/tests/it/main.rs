//! The program against a scripted api.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod agent;
mod boxes;
mod capsule;
mod capsule_killed;
mod doctor;
mod erase;
mod errors;
mod exec;
mod fake;
mod follow;
mod help;
mod program;
mod replay;
mod routines;
mod screen;
mod send;
mod shares;
mod up;
mod users;
