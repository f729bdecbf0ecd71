//! Who drives a display of a box: taking over, handing back, and telling the box.
//!
//! Each box that this process drives has a [`Desk`]. It decides by the account log and orders what follows: a lease
//! is in the log, then the box's agents are kept from acting, then the holder's input passes; at its end the
//! holder's keys are let go before agents may act again.
//!
//! The lease is an aggregate of the account log and not something in memory: who drove when is part of the history,
//! and another process goes on with it. One process writes it at a time, the one that drives the box; two at once
//! would be told apart by the stream's sequence numbers. A lease that could not be fenced (the box does not answer)
//! is released again, and its taker refused: half a take-over would be none.

mod desk;
mod fence;
mod handle;
mod refusal;
mod seat;
mod service;

pub use desk::{Desk, Parts};
pub use handle::{Attachment, Desks, Handle, Standing};
pub(crate) use refusal::closing;
pub(crate) use service::Controls;

/// Displays of one box.
pub const DISPLAYS: u32 = 8;
