//! Where an installation's logs, keys, tokens and leases lie, opened from one address.
//!
//! `sqlite:` is a folder for one process, `postgres://…` a database for any number of them. What uses an
//! [`Installation`] does not know which it is.

#![forbid(unsafe_code)]

pub mod address;
pub mod copy;
mod database;
mod folder;
pub mod installation;
pub mod keys;
pub mod leases;
pub mod pulse;
pub mod tokens;

pub use address::{Address, AddressError};
pub use installation::{Installation, OpenError, Purpose};
pub use keys::{Keys, KeysError};
pub use leases::{Holder, Lease, Leases, LeasesError, Taken};
pub use pulse::Pulse;
pub use tokens::{KeptToken, TokenOwner, Tokens, TokensError};
