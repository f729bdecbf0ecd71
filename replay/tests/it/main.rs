//! Questions to small worlds whose every event is known, whole and tampered with.
#![expect(clippy::unwrap_used, reason = "tests")]

mod file;
mod look;
mod rerun;
mod tampered;
mod verify;
mod why;
mod world;
