//! What runs inside a box: the turn loop, the tools, the box's log and the box's gRPC server.
//!
//! One binary, six processes: `init` is process 1, `serve` runs as `cbagent`, `toolhost`, `desktop`, `browser` and
//! `computer` as the desktop user. See the README of this folder.

#![deny(unsafe_code)]

pub mod args;
mod blobs;
pub mod browser;
pub mod computer;
pub mod control;
pub mod credential;
pub mod desktop;
mod erase;
mod exec;
mod handover;
pub mod identity;
pub mod init;
mod jobs;
pub mod journal;
mod lines;
mod mcp;
mod prefix;
mod rpc;
mod saves;
mod seats;
pub mod serve;
mod socket;
pub mod supervise;
mod tool;
pub mod toolhost;
mod turn;
mod wire;

// For the fuzzer.
#[doc(hidden)]
pub use wire::{Wire, read_stream};
