//! Whole turns, told one event a line.

mod approvals;
mod asking;
mod branches;
mod cancels;
mod compaction;
mod failures;
mod models;
mod reports;
mod steering;
mod turns;
