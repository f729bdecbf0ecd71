//! The command line of cocoonbox: speaks gRPC to a running api, and reads a data directory for
//! `replay`.
//!
//! A library so that its parts can be tested; the program is `main.rs`.

#![forbid(unsafe_code)]

pub mod agents;
pub mod boxes;
pub mod cli;
pub mod client;
pub mod context;
pub mod credentials;
pub mod environment;
pub mod events;
pub mod exec;
pub mod exit;
pub mod failure;
pub mod follow;
pub mod interrupt;
pub mod output;
pub mod prompt;
pub mod replay;
pub mod run;
pub mod send;
pub mod status;
pub mod target;
pub mod text;
pub mod topics;
pub mod transcript;
pub mod turn;
pub mod up;
pub mod users;
