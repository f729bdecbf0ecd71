//! What is saved of a box's files, stream `snapshot/<box>` of the account log.
//!
//! ```text
//!  save_requested ─▶ save_begun ─▶ committed │ unchanged │ failed
//!  restore_requested ────────────▶ restored │ restore_failed
//!  pinned, unpinned; pruned by the rule of the user, or with the box
//! ```
//!
//! Saves of one box are done one after the other, in the order in which they were asked for, and restores behind the
//! saves that they wait for.

mod command;
mod decide;
mod evolve;
mod path;
pub mod retention;
mod state;
#[cfg(test)]
mod tests;

pub use command::{Command, Rejection};
pub use path::{BadPath, PATH_BYTES_MAX, PATHS_MAX, check_path};
pub use retention::Rule;
pub use state::{Given, Kept, Restore, Save, State, Undoes};

/// Asked for and not done: more are refused. Each may hold the host for minutes.
pub const OWED_MAX: usize = 8;

/// Restores in place of a box that can be taken back: the last ones. Each keeps its paths in memory.
pub const UNDOABLE_MAX: usize = 16;

/// Why a save is made; in the event and in what people see.
pub mod reason {
    /// Somebody asked.
    pub const ASKED: &str = "asked";
    /// A turn of an agent that called tools has ended.
    pub const TURN: &str = "turn";
    /// The box went to sleep.
    pub const HIBERNATE: &str = "hibernate";
    /// The box runs, and was not saved for a while.
    pub const SCHEDULE: &str = "schedule";
    /// Files are about to be put in the place of others.
    pub const RESTORE: &str = "restore";
    /// A tool call that may destroy files is about to be made, and waits for it.
    pub const TOOL: &str = "tool";
    pub const ALL: [&str; 6] = [ASKED, TURN, HIBERNATE, SCHEDULE, RESTORE, TOOL];
}
