//! The process that acts as the desktop user: commands and files.
//!
//! It answers the loop over a unix socket and believes nobody else; it never sees the loop's database.

mod environment;
mod files;
mod peer;
mod run;
mod runner;
mod server;
mod stdio;
mod strays;

pub use files::Roots;
pub use peer::Peers;
pub use server::{Config, serve};
