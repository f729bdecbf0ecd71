//! Asks a log what it says: is it whole, what happened, what was known when, what differs, and why.
//!
//! Everything here only reads, but [`import`] into another store. It works on the store of a running
//! process as well as on a copied `log.db` or an export: see [`source`]. Logs are read page by page;
//! what is kept in memory is said where it grows with the log.

#![forbid(unsafe_code)]

pub mod aggregate;
pub mod changes;
pub mod checkpoint;
pub mod diff;
pub mod error;
pub mod export;
pub mod fields;
pub mod filter;
pub mod follow;
pub mod import;
pub mod line;
pub mod moment;
pub mod pages;
pub mod rerun;
pub mod rows;
pub mod show;
pub mod source;
pub mod state;
pub mod verify;
pub mod why;

pub use changes::{Changes, StreamChanges, changes};
pub use cocoonbox_projections::compare::{
    CompareError, Report as RebuildReport, rebuild_and_compare as rebuild,
};
pub use diff::{By, Diff, LogDiff, Side, diff, diff_stores};
pub use error::Error;
pub use export::{ExportStore, decode_line};
pub use fields::FieldChange;
pub use filter::Filter;
pub use follow::Follow;
pub use line::Line;
pub use moment::position_at;
pub use rerun::{Divergence, Rerun, rerun};
pub use rows::{RowChange, RowFold, Upto, row_changes, row_json};
pub use show::{Show, show, show_last};
pub use source::{Origin, Source, SourceError};
pub use state::{StateAt, state};
pub use verify::{
    Against, AllReport, Break, Finding, Findings, VerifyReport, verify, verify_against, verify_all,
    verify_all_against,
};
pub use why::{Target, Via, Why, why};
