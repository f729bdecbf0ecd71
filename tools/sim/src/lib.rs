//! A whole installation in one thread, with everything that can go wrong drawn from a seed.
//!
//! Boxes, their agents, the copies of their logs, api replicas, clients, an auditor and an operator run
//! over a faulty network, disk and clock. The laws of the architecture are checked all the time and once
//! more when the faults have stopped. The same seed gives the same run.

#![forbid(unsafe_code)]

pub mod agent;
pub mod api;
pub mod audit;
pub mod broken;
pub mod chance;
pub mod chaos;
pub mod client;
pub mod clock;
pub mod control;
pub mod disk;
pub mod finish;
pub mod host;
pub mod law;
pub mod ledger;
pub mod net;
pub mod run;
pub mod scheduler;
pub mod shrink;
pub mod store;
pub mod trace;
pub mod world;

pub use broken::Broken;
pub use chaos::Faults;
pub use law::{Law, Violation};
pub use run::{Outcome, Run};
