//! Prompts that are sent to a box by the clock, stream `routine/<id>` of the account log.
//!
//! ```text
//!  created ─▶ scheduled ─▶ run_started ─▶ run_prompted ─▶ run_ended ─▶ scheduled …
//!                 │  ▲          └──────────────────────▶ run_ended (the box was not reached)
//!                 │  └── resumed ── paused
//!                 └──▶ missed, deleted
//! ```
//!
//! When a routine is due is worked out by whoever commands it and stands in the events, since it takes a clock and
//! the rules of time zones. A run that was started is owed until its end is written.

mod command;
mod decide;
mod evolve;
mod state;
#[cfg(test)]
mod tests;

pub use command::{Command, Rejection};
pub use decide::check;
pub use state::{Life, Prompted, Run, State};

/// Longest prompt: it is told in lists.
pub const PROMPT_BYTES_MAX: usize = 32 * 1024;
/// Longest reason of an error: they are words of ours.
pub const REASON_BYTES_MAX: usize = 64;
/// Longest expression of cron, and longest name of a time zone.
pub const CRON_BYTES_MAX: usize = 128;
pub const ZONE_BYTES_MAX: usize = 64;
/// A run takes at least and at most so long. Below a second a box that sleeps would never be in time.
pub const RUN_MS_MIN: u64 = 1_000;
pub const RUN_MS_MAX: u64 = 24 * 3_600_000;
pub const RUN_MS_DEFAULT: u64 = 600_000;
/// After so many runs in a row that came to nothing it pauses: a loop that costs money stops by itself.
pub const FAILURES_MAX: u32 = 5;
