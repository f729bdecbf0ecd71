//! The process that acts as the desktop user: commands and files.
//!
//! It answers the loop over a unix socket and believes nobody else; it never sees the loop's database.

pub mod convert;
mod environment;
mod fetch;
mod files;
mod peer;
mod run;
mod runner;
mod server;
mod stdio;
mod strays;
mod terminal;

pub(crate) use environment::environment;
pub use files::Roots;
pub use peer::Peers;
pub use server::{Config, serve};
