//! Proves with what others made: the model wires by coding CLIs against the scripted model and our gateway, our
//! agent against a real model, the computer tool by a harness that looks whether input arrives.

mod client;
mod clients;
mod computer;
mod gateway;
mod own;
mod real;
mod tap;
mod usage;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Proves what we speak and do with what others made.
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    proof: Proof,
}

#[derive(Subcommand)]
enum Proof {
    /// Coding CLIs, one for each wire, directly and through our gateway; and our agent beside them.
    Agent(clients::Args),
    /// Our agent with a real model.
    Model(real::Args),
    /// Passes what standard input says on to the holder of a display, for programs that speak no gRPC.
    Computer(computer::Args),
}

#[tokio::main]
async fn main() -> Result<()> {
    drop(rustls::crypto::ring::default_provider().install_default());
    match Args::parse().proof {
        Proof::Agent(args) => clients::prove(args).await,
        Proof::Model(args) => real::prove(args).await,
        Proof::Computer(args) => computer::pass_on(args).await,
    }
}
