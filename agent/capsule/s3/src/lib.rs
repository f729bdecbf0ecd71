//! Capsules in S3 and what speaks like it.
//!
//! A crate of its own for its dependencies: a capsule in a folder needs none of them.

mod address;
mod credentials;
mod multipart;
mod problem;
mod store;

pub use address::{Address, BadAddress, Encryption};
pub use credentials::{BadCredentials, Credentials};
pub use store::{OpenError, S3};
