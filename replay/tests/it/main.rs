//! Questions to small worlds whose every event is known, whole and tampered with.
#![expect(clippy::unwrap_used, reason = "tests")]

mod evidence;
mod export;
mod exported;
mod file;
mod follow;
mod forge;
mod import;
mod look;
mod moments;
mod proof;
mod rerun;
mod rewinds;
mod seeds;
mod tamper;
mod tampered;
mod turns;
mod verify;
mod why;
mod world;
