//! A real PostgreSQL for tests: a cluster in a private folder, without a network, gone with the process.
//!
//! [`shared`] is one cluster for a test binary, with a fresh database for each test; [`Cluster::start`]
//! is one to be killed.

#![forbid(unsafe_code)]

mod cluster;
mod error;
mod guard;
mod programs;

pub use cluster::{Cluster, shared};
pub use error::ClusterError;
