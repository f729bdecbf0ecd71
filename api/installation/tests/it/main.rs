//! An installation in files and in a real PostgreSQL.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests; an error here is a failed test"
)]

mod copying;
mod leases;
mod tokens;
mod world;
