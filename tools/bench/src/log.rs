//! The log: appends beside raw SQLite, replay, resumed streams.

pub(crate) mod append;
pub(crate) mod raw;
mod replay;
mod resume;
pub(crate) mod setting;

use std::{path::PathBuf, time::Duration};

use clap::Args;

use crate::{samples, table::Table};
use setting::{Lying, Setting};

#[derive(Args)]
pub(crate) struct Options {
    /// Where the databases are made; each run makes and removes a folder of its own in it. What is
    /// measured is this folder's disk.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    dir: PathBuf,
    /// Seconds for each number of producers, each way of storing and each round.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Rounds; each does everything once, and medians of the rounds are shown.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Producers that append at the same time.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8, 64, 256])]
    producers: Vec<usize>,
    /// Events in the log that is replayed.
    #[arg(long, default_value_t = 100_000)]
    replay_events: u64,
    /// Lengths of the logs in which streams are resumed.
    #[arg(long, value_delimiter = ',', default_values_t = [10_000, 100_000])]
    resume_events: Vec<u64>,
    /// Streams resumed in each of them.
    #[arg(long, default_value_t = 50)]
    resumes: u32,
}

pub(crate) async fn run(options: &Options) -> anyhow::Result<Vec<Table>> {
    let setting = Setting::new(&options.dir)?;
    Ok(vec![
        appends(options, &setting).await?,
        replay::run(&setting, options.replay_events).await?,
        resume::run(&setting, &options.resume_events, options.resumes).await?,
    ])
}

/// Each round measures the two ways of the store and the raw loop right after each other, so that what
/// else the machine does falls on all three.
async fn appends(options: &Options, setting: &Setting) -> anyhow::Result<Table> {
    let span = Duration::from_secs_f64(options.seconds);
    let mut table = Table::new(
        "Append, one event each, closed loop",
        &[
            "producers",
            "store, open: events/s",
            "ack p50",
            "ack p99",
            "mean batch",
            "store, sealed: events/s",
            "ack p50",
            "ack p99",
            "raw SQLite: events/s",
            "open / raw",
            "sealed / raw",
        ],
    );
    for producers in &options.producers {
        let mut open = Vec::new();
        let mut sealed = Vec::new();
        let mut raw = Vec::new();
        for _ in 0..options.rounds.max(1) {
            let one = append::run(setting, Lying::Open, *producers, span).await?;
            raw.push(raw::run(setting, *producers, one.mean_batch(), span).await?);
            open.push(one);
            sealed.push(append::run(setting, Lying::Sealed, *producers, span).await?);
        }
        let ratio = |of: &[append::Run]| {
            let each = of
                .iter()
                .zip(&raw)
                .map(|(run, raw)| run.rate() / raw)
                .collect();
            format!("{:.2}", samples::median(each))
        };
        let (open_ratio, sealed_ratio) = (ratio(&open), ratio(&sealed));
        let mean = samples::median(open.iter().map(append::Run::mean_batch).collect());
        let (open_rate, open_acks) = append::together(open);
        let (sealed_rate, sealed_acks) = append::together(sealed);
        table.row(vec![
            producers.to_string(),
            samples::rate(open_rate),
            open_acks.show(50),
            open_acks.show(99),
            format!("{mean:.1}"),
            samples::rate(sealed_rate),
            sealed_acks.show(50),
            sealed_acks.show(99),
            samples::rate(samples::median(raw)),
            open_ratio,
            sealed_ratio,
        ]);
    }
    table.note(format!(
        "{} rounds of {:.1} s each, medians; latencies are over all rounds. Every append is one event of {} \
         payload bytes with its own command id, from a stream per producer, and is acked once it is on disk. Raw \
         SQLite inserts rows of the same tables (event, command, stream head) with the same pragmas from one \
         thread, prepared beforehand, in transactions of the mean batch that the open store had; it has no queue, \
         no expectations, no hash chain and nobody to answer.",
        options.rounds.max(1),
        options.seconds,
        setting::PAYLOAD_BYTES,
    ));
    Ok(table)
}
