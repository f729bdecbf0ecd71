//! The stores beside their peers: NATS JetStream, plain PostgreSQL, raw SQLite. Everything on one disk, in
//! one run, with the same payloads.

mod appends;
mod catch_up;
mod huge;
mod jetstream;
mod postgres;
mod served;

use std::{path::PathBuf, time::Duration};

use clap::Args;

use crate::{log::setting::Setting, table::Table};

#[derive(Args)]
pub(crate) struct Options {
    /// Where everything is made and removed again. What is measured is this folder's disk.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    dir: PathBuf,
    /// Seconds for each number of writers, each peer and each round.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Rounds; each does everything once, and medians of the rounds are shown.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Writers that append at the same time.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16, 64])]
    writers: Vec<usize>,
    /// How many events a client is behind when it comes back; the most of them is the logs' length.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 1_000, 1_000_000])]
    behind: Vec<u64>,
    /// Events of the log that is only opened and paged; 0 leaves it out.
    #[arg(long, default_value_t = 10_000_000)]
    huge_events: u64,
    /// The program of a NATS server, 2.10 or newer for `sync_interval: always`; without it JetStream is
    /// left out.
    #[arg(long)]
    nats_server: Option<PathBuf>,
}

pub(crate) async fn run(options: &Options) -> anyhow::Result<Vec<Table>> {
    let setting = Setting::new(&options.dir)?;
    let mut tables = vec![
        appends::run(options, &setting).await?,
        catch_up::run(options, &setting).await?,
    ];
    if options.huge_events > 0 {
        tables.push(huge::run(&setting, options.huge_events).await?);
    }
    Ok(tables)
}

impl Options {
    fn span(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }
}
