#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests; an error here is a failed test"
)]

mod account_story;
mod hostile;
mod random;
mod running;
mod transcript_story;
mod world;
