//! Proves the model wires with what others made: coding CLIs against the scripted model and our gateway,
//! and our agent against a real model.

mod client;
mod clients;
mod gateway;
mod own;
mod real;
mod tap;
mod usage;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Proves the model wires with what others made.
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
}

#[tokio::main]
async fn main() -> Result<()> {
    drop(rustls::crypto::ring::default_provider().install_default());
    match Args::parse().proof {
        Proof::Agent(args) => clients::prove(args).await,
        Proof::Model(args) => real::prove(args).await,
    }
}
