//! The same rows into the same tables by a plain loop: the most that this SQLite on this disk gives.

use std::time::{Duration, Instant};

use anyhow::ensure;
use cocoonbox_events::{LogId, StreamName, SystemIds, record::Prepared};
use rusqlite::{Connection, params};
use uuid::Uuid;

use crate::{
    log::setting::{Lying, Setting, append, new_event},
    samples,
};

/// Prepared rows that are inserted in turn, so that no time goes into making them.
const ROWS: usize = 1_024;
/// The pragmas of the store's write connection.
const PRAGMAS: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
    PRAGMA wal_autocheckpoint = 4000; PRAGMA journal_size_limit = 67108864;
    PRAGMA cache_size = -32768; PRAGMA mmap_size = 0; PRAGMA foreign_keys = ON;
    PRAGMA trusted_schema = OFF; PRAGMA secure_delete = ON;";

/// Returns events per second with transactions of `mean_batch` events on average.
pub(crate) async fn run(
    setting: &Setting,
    streams: usize,
    mean_batch: f64,
    span: Duration,
) -> anyhow::Result<f64> {
    // The store makes the file, so the tables, indexes and triggers cannot differ.
    let measured = setting.store(Lying::Open).await?;
    let (path, log) = (measured.path.clone(), measured.log);
    measured.store.close().await;
    let insert = move || insert(&path, log, streams, mean_batch, span);
    let rate = tokio::task::spawn_blocking(insert).await??;
    measured.remove().await;
    Ok(rate)
}

fn insert(
    path: &std::path::Path,
    log: LogId,
    streams: usize,
    mean_batch: f64,
    span: Duration,
) -> anyhow::Result<f64> {
    let names: Vec<String> = (0..streams)
        .map(|stream| format!("exec/{stream}"))
        .collect();
    let rows = rows(&names)?;
    let connection = Connection::open(path)?;
    connection.execute_batch(PRAGMAS)?;
    let full: i64 = connection.pragma_query_value(None, "synchronous", |row| row.get(0))?;
    ensure!(full == 2, "synchronous is {full} after it was set to FULL");
    let log_no: i64 = connection.query_row(
        "SELECT log_no FROM log WHERE log_id = ?1",
        [log.as_bytes().as_slice()],
        |row| row.get(0),
    )?;
    let mut begin = connection.prepare("BEGIN IMMEDIATE")?;
    let mut commit = connection.prepare("COMMIT")?;
    let mut put_event = connection.prepare(
        "INSERT INTO event (event_no, stream_id, seq, kind, version, recorded_us, header, body,
           payload_hash, chain) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?;
    let mut put_command = connection.prepare(
        "INSERT INTO command (log_no, command_id, digest, first_pos, last_pos, recorded_us)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING",
    )?;
    let mut put_head = connection.prepare(
        "INSERT INTO stream (stream_id, log_no, name, head_seq, head_pos)
         VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (stream_id) DO UPDATE SET head_seq = ?4, head_pos = ?5",
    )?;
    let mut heads = vec![(0_i64, 0_i64); streams];
    let mut pos = 0_i64;
    let mut owed = 0.0;
    let start = Instant::now();
    while start.elapsed() < span {
        owed += mean_batch.max(1.0);
        let mut touched = Vec::new();
        begin.execute([])?;
        while owed >= 1.0 {
            owed -= 1.0;
            pos += 1;
            let index = usize::try_from(pos)?;
            let stream = index % streams;
            let row = &rows[index % ROWS];
            heads[stream] = (heads[stream].0 + 1, pos);
            touched.push(stream);
            let stream_id = i64::try_from(stream)? + 1;
            put_event.execute(params![
                // Like the store: the log's number above forty bits of position.
                (log_no << 40) | pos,
                stream_id,
                heads[stream].0,
                row.event.kind,
                row.event.version,
                pos,
                &row.event.header[..],
                &row.body[..],
                row.event.payload_hash.0.as_slice(),
                row.event.payload_hash.0.as_slice(),
            ])?;
            let command = Uuid::now_v7();
            put_command.execute(params![
                log_no,
                command.as_bytes().as_slice(),
                [0_u8; 32].as_slice(),
                pos,
                pos,
                pos
            ])?;
        }
        touched.sort_unstable();
        touched.dedup();
        for stream in touched {
            let (seq, at) = heads[stream];
            put_head.execute(params![
                i64::try_from(stream)? + 1,
                log_no,
                names[stream],
                seq,
                at
            ])?;
        }
        commit.execute([])?;
    }
    let rate = samples::float(u64::try_from(pos)?) / start.elapsed().as_secs_f64();
    Ok(rate)
}

struct Row {
    event: Prepared,
    /// As the store lays an open body: a zero, the salt, the payload.
    body: Vec<u8>,
}

fn rows(names: &[String]) -> anyhow::Result<Vec<Row>> {
    (0..ROWS)
        .map(|index| {
            let stream = StreamName::new(names[index % names.len()].clone())?;
            let mut prepared = append(vec![new_event(stream)?]).prepare(&SystemIds)?;
            let event = prepared.remove(0);
            let mut body = vec![0];
            body.extend_from_slice(&event.body.salt);
            body.extend_from_slice(&event.body.payload);
            Ok(Row { event, body })
        })
        .collect()
}
