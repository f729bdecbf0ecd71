//! Saves and restores of real folders.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod boxed;
mod changing;
mod conformance;
mod cut;
mod damage;
mod full;
mod noise;
mod odd;
mod random;
mod restoring;
mod roundtrip;
mod saving;
mod scene;
mod store;
mod sweeping;
mod undoing;
mod vectors;
