//! A PostgreSQL for this run: the store in it, and the same rows without the store.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use cocoonbox_events::{LogId, Store, StreamName, SystemClock, SystemIds, record::Prepared};
use cocoonbox_events_postgres::{Database, Options, PgStore};
use cocoonbox_postgres::Cluster;
use sqlx::{Connection, PgConnection, Row};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::{
    log::{
        append::Run,
        setting::{OneKey, PAYLOAD_BYTES, append, new_event, new_log},
    },
    samples::{self, Samples},
};

/// Prepared rows that are inserted in turn, so that no time goes into making them.
const ROWS: usize = 1_024;

/// A store in a database of its own.
pub(crate) struct Pg {
    pub(crate) store: Arc<PgStore>,
    pub(crate) log: LogId,
    database: Database,
    url: String,
}

impl Pg {
    pub(crate) async fn new(cluster: &Cluster) -> anyhow::Result<Self> {
        let url = cluster.database()?;
        let database = Database::connect(&Options::new(url.clone())).await?;
        let (clock, ids) = (Arc::new(SystemClock), Arc::new(SystemIds));
        let store = PgStore::open(&database, Arc::new(OneKey), clock, ids).await?;
        let log = store.open(new_log()).await?.log;
        Ok(Self {
            store: Arc::new(store),
            log,
            database,
            url,
        })
    }

    /// How many transactions have written events: each leaves its number on its rows.
    pub(crate) async fn transactions(&self) -> anyhow::Result<u64> {
        let mut conn = PgConnection::connect(&self.url).await?;
        let count = "SELECT count(DISTINCT xmin::text) FROM cocoonbox.event";
        let count: i64 = sqlx::query(count).fetch_one(&mut conn).await?.get(0);
        conn.close().await?;
        Ok(u64::try_from(count)?)
    }

    pub(crate) async fn close(self) {
        self.store.close().await;
        self.database.close().await;
    }
}

/// The same rows into the store's own tables, `mean_batch` at a time, from one connection: events and
/// commands by one statement each, the heads of the streams and of the log by one more each, in one
/// transaction. Nothing is looked up, nothing is expected, nobody is answered.
pub(crate) async fn batched(
    cluster: &Cluster,
    streams: usize,
    mean_batch: f64,
    span: Duration,
) -> anyhow::Result<f64> {
    let made = Pg::new(cluster).await?;
    let (url, log) = (made.url.clone(), made.log.0);
    made.close().await;
    let mut conn = PgConnection::connect(&url).await?;
    let rows = rows()?;
    let names: Vec<String> = (0..streams)
        .map(|stream| format!("exec/{stream}"))
        .collect();
    let ids: Vec<i64> = (1..).take(streams).collect();
    sqlx::query(
        "INSERT INTO cocoonbox.stream (log_id, stream_id, name, head_seq)
         SELECT $1, id, name, 0 FROM unnest($2::bigint[], $3::text[]) AS s(id, name)",
    )
    .bind(log)
    .bind(&ids)
    .bind(&names)
    .execute(&mut conn)
    .await?;
    let mut heads = vec![0_i64; streams];
    let (mut pos, mut owed) = (0_i64, 0.0);
    let start = Instant::now();
    while start.elapsed() < span {
        owed += mean_batch.max(1.0);
        let mut batch = Batch::default();
        while owed >= 1.0 {
            owed -= 1.0;
            pos += 1;
            let index = usize::try_from(pos)?;
            let stream = index % streams;
            heads[stream] += 1;
            batch.push(pos, ids[stream], heads[stream], &rows[index % ROWS]);
        }
        batch.write(&mut conn, log).await?;
    }
    let rate = samples::float(u64::try_from(pos)?) / start.elapsed().as_secs_f64();
    conn.close().await?;
    Ok(rate)
}

