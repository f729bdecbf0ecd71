//! What becomes of all that is saved of a user's boxes, stream `capsule/<user>` of the account log.
//!
//! ```text
//!  sweep_requested ─▶ sweep_planned ─▶ swept │ sweep_failed
//!  rule_set; checked, one part of the store after the other
//! ```
//!
//! Boxes share one store, and each chunk in it. What of a box is kept is in its own stream (`snapshot/<box>`); this
//! one says by which rule, and what was given back.

mod command;
mod decide;
mod evolve;
mod state;
#[cfg(test)]
mod tests;

pub use command::{Command, Rejection};
pub use state::{State, Sweep};

/// Why a sweep is made.
pub mod reason {
    pub const ASKED: &str = "asked";
    pub const SCHEDULE: &str = "schedule";
}

/// Parts of a store that are checked one after the other.
pub const SLICES: u32 = 7;
