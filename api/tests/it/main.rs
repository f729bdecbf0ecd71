//! Integration tests of what runs outside the boxes.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests; an error here is a failed test"
)]

mod budget;
mod checkpoints;
mod console;
mod door;
mod elsewhere;
mod flavors;
mod gateway;
mod operator;
mod orphans;
mod outage;
mod passkeys;
mod releases;
mod repeated;
mod screen;
mod shares;
mod wired;
