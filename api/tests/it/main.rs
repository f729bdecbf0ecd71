//! Integration tests of what runs outside the boxes.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests; an error here is a failed test"
)]

mod door;
mod gateway;
mod orphans;
