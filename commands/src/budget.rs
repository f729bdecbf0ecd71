//! What one account may spend on models, stream `budget/<user>` of its account log.
//!
//! A call reserves what it may use before it is made, in every budget that speaks of it, and settles what it
//! did use afterwards. All of it is in one stream and decided with its sequence number, so that two calls
//! that are made at once, by whatever processes, cannot both have what is there only once.
//!
//! The law: at any time, used + reserved of a budget is at most its limit, plus what settled calls used
//! beyond their own estimates since the budget had room. What is not known counts as used: a
//! reservation that nobody settles turns into use when it expires, and frees nothing.

mod decide;
mod evolve;
mod state;

#[cfg(test)]
mod tests;

pub use decide::{Command, Rejection};
pub use state::{Amount, BUDGETS_MAX, Budget, Key, Limit, RESERVATIONS_MAX, Reservation, State};
