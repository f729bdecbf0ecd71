//! Integration tests of the log, one binary.

mod conformance;
mod crash;
mod fold;
mod golden;
mod keys;
mod model;
mod sqlite;
mod support;
