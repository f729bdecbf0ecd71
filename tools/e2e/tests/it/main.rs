//! The whole product, end to end. See the README of this folder.

mod bad_input;
mod bucket;
mod capsule;
mod computer;
mod crash;
mod desktop;
mod erase;
mod exec;
mod fleet;
mod guarded;
mod idle;
mod isolation;
mod keeping;
mod leaving;
mod limits;
mod models;
mod moments;
mod rewinds;
mod routines;
mod screen;
mod story;
mod streams;
mod undoing;
