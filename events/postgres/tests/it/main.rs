//! Integration tests of the PostgreSQL store, one binary, one server.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../../../tests/it/conformance.rs"]
mod conformance;
mod disk;
mod dump;
mod failing;
mod keys;
mod lease;
mod replicas;
mod roles;
mod support;
mod tables;
mod vault;
