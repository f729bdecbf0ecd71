//! A log of years: opened, and paged anywhere.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::ensure;
use cocoonbox_events::{
    NoKeys, SqliteStore, Store, StreamName, SystemClock, SystemIds,
    chain::{ChainHash, Link},
};
use rusqlite::{Connection, params};

use crate::{
    log::setting::{Lying, Setting, append, new_event},
    samples::Samples,
    table::Table,
};

const STREAMS: i64 = 64;
/// Distinct events, written over and over.
const ROWS: usize = 1_024;
const BATCH: u64 = 20_000;
const PAGES: usize = 500;
const PAGE_EVENTS: usize = 100;

pub(crate) async fn run(setting: &Setting, events: u64) -> anyhow::Result<Table> {
    let measured = setting.store(Lying::Open).await?;
    let (path, log) = (measured.path.clone(), measured.log);
    let genesis = measured.store.tail(log)?.chain;
    measured.store.close().await;
    drop(measured.store);
    let write = {
        let path = path.clone();
        move || write(&path, genesis, events)
    };
    tokio::task::spawn_blocking(write).await??;

    let mut opened = Samples::default();
    for _ in 0..5 {
        let start = Instant::now();
        let store = open(&path)?;
        ensure!(store.tail(log)?.pos == events, "the log is not whole");
        opened.push(start.elapsed());
        store.close().await;
    }
    let store = open(&path)?;
    let mut pages = Samples::default();
    for _ in 0..PAGES {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).map_err(|error| anyhow::anyhow!("random source: {error}"))?;
        let after = u64::from_le_bytes(bytes) % events.saturating_sub(PAGE_EVENTS as u64).max(1);
        let start = Instant::now();
        let page = store.read(log, after, PAGE_EVENTS).await?;
        pages.push(start.elapsed());
        ensure!(
            page.events
                .first()
                .is_some_and(|event| event.pos == after + 1),
            "another page"
        );
    }
    store.close().await;
    drop(store);
    let size = std::fs::metadata(&path)?.len() / (1 << 20);
    for suffix in ["", "-wal", "-shm", ".lock"] {
        let mut file = path.clone().into_os_string();
        file.push(suffix);
        drop(std::fs::remove_file(file));
    }
    let mut table = Table::new(
        format!("A log of {events} events"),
        &[
            "file",
            "open p50",
            "open worst",
            "page p50",
            "page p99",
            "page worst",
        ],
    );
    table.row(vec![
        format!("{size} MB"),
        opened.show(50),
        opened.show(100),
        pages.show(50),
        pages.show(99),
        pages.show(100),
    ]);
    table.note(format!(
        "{PAGES} pages of {PAGE_EVENTS} events at random positions, through the store. The events were put into the file by \
         SQL with a true chain, without their commands.",
    ));
    Ok(table)
}

fn open(path: &std::path::Path) -> anyhow::Result<SqliteStore> {
    let (clock, ids) = (Arc::new(SystemClock), Arc::new(SystemIds));
    Ok(SqliteStore::open(path, Arc::new(NoKeys), clock, ids)?)
}

/// Writes the rows with the chain that the store would have made.
fn write(path: &std::path::Path, genesis: ChainHash, events: u64) -> anyhow::Result<()> {
    let connection = Connection::open(path)?;
    connection.execute_batch("PRAGMA synchronous = OFF; PRAGMA cache_size = -262144;")?;
    connection.busy_timeout(Duration::from_secs(5))?;
    let log_no: i64 = connection.query_row("SELECT log_no FROM log", [], |row| row.get(0))?;
    let names: Vec<String> = (0..STREAMS)
        .map(|stream| format!("exec/{stream}"))
        .collect();
    let mut rows = Vec::with_capacity(ROWS);
    for _ in 0..ROWS {
        let event = new_event(StreamName::new("exec/0")?)?;
        rows.push(append(vec![event]).prepare(&SystemIds)?.remove(0));
    }
    let mut put = connection.prepare(
        "INSERT INTO event (event_no, stream_id, seq, kind, version, recorded_us, header, body,
           payload_hash, chain) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?;
    let (mut chain, mut body) = (genesis, Vec::new());
    connection.execute_batch("BEGIN")?;
    for pos in 1..=events {
        let at = i64::try_from(pos)?;
        let (stream, seq) = ((at - 1) % STREAMS, (at - 1) / STREAMS + 1);
        let row = &rows[usize::try_from(pos)? % ROWS];
        chain = chain.next(&Link {
            pos,
            stream: &names[usize::try_from(stream)?],
            seq: u64::try_from(seq)?,
            kind: row.kind,
            version: row.version,
            recorded_us: at,
            header: &row.header,
            payload_hash: row.payload_hash,
        });
        body.clear();
        body.push(0);
        body.extend_from_slice(&row.body.salt);
        body.extend_from_slice(&row.body.payload);
        put.execute(params![
            (log_no << 40) | at,
            stream + 1,
            seq,
            row.kind,
            row.version,
            at,
            &row.header[..],
            &body[..],
            row.payload_hash.0.as_slice(),
            chain.0.as_slice(),
        ])?;
        if pos % BATCH == 0 {
            connection.execute_batch("COMMIT; BEGIN")?;
        }
    }
    drop(put);
    for (stream, name) in (0..STREAMS).zip(&names) {
        let count = i64::try_from(events)?;
        let seq = (count - stream + STREAMS - 1) / STREAMS;
        let head = (seq - 1) * STREAMS + stream + 1;
        connection.execute(
            "INSERT INTO stream (stream_id, log_no, name, head_seq, head_pos) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![stream + 1, log_no, name, seq, head],
        )?;
    }
    connection.execute_batch("COMMIT; PRAGMA wal_checkpoint(TRUNCATE);")?;
    Ok(())
}
