//! Durable appends of one event each.

use cocoonbox_postgres::Cluster;

use crate::{
    log::{
        append::{self, Run},
        raw,
        setting::{Lying, Setting},
    },
    peers::{
        Options,
        jetstream::{Server, Sync},
        postgres::{self, Pg},
    },
    samples,
    table::Table,
};

/// Everybody once, one after the other, so that what else the machine does falls on all.
struct Round {
    sqlite: Run,
    raw_sqlite: f64,
    postgres: Run,
    raw_postgres: f64,
    plain: Run,
    jetstream: Option<Run>,
}

pub(crate) async fn run(options: &Options, setting: &Setting) -> anyhow::Result<Table> {
    let mut table = Table::new(
        "Durable appends of one event each, closed loop",
        &[
            "writers",
            "who",
            "events/s",
            "ack p50",
            "ack p99",
            "mean batch",
            "ratio",
        ],
    );
    for writers in &options.writers {
        let mut rounds = Vec::new();
        for _ in 0..options.rounds.max(1) {
            rounds.push(round(options, setting, *writers).await?);
        }
        show(&mut table, *writers, rounds);
    }
    table.note(format!(
        "{} rounds of {:.1} s, medians; ratios are medians of the rounds' own. Payloads of 500 random bytes; the stores \
         seal them, chain them and remember command ids. Raw batched PostgreSQL and raw SQLite write the same rows \
         into the same tables, as many in a transaction as the store did on average, from one connection. Plain \
         PostgreSQL: a table with a bigserial key, a row a statement, a connection a writer. JetStream: file \
         storage, one replica, `sync_interval: always`. An ack means on disk everywhere.",
        options.rounds.max(1),
        options.seconds,
    ));
    if options.nats_server.is_none() {
        table.note("JetStream was left out: no `--nats-server`.");
    }
    Ok(table)
}

async fn round(options: &Options, setting: &Setting, writers: usize) -> anyhow::Result<Round> {
    let span = options.span();
    let sqlite = append::run(setting, Lying::Sealed, writers, span).await?;
    let raw_sqlite = raw::run(setting, writers, sqlite.mean_batch(), span).await?;
    let jetstream = match &options.nats_server {
        None => None,
        Some(program) => {
            let folder = setting.path().join("jetstream");
            let server = Server::start(program, folder, Sync::Always).await?;
            Some(server.produce(writers, span).await?)
        }
    };
    let cluster = Cluster::start()?;
    let pg = Pg::new(&cluster).await?;
    let mut postgres = append::produce(pg.store.clone(), pg.log, writers, span).await?;
    postgres.batches = pg.transactions().await?;
    pg.close().await;
    let raw_postgres = postgres::batched(&cluster, writers, postgres.mean_batch(), span).await?;
    let plain = postgres::plain(&cluster, writers, span).await?;
    Ok(Round {
        sqlite,
        raw_sqlite,
        postgres,
        raw_postgres,
        plain,
        jetstream,
    })
}

fn show(table: &mut Table, writers: usize, rounds: Vec<Round>) {
    let median = |of: &dyn Fn(&Round) -> Option<f64>| {
        let found: Vec<f64> = rounds.iter().filter_map(of).collect();
        (!found.is_empty()).then(|| samples::median(found))
    };
    let jetstream = |round: &Round| round.jetstream.as_ref().map(Run::rate);
    let beside_jetstream = median(&|round| Some(round.sqlite.rate() / jetstream(round)?));
    let beside_raw = median(&|round| Some(round.sqlite.rate() / round.raw_sqlite));
    let pg_beside_raw = median(&|round| Some(round.postgres.rate() / round.raw_postgres));
    let pg_beside_plain = median(&|round| Some(round.postgres.rate() / round.plain.rate()));
    let (raw_sqlite, raw_postgres) = (
        median(&|round| Some(round.raw_sqlite)).unwrap_or_default(),
        median(&|round| Some(round.raw_postgres)).unwrap_or_default(),
    );
    let said = |ratio: Option<f64>, of: &str| ratio.map(|ratio| format!("{ratio:.2} of {of}"));
    let ratios =
        |all: Vec<Option<String>>| all.into_iter().flatten().collect::<Vec<_>>().join(", ");
    let sqlite_ratios = ratios(vec![
        said(beside_raw, "raw"),
        said(beside_jetstream, "JetStream"),
    ]);
    let pg_ratios = ratios(vec![
        said(pg_beside_raw, "raw batched"),
        said(pg_beside_plain, "plain"),
    ]);
    let (mut sqlite, mut postgres, mut plain, mut streams) = (vec![], vec![], vec![], vec![]);
    for round in rounds {
        sqlite.push(round.sqlite);
        postgres.push(round.postgres);
        plain.push(round.plain);
        streams.extend(round.jetstream);
    }
    let mut runs = |who: &str, runs: Vec<Run>, ratio: String| {
        let mean = samples::median(runs.iter().map(Run::mean_batch).collect());
        let (rate, acks) = append::together(runs);
        table.row(vec![
            writers.to_string(),
            who.to_owned(),
            samples::rate(rate),
            acks.show(50),
            acks.show(99),
            format!("{mean:.1}"),
            ratio,
        ]);
    };
    runs("SQLite store", sqlite, sqlite_ratios);
    if !streams.is_empty() {
        runs("JetStream", streams, String::new());
    }
    runs("PostgreSQL store", postgres, pg_ratios);
    runs("plain PostgreSQL", plain, String::new());
    for (who, rate) in [
        ("raw SQLite", raw_sqlite),
        ("raw batched PostgreSQL", raw_postgres),
    ] {
        let none = String::new;
        let cells = [none(), none(), none(), none()];
        let mut row = vec![writers.to_string(), who.to_owned(), samples::rate(rate)];
        row.extend(cells);
        table.row(row);
    }
}
