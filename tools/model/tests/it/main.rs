//! The server as a client sees it: one test binary for all wires, the faults and the demo.

#![expect(
    clippy::unwrap_used,
    reason = "the helpers of tests may panic as the tests themselves do"
)]

mod agent;
mod anthropic_wire;
mod both_wires;
mod client;
mod demo;
mod faults;
mod openai_wire;
mod responses_wire;
