//! What runs outside the boxes: control plane, edge, model gateway and egress door.
//!
//! A mutation goes caller -> command -> decider -> log; a reactor does what the log says is owed; every
//! answer to a question is a projection, every stream a cursor over the log.

pub mod accounts;
pub mod auth;
pub mod boxes;
pub mod channel;
pub mod config;
pub mod credential;
pub mod door;
pub mod edge;
pub mod gateway;
pub mod lifecycle;
pub mod replica;
pub mod revocable;
pub mod server;
pub mod session;
pub mod status;
pub mod stream;
pub mod usage;
pub mod users;
pub mod vault;

pub use config::Config;
pub use server::{Server, StartError};
