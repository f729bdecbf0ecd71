//! The command line of cocoonbox: speaks gRPC to a running api, and reads a data directory for
//! `replay`.
//!
//! A library so that its parts can be tested; the program is `main.rs`.

#![forbid(unsafe_code)]

pub mod agent;
pub mod boxes;
pub mod capsule;
pub mod checkpoints;
pub mod cli;
pub mod client;
pub mod context;
pub mod control;
pub mod credentials;
pub mod doctor;
pub mod environment;
pub mod erase;
pub mod events;
pub mod exec;
pub mod exit;
pub mod failure;
pub mod files;
pub mod follow;
pub mod interrupt;
pub mod log;
pub mod models;
pub mod money;
pub mod output;
pub mod passkeys;
pub mod prompt;
pub mod replay;
pub mod routines;
pub mod run;
pub mod screen;
pub mod send;
pub mod shares;
pub mod status;
pub mod target;
pub mod text;
pub mod topics;
pub mod transcript;
pub mod turn;
pub mod up;
pub mod users;
