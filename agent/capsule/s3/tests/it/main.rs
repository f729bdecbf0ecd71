//! Capsules in S3: a real server, and one that misbehaves.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../../../tests/it/conformance.rs"]
mod conformance;
mod faults;
mod misbehaving;
#[path = "../../../tests/it/noise.rs"]
mod noise;
mod real;
mod server;
