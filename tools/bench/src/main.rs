//! Measures what the README reports. Everything that is a promise is measured beside what it is
//! compared with, in the same run on the same disk.

#![forbid(unsafe_code)]

mod boxes;
mod gateway;
mod host;
mod log;
mod peers;
mod samples;
mod table;

use clap::{Parser, Subcommand};

use table::Report;

#[derive(Parser)]
#[command(
    name = "cocoonbox-bench",
    version,
    about = "Measures the log and the boxes"
)]
struct Cli {
    /// Prints JSON instead of Markdown tables.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Appends beside raw SQLite, replay, and the cost of a resumed stream.
    Log(log::Options),
    /// The stores beside NATS JetStream, plain PostgreSQL and raw SQLite.
    Peers(peers::Options),
    /// Model calls through the gateway beside direct ones.
    Gateway(gateway::Options),
    /// Starts, wakes, relayed calls and memory; needs a running api.
    Boxes(boxes::Options),
}

fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let tables = match cli.what {
        What::Log(options) => runtime.block_on(log::run(&options))?,
        What::Peers(options) => runtime.block_on(peers::run(&options))?,
        What::Gateway(options) => runtime.block_on(gateway::run(&options))?,
        What::Boxes(options) => runtime.block_on(boxes::run(&options))?,
    };
    let report = Report {
        host: host::facts(),
        tables,
    };
    let text = if cli.json {
        serde_json::to_string_pretty(&report)?
    } else {
        report.markdown()
    };
    println!("{text}");
    Ok(())
}
