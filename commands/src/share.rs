//! Who else may look at the screen of a box, stream `share/<box>` of the account log.
//!
//! One stream for all shares of a box: that there are at most [`LIVE_MAX`] is decided here, and two processes that
//! make one at the same time are told apart by the stream's sequence numbers. What opens a share is a secret, of
//! which only the name is known here: the vault has it, and it counts for as long as its name is the one that stands.

mod decide;
mod evolve;
mod state;

#[cfg(test)]
mod tests;

pub use decide::{Command, EXPIRES_US_MAX, LIVE_MAX, OPENED_US, Rejection};
pub use state::{ENDED_MAX, End, OPENINGS_MAX, Opening, Share, State};
