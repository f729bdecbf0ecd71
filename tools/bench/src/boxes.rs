//! Boxes of a running api: how fast they come, what a relayed call costs, what they use.

mod client;
mod desktops;
mod direct;
mod exec;
mod lifecycle;
mod memory;
mod screen;
mod turns;

use std::{net::SocketAddr, path::PathBuf};

use anyhow::Context;
use clap::Args;

use crate::table::Table;
use client::Api;

#[derive(Args)]
pub(crate) struct Options {
    /// Address of the api.
    #[arg(long, env = "COCOONBOX_API", default_value = "http://127.0.0.1:8750")]
    api: String,
    /// A file with a user's token in it; `-` is standard input. There is no option for the token itself:
    /// other users of a host see arguments.
    #[arg(long)]
    token_file: PathBuf,
    /// The api's data folder: its key signs the calls that are made without the edge.
    #[arg(long, env = "COCOONBOX_DATA_DIR")]
    data_dir: PathBuf,
    /// Boxes started, put to sleep, woken and deleted.
    #[arg(long, default_value_t = 10)]
    boxes: usize,
    /// Boxes with a desktop that are started and woken, one after the other. 0: the api has no image of one.
    #[arg(long, default_value_t = 5)]
    desktops: usize,
    /// Calls for each latency.
    #[arg(long, default_value_t = 200)]
    calls: usize,
    /// Bytes sent through a pipe and back, in MiB.
    #[arg(long, default_value_t = 256)]
    pipe_mib: u64,
    /// Pictures of a screen in each round.
    #[arg(long, default_value_t = 200)]
    pictures: usize,
    /// Where the api expects Anthropic: a vendor is played there. Absent: turns are not measured.
    #[arg(long)]
    vendor: Option<SocketAddr>,
    /// Turns of an agent; a quarter as many are cancelled.
    #[arg(long, default_value_t = 100)]
    turns: usize,
    /// Empties the page cache before each cold start; needs root, and slows the whole machine down.
    #[arg(long)]
    drop_caches: bool,
    /// Process id of the api, where several run on this host.
    #[arg(long)]
    api_pid: Option<u32>,
}

pub(crate) async fn run(options: &Options) -> anyhow::Result<Vec<Table>> {
    let file = &options.token_file;
    let token = if file.as_os_str() == "-" {
        std::io::read_to_string(std::io::stdin()).context("reading the token")?
    } else {
        std::fs::read_to_string(file)
            .with_context(|| format!("reading the token from `{}`", file.display()))?
    };
    let api = Api::connect(&options.api, token.trim()).await?;
    let mut made = Vec::new();
    let measured = measure(options, &api, &mut made).await;
    // Also after a failure: what was made here goes.
    for id in &made {
        if let Err(error) = api.delete(id).await {
            eprintln!("box `{id}` is left behind: {error:#}");
        }
    }
    measured
}

async fn measure(
    options: &Options,
    api: &Api,
    made: &mut Vec<String>,
) -> anyhow::Result<Vec<Table>> {
    let lifecycle = lifecycle::run(api, options.boxes, options.drop_caches, made).await?;
    let id = made
        .first()
        .context("no box was made: --boxes is 0")?
        .clone();
    let dialled = direct::Dialled::of(&options.data_dir, &id)?;
    let direct = dialled.session(&options.data_dir, &id).await?;
    let relay = exec::run(api, &id, direct, options.calls, options.pipe_mib).await?;
    let screen = screen::run(api, &id, &dialled, options.calls, options.pictures).await?;
    let memory = memory::run(&id, options.api_pid);
    let mut tables = vec![lifecycle, relay, screen, memory];
    if options.desktops > 0 {
        tables.push(desktops::run(api, options.desktops, options.drop_caches, made).await?);
    }
    if let Some(vendor) = options.vendor {
        let direct = dialled.session(&options.data_dir, &id).await?;
        tables.push(turns::run(api, &id, direct, vendor, options.turns).await?);
    }
    Ok(tables)
}
