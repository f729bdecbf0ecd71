//! Budgets: what boxes may spend on models, by whom and at which prices.
//!
//! The state is a fold of the account log's stream `budget/<user>`; every reservation is an append that expects
//! the sequence number that it was decided on. So any number of api processes serve one user's boxes and
//! none of them keeps a count of its own that another could miss.

mod books;
mod prices;
mod refusal;
mod service;

pub(crate) use books::of_box;
pub use books::{BookError, Books};
pub use prices::{BadPrice, Price, PriceFile, Prices};
pub use service::Budgets;
