//! Read models: pure folds over the log, and the runner that keeps them.
//!
//! A [`Projection`] turns events into [`rows::Rows`]; it knows no store, no clock and no runtime. The
//! [`Runner`] follows every log and moves rows and checkpoint in one transaction. [`Views`] answers
//! questions. Everything here can be thrown away and is rebuilt from the log.

#![forbid(unsafe_code)]

pub mod audit;
pub mod awake;
pub mod boxes;
pub mod codec;
pub mod compare;
pub mod database;
pub mod desktops;
pub mod forget;
pub mod operations;
pub mod projection;
pub mod routines;
pub mod row_key;
pub mod rows;
pub mod runner;
pub mod snapshots;
pub mod transcript;
pub mod usage;
pub mod views;

pub use audit::AuditRow;
pub use awake::{AwakeRow, SinceRow};
pub use boxes::BoxRow;
pub use compare::{Compared, Report, rebuild_and_compare};
pub use desktops::DesktopRow;
pub use forget::{ForgetError, Forgotten, forget, forget_for_good, is_forgotten};
pub use operations::{OperationEventRow, OperationRow};
pub use projection::{ApplyError, Projection, all};
pub use routines::{RoutineRow, RunRow};
pub use runner::Runner;
pub use snapshots::SnapshotRow;
pub use transcript::{AgentRow, ItemRow};
pub use usage::UsageTotals;
pub use views::{
    BadQuery, Behind, Building, Condition, Degraded, Folded, Hit, Late, Paged, Query, Rebuilt,
    Search, Searched, Views, ViewsError, conditions,
};
