//! A client that was away: from its key until it is live.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::ensure;
use cocoonbox_events::{Follower, LogId, OffsetKey, Store, StreamName};
use cocoonbox_postgres::Cluster;

use crate::{
    host,
    log::setting::{Lying, Setting, append, fill, new_event},
    peers::{
        Options,
        jetstream::{Server, Sync},
        postgres::Pg,
        served::{self, Served},
    },
    samples::{self, Samples},
    table::Table,
};

/// Comings back that are short enough to be done often.
const OFTEN: u32 = 50;
const SHORT: u64 = 10_000;
const SELDOM: u32 = 3;

struct Came {
    live: Samples,
    /// The median one's rate.
    rate: f64,
    grown_kb: u64,
}

pub(crate) async fn run(options: &Options, setting: &Setting) -> anyhow::Result<Table> {
    let length = options.behind.iter().copied().max().unwrap_or(1);
    let mut table = Table::new(
        format!("A client that comes back, in a log of {length} events"),
        &[
            "behind",
            "who",
            "live p50",
            "live p95",
            "events/s",
            "memory grew by",
        ],
    );
    let measured = setting.filled(Lying::Sealed, length).await?;
    for behind in &options.behind {
        let came = store(measured.store.clone(), measured.log, *behind).await?;
        show(&mut table, *behind, "SQLite store, sealed", came);
        let came = served(measured.store.clone(), measured.log, *behind).await?;
        show(&mut table, *behind, "the same, as gRPC over TCP", came);
    }
    measured.remove().await;

    let cluster = Cluster::start()?;
    let pg = Pg::new(&cluster).await?;
    fill(&*pg.store, pg.log, length).await?;
    for behind in &options.behind {
        let came = store(pg.store.clone(), pg.log, *behind).await?;
        show(&mut table, *behind, "PostgreSQL store, sealed", came);
    }
    pg.close().await;
    drop(cluster);

    if let Some(program) = &options.nats_server {
        let folder = setting.path().join("jetstream");
        let server = Server::start(program, folder, Sync::Later).await?;
        server.fill(length).await?;
        for behind in &options.behind {
            let came = jetstream(&server, length, *behind).await?;
            show(&mut table, *behind, "JetStream", came);
        }
    }
    table.note(
        "From the key: it is checked, then pages are read until the tail, each payload opened and decoded to an event; \
         the stores then wait for one live event as a check. Over gRPC: the stream of the api and its client, in one \
         process that shares the processors. JetStream: a new ordered consumer with the crate's \
         defaults. Memory is this process's; for JetStream the server's.",
    );
    Ok(table)
}

async fn store(store: Arc<dyn Store>, log: LogId, behind: u64) -> anyhow::Result<Came> {
    let (mut live, mut took) = (Samples::default(), Vec::new());
    let (mut grown_kb, times) = (0, times(behind));
    for _ in 0..times {
        let tail = store.tail(log)?.pos;
        let pos = tail.saturating_sub(behind);
        let key = OffsetKey::new(log, pos, store.chain_at(log, pos).await?);
        let before = host::resident_kb();
        let start = Instant::now();
        let after = store.resume(log, &key).await?;
        let mut follower = Follower::new(store.clone(), log, after)?;
        while follower.position() < tail {
            for event in follower.poll().await?.events {
                ensure!(event.payload()?.is_some(), "a payload is missing");
            }
        }
        let one = start.elapsed();
        grown_kb = grown_kb.max(host::resident_kb().saturating_sub(before));
        took.push(one.as_secs_f64());
        live.push(one);
        let event = append(vec![new_event(StreamName::new("exec/live")?)?]);
        let (page, appended) = tokio::join!(follower.next(), store.append(log, event));
        let last = page?.events.last().map_or(0, |event| event.pos);
        ensure!(
            last == appended?.range().last,
            "the live event did not come"
        );
    }
    Ok(came(live, took, behind, grown_kb))
}

async fn served(store: Arc<dyn Store>, log: LogId, behind: u64) -> anyhow::Result<Came> {
    let served = Served::start(store.clone(), log).await?;
    let mut client = served.connect().await?;
    let (mut live, mut took) = (Samples::default(), Vec::new());
    let mut grown_kb = 0;
    for _ in 0..times(behind) {
        let pos = store.tail(log)?.pos.saturating_sub(behind);
        let key = OffsetKey::new(log, pos, store.chain_at(log, pos).await?).to_string();
        let before = host::resident_kb();
        let start = Instant::now();
        served::read(&mut client, &key, behind).await?;
        let one = start.elapsed();
        grown_kb = grown_kb.max(host::resident_kb().saturating_sub(before));
        took.push(one.as_secs_f64());
        live.push(one);
    }
    Ok(came(live, took, behind, grown_kb))
}

async fn jetstream(server: &Server, length: u64, behind: u64) -> anyhow::Result<Came> {
    let (mut live, mut took) = (Samples::default(), Vec::new());
    let mut grown_kb = 0;
    for _ in 0..times(behind) {
        let before = server.resident_kb();
        let start = Instant::now();
        server.read(length - behind, behind).await?;
        let one = start.elapsed();
        grown_kb = grown_kb.max(server.resident_kb().saturating_sub(before));
        took.push(one.as_secs_f64());
        live.push(one);
    }
    Ok(came(live, took, behind, grown_kb))
}

fn came(live: Samples, took: Vec<f64>, behind: u64, grown_kb: u64) -> Came {
    let median = Duration::from_secs_f64(samples::median(took));
    let rate = samples::float(behind) / median.as_secs_f64();
    Came {
        live,
        rate,
        grown_kb,
    }
}

fn times(behind: u64) -> u32 {
    if behind <= SHORT { OFTEN } else { SELDOM }
}

fn show(table: &mut Table, behind: u64, who: &str, came: Came) {
    table.row(vec![
        behind.to_string(),
        who.to_owned(),
        came.live.show(50),
        came.live.show(95),
        samples::rate(came.rate),
        format!("{} MB", came.grown_kb / 1024),
    ]);
}
