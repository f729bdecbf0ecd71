//! What runs outside the boxes: control plane, edge, model gateway and egress door.
//!
//! A mutation goes caller -> command -> decider -> log; a reactor does what the log says is owed; every
//! answer to a question is a projection, every stream a cursor over the log.

pub mod accounts;
pub mod attention;
pub mod auth;
pub mod blobs;
pub mod boxes;
pub mod budget;
pub mod capsules;
pub mod channel;
pub mod checkpoints;
pub mod config;
pub mod console;
pub mod control;
pub mod credential;
pub mod door;
pub mod edge;
pub mod erase;
pub mod fresh;
pub mod gateway;
pub mod history;
pub mod images;
pub mod lease;
pub mod lifecycle;
pub mod metrics;
pub mod one_at_a_time;
pub mod operator;
pub mod passkeys;
pub mod replica;
pub mod revocable;
pub mod revocations;
pub mod routines;
pub mod screen;
pub mod server;
pub mod session;
pub mod shares;
pub mod status;
pub mod stream;
pub mod usage;
pub mod users;
pub mod vault;
pub mod vitals;

pub use config::Config;
pub use server::{Server, StartError};
