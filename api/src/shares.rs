//! Shares: links by which others look at the screen of a box, and do nothing else.
//!
//! Three say together what a secret opens. The vault says whose it is and what it is called; the account log says
//! whether what is called so stands; and [`crate::auth::identify`] lets its bearer through to two methods only. So a
//! row that a crash has left in the vault opens nothing, and no service has to know of guests to refuse them.

mod book;
mod guest;
mod refusal;
mod secrets;
mod service;

pub use book::{Parts, Shares};
pub use guest::{Guest, SHARE};
pub use refusal::{NotAdmitted, ShareError};
pub use secrets::{Secret, Secrets};
pub use service::Service;
