//! The whole product, end to end. See the README of this folder.

mod bad_input;
mod crash;
mod exec;
mod isolation;
mod story;
mod streams;
