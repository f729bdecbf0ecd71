//! The event log in PostgreSQL: the same contract as every other store, for any number of replicas.
//!
//! A [`Database`] holds the connections. On it stand the [`PgStore`] (the logs), [`PgKeys`] (owners'
//! keys), the [`Vault`] (hashes of tokens) and the [`Leases`] (who looks after what).

#![forbid(unsafe_code)]

pub mod database;
pub mod error;
pub mod keys;
pub mod lease;
pub mod schema;
pub mod store;
pub mod vault;

pub use database::{Database, Options};
pub use error::{DatabaseError, OpenError};
pub use keys::{PgKeys, PgKeysError};
pub use lease::{Lease, Leases, Taken};
pub use schema::{Roles, migrate};
pub use store::{Health, PgStore};
pub use vault::{Kept, TokenOwner, Vault};