/// What everybody writes first: a table with a sequence, one row a statement, a connection a writer.
pub(crate) async fn plain(
    cluster: &Cluster,
    writers: usize,
    span: Duration,
) -> anyhow::Result<Run> {
    let url = cluster.database()?;
    let table = "CREATE TABLE event (id bigserial PRIMARY KEY, stream text NOT NULL, payload bytea NOT NULL)";
    cluster.run_sql(&url, table)?;
    let mut tasks = JoinSet::new();
    let mut connections = Vec::new();
    for _ in 0..writers {
        connections.push(PgConnection::connect(&url).await?);
    }
    let start = Instant::now();
    for (writer, mut conn) in connections.into_iter().enumerate() {
        tasks.spawn(async move {
            let mut acks = Samples::default();
            let stream = format!("exec/{writer}");
            let mut payload = vec![0_u8; PAYLOAD_BYTES];
            while start.elapsed() < span {
                getrandom::fill(&mut payload).map_err(|error| anyhow::anyhow!("{error}"))?;
                let sent = Instant::now();
                sqlx::query("INSERT INTO event (stream, payload) VALUES ($1, $2)")
                    .bind(&stream)
                    .bind(&payload)
                    .execute(&mut conn)
                    .await?;
                acks.push(sent.elapsed());
            }
            conn.close().await?;
            anyhow::Ok(acks)
        });
    }
    let mut acks = Samples::default();
    while let Some(done) = tasks.join_next().await {
        acks.extend(done??);
    }
    let events = acks.len() as u64;
    Ok(Run {
        events,
        batches: events,
        took: start.elapsed(),
        acks,
    })
}

#[derive(Default)]
struct Batch {
    pos: Vec<i64>,
    stream: Vec<i64>,
    seq: Vec<i64>,
    kind: Vec<i64>,
    header: Vec<Vec<u8>>,
    body: Vec<Vec<u8>>,
    hash: Vec<Vec<u8>>,
    command: Vec<Uuid>,
}

impl Batch {
    fn push(&mut self, pos: i64, stream: i64, seq: i64, row: &Prepared) {
        self.pos.push(pos);
        self.stream.push(stream);
        self.seq.push(seq);
        self.kind.push(i64::from(row.kind));
        self.header.push(row.header.to_vec());
        // As long as a sealed body: a nonce and a tag around salt and payload.
        let mut body = vec![0; 41];
        body.extend_from_slice(&row.body.salt);
        body.extend_from_slice(&row.body.payload);
        self.body.push(body);
        self.hash.push(row.payload_hash.0.to_vec());
        self.command.push(Uuid::now_v7());
    }

    async fn write(&self, conn: &mut PgConnection, log: Uuid) -> anyhow::Result<()> {
        let mut tx = conn.begin().await?;
        sqlx::query(
            "INSERT INTO cocoonbox.event (log_id, pos, stream_id, seq, kind, version, recorded_us, header,
               body, payload_hash, chain)
             SELECT $1, pos, stream, seq, kind, 1, pos, header, body, hash, hash
             FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bytea[], $7::bytea[],
               $8::bytea[]) AS e(pos, stream, seq, kind, header, body, hash)",
        )
        .bind(log)
        .bind(&self.pos)
        .bind(&self.stream)
        .bind(&self.seq)
        .bind(&self.kind)
        .bind(&self.header)
        .bind(&self.body)
        .bind(&self.hash)
        .execute(&mut *tx)
        .await?;
        sqlx::query(
            "INSERT INTO cocoonbox.command (log_id, command_id, digest, first_pos, last_pos)
             SELECT $1, id, $4, pos, pos FROM unnest($2::uuid[], $3::bigint[]) AS c(id, pos)",
        )
        .bind(log)
        .bind(&self.command)
        .bind(&self.pos)
        .bind([0_u8; 32].as_slice())
        .execute(&mut *tx)
        .await?;
        sqlx::query(
            "UPDATE cocoonbox.stream s SET head_seq = h.seq
             FROM (SELECT stream, max(seq) AS seq FROM unnest($2::bigint[], $3::bigint[]) AS e(stream, seq)
                   GROUP BY stream) h
             WHERE s.log_id = $1 AND s.stream_id = h.stream",
        )
        .bind(log)
        .bind(&self.stream)
        .bind(&self.seq)
        .execute(&mut *tx)
        .await?;
        let last = self.pos.last().copied().unwrap_or_default();
        sqlx::query("UPDATE cocoonbox.log SET tail = $2, recorded_us = $2 WHERE log_id = $1")
            .bind(log)
            .bind(last)
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(())
    }
}

fn rows() -> anyhow::Result<Vec<Prepared>> {
    (0..ROWS)
        .map(|_| {
            let event = new_event(StreamName::new("exec/0")?)?;
            Ok(append(vec![event]).prepare(&SystemIds)?.remove(0))
        })
        .collect()
}
