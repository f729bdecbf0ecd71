//! What runs inside a box: the turn loop, the tools, the box's log and the box's gRPC server.
//!
//! One binary, three processes: `init` is process 1, `serve` runs as `cbagent`, `toolhost` as the
//! desktop user. See the README of this folder.

#![forbid(unsafe_code)]

pub mod credential;
mod exec;
pub mod identity;
pub mod init;
pub mod journal;
mod prefix;
mod rpc;
pub mod serve;
pub mod supervise;
mod tool;
pub mod toolhost;
mod turn;
mod wire;
