//! What can be asked, and why the answer may be no.

use cocoonbox_proto::log::v1 as log;

use crate::snapshot::{Rule, retention};

#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Keep snapshots by this rule from here on.
    SetRule(Rule),
    /// Have what is not kept given back. Joins a sweep that is owed.
    RequestSweep {
        sweep_id: String,
        /// One of [`super::reason`].
        reason: &'static str,
    },

    /// Note that a device was given the key. Each time: who has it is what people want to know.
    ExportKey { token_id: String },

    /// Report: this is about to be done.
    Plan(log::CapsuleSweepPlanned),
    /// Report: it is done.
    Swept(log::CapsuleSwept),
    /// Report: it cannot be done now.
    Fail {
        sweep_id: String,
        /// Upper case with underscores.
        reason: &'static str,
        ended_ms: i64,
    },
    /// Report: the next part of the store was read and compared.
    Checked(log::CapsuleChecked),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    #[error("`{field}` is empty")]
    Empty { field: &'static str },
    #[error(
        "a span has at most {} hours or {} days",
        retention::HOURS_MAX,
        retention::DAYS_MAX
    )]
    BadRule,
    /// A report that comes too late.
    #[error("sweep `{id}` is not owed")]
    NotOwed { id: String },
    /// Somebody else checked it.
    #[error("part {slice} is not the next one to check")]
    NotNext { slice: u32 },
}
