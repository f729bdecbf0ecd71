//! What can be asked, and why the answer may be no.

use std::collections::BTreeSet;

use cocoonbox_events::Parent;
use cocoonbox_proto::log::v1 as log;

use super::{BadPath, OWED_MAX, Rule};

#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Have the files saved. One that nobody asked for, and no tool call waits for, joins a save that has not begun.
    RequestSave {
        save_id: String,
        /// One of [`super::reason`].
        reason: &'static str,
        only_if_changed: bool,
        /// The call that waits for it; empty with any other reason.
        tool_call_id: String,
    },
    /// Have files given back.
    RequestRestore {
        restore_id: String,
        snapshot_id: String,
        paths: Vec<Vec<u8>>,
        /// Saved first what they replace.
        in_place: bool,
    },

    /// Take a restore in place back.
    RequestUndo {
        restore_id: String,
        /// The restore; absent = the last one that was not taken back.
        of: Option<String>,
    },

    /// Keep a snapshot whatever the rule says, or no longer.
    Pin {
        snapshot_id: String,
        is_pinned: bool,
    },
    /// Keep a snapshot no longer.
    Forget { snapshot_id: String },
    /// Keep no more than a rule says, and what is held: a box is being made from it.
    Prune {
        rule: Rule,
        now_ms: i64,
        held: BTreeSet<String>,
    },

    /// Report: the files are read from here on.
    Begin { save_id: String, at: Parent },
    /// Report: it is kept.
    Commit(log::SnapshotCommitted),
    /// Report: the files are those of a snapshot that is kept.
    Unchanged {
        save_id: String,
        snapshot_id: String,
        at: Parent,
    },
    /// Report: it cannot be saved.
    Fail {
        save_id: String,
        /// Upper case with underscores.
        reason: &'static str,
        detail: String,
    },
    /// Report: files were given back.
    Restored(log::SnapshotRestored),
    /// Report: they cannot be.
    RestoreFailed {
        restore_id: String,
        reason: &'static str,
        detail: String,
    },
    /// Have nothing kept, and nothing owed: the box is gone.
    PruneAll { reason: &'static str },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    #[error("`{field}` is empty")]
    Empty { field: &'static str },
    #[error("{OWED_MAX} saves and restores of the box are owed; wait for one of them")]
    TooMany,
    #[error("the box has no snapshot `{snapshot_id}`")]
    NoSuchSnapshot { snapshot_id: String },
    #[error("snapshot `{snapshot_id}` is pinned")]
    Pinned { snapshot_id: String },
    #[error("snapshot `{snapshot_id}` is being restored")]
    InUse { snapshot_id: String },
    #[error("there is no restore in place to undo")]
    NothingToUndo,
    #[error("restore `{restore_id}` was undone")]
    Undone { restore_id: String },
    #[error("the paths of restore `{restore_id}` were erased")]
    PathsErased { restore_id: String },
    #[error(transparent)]
    BadPath(#[from] BadPath),
    /// A report that comes too late.
    #[error("save or restore `{id}` is not owed")]
    NotOwed { id: String },
    #[error("save `{id}` is not the next one")]
    NotNext { id: String },
}
