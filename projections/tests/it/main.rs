#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests; an error here is a failed test"
)]

mod account_story;
mod branches;
mod building;
mod counting;
mod crash;
mod forgetting;
mod hostile;
mod load;
mod poison;
mod random;
mod running;
mod searching;
mod transcript_story;
mod world;
