//! Asks a log what it says: is it whole, what happened, what was known when, what differs, and why.
//!
//! Everything here only reads. It works on the store of a running process as well as on a copied
//! `log.db` that was opened for reading. Logs are read page by page; what is kept in memory is said
//! where it grows with the log.

#![forbid(unsafe_code)]

pub mod aggregate;
pub mod changes;
pub mod diff;
pub mod error;
pub mod line;
pub mod pages;
pub mod rerun;
pub mod show;
pub mod state;
pub mod verify;
pub mod why;

pub use changes::{Changes, FieldChange, StreamChanges, changes};
pub use cocoonbox_projections::compare::{
    CompareError, Report as RebuildReport, rebuild_and_compare as rebuild,
};
pub use diff::{By, Diff, diff};
pub use error::Error;
pub use line::Line;
pub use rerun::{Divergence, Rerun, rerun};
pub use show::{Filter, Show, show};
pub use state::{StateAt, state};
pub use verify::{AllReport, Break, Finding, VerifyReport, verify, verify_all};
pub use why::{Target, Why, why};
