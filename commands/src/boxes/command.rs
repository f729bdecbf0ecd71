//! What can be asked of a box, and why the answer may be no.

use cocoonbox_events::{ChainHash, LogId, Parent};
use cocoonbox_proto::log::v1::ModelRoles;

use super::Origin;
use crate::{models::BadModels, name::BadName};

#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Have it running. The identity fields count only where the box does not exist yet.
    Ensure {
        box_id: String,
        flavor: u32,
        name: String,
        box_log: LogId,
        user_id: String,
        operation_id: String,
    },
    /// Have a box that does not exist yet, with the files and the history of another.
    Fork {
        box_id: String,
        flavor: u32,
        name: String,
        box_log: LogId,
        user_id: String,
        origin: Box<Origin>,
        /// The box's own models, as the other has them.
        models: ModelRoles,
        operation_id: String,
    },
    /// Have it stopped, disks kept.
    Hibernate {
        operation_id: String,
        /// `asked` or `idle`.
        reason: String,
    },
    /// Have it gone, disks and all. Its history stays.
    Delete {
        operation_id: String,
    },
    Rename {
        name: String,
    },
    /// Which models its agents use that have none of their own; none at all = the installation's.
    SetModels {
        models: ModelRoles,
    },
    /// Do not put it to sleep for being idle before this time; 0 = no longer.
    KeepAwake {
        until_ms: i64,
    },

    /// Report: a machine is about to be started with this wake id.
    Starting {
        wake_id: String,
        image: String,
    },
    /// Report: the agent of this machine answers.
    Running {
        wake_id: String,
        agent_version: String,
    },
    /// Report: the machine is down and the disks are kept.
    Hibernated {
        memory_kept: bool,
        /// The replica ends where the box's own log does.
        quiesced: bool,
    },
    /// Report: the machine of this wake id ended without being asked to.
    MachineLost {
        wake_id: String,
        detail: String,
    },
    /// Report: the machine of this wake id ran out of memory; so many of its processes were killed by now.
    MemoryExhausted {
        wake_id: String,
        killed: u64,
    },
    /// Report: the start or the stop cannot be done.
    Failed {
        /// Upper case with underscores.
        reason: String,
        detail: String,
    },
    /// Report: machine and disks are gone.
    Deleted,
    /// Report: the replica of the box log is at this position.
    Anchor {
        box_log: LogId,
        pos: u64,
        chain: ChainHash,
    },
    /// Report: the box log goes on in another one, which branches off it.
    LogRewound {
        new_log: LogId,
        /// The box log before that, and where they part.
        parent: Parent,
        /// Where the old log ended.
        left_pos: u64,
        /// Upper case with underscores.
        reason: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    #[error("the box does not exist")]
    NotFound,
    #[error("this is box `{actual}`, not `{asked}`")]
    OtherBox { actual: String, asked: String },
    #[error("the box is being deleted")]
    BeingDeleted,
    #[error("the box was deleted")]
    Deleted,
    #[error("the box is not running; it is {phase}")]
    NotRunning { phase: &'static str },
    /// The report belongs to another life of this box. Fold again and look at what is owed.
    #[error("report `{report}` does not fit a box that is {phase}")]
    Stale {
        report: &'static str,
        phase: &'static str,
    },
    #[error(transparent)]
    BadName(#[from] BadName),
    #[error(transparent)]
    BadModels(#[from] BadModels),
    #[error("{until_ms} is no time")]
    BadTime { until_ms: i64 },
    #[error("field `{field}` is empty")]
    Empty { field: &'static str },
    #[error("the box exists already")]
    Exists,
    #[error("log {asked} is not this box's log")]
    OtherLog { asked: LogId },
    /// Somebody rewrote the box log behind an anchor.
    #[error("the box log's link at {pos} is not the one anchored before")]
    AnchorDiverged { pos: u64 },
}
