//! Integration tests of the log, one binary.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod conformance;
mod crash;
mod erasing;
mod fold;
mod golden;
mod keys;
mod model;
mod signing;
mod sqlite;
mod support;
