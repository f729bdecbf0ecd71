//! One box's life, stream `box/<id>` of an account log.
//!
//! ```text
//!            ensure               running               hibernate
//!  Absent ───────────▶ Starting ───────────▶ Running ───────────────▶ Hibernating
//!                       ▲  │ ▲                  │ machine lost             │ hibernated
//!                ensure │  │ └──── ensure ──────▼──────────────────────────▼
//!                     Failed ◀── failed      Hibernated ◀──────────────────
//!
//!  any but Absent and Deleted ── delete ──▶ Deleting ── deleted ──▶ Deleted
//! ```
//!
//! People ask (`Ensure`, `Hibernate`, `Delete`, `Rename`); the reactor that drives machines pays the
//! [`Debt`] and reports. A report that does not fit the phase and the wake id comes from another life
//! of the box and is refused as [`Rejection::Stale`].

mod command;
mod decide;
mod evolve;
mod state;

pub use command::{Command, Rejection};
pub use state::{Debt, Origin, Phase, State};
