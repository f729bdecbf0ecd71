//! Who drives a display of a box, stream `control/<box>/<display>` of the account log.
//!
//! A person takes the display over for as long as there is input, and agents give none meanwhile. Each lease has
//! a fence number higher than that of the one before, so that whatever belongs to an earlier lease can be told
//! from what belongs to this one.

mod decide;
mod evolve;
mod state;

#[cfg(test)]
mod tests;

pub use decide::{
    Command, IDLE_MS_DEFAULT, IDLE_MS_MAX, IDLE_MS_MIN, LABEL_BYTES_MAX, LEASE_ID_BYTES_MAX,
    NOTE_BYTES_MAX, RENEW_US, Rejection,
};
pub use state::{HandBack, Lease, State};
