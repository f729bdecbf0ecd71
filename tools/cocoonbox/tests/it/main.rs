//! The program against a scripted api.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod boxes;
mod errors;
mod exec;
mod fake;
mod follow;
mod help;
mod program;
mod replay;
mod send;
mod up;
mod users;
