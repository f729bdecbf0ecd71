//! Rows: how events and logs lie in the tables.

use std::collections::HashMap;

use bytes::Bytes;
use cocoonbox_events::{
    ChainHash, Checkpoint, Happened, LogId, LogKind, NewLog, Parent, PayloadHash, ReadError,
    Recorded, StreamName, replica::End, store::Range,
};
use sqlx::{Row, postgres::PgRow};
use uuid::Uuid;

use super::directory::{Log, LogRow};

/// Raised with every change that an older build would not understand.
pub(crate) const FORMAT: i32 = 1;

macro_rules! log_columns {
    ($rest:literal) => {
        concat!(
            "SELECT log_id, kind, owner, parent_log, parent_pos, parent_chain, key_check, tail,
                    chain, recorded_us, moved_to FROM cocoonbox.log ",
            $rest
        )
    };
}

pub(crate) const SELECT_LOG: &str = log_columns!("WHERE log_id = $1");
pub(crate) const SELECT_LOGS: &str = log_columns!("WHERE log_id = ANY($1)");
/// A parent is made before its branch: ids and times are no order, this is.
pub(crate) const SELECT_ALL_LOGS: &str = log_columns!("");
pub(crate) const SELECT_MOVED_LOGS: &str =
    log_columns!("WHERE touched_at >= clock_timestamp() - $1 * interval '1 second'");

/// A body that is longer is asked for by itself, once it is known that the page has room for it.
macro_rules! event_columns {
    ($name:literal, $from:literal) => {
        concat!(
            "SELECT e.pos, e.seq, e.kind, e.version, e.recorded_us, e.header, e.payload_hash, e.chain,
                    CASE WHEN octet_length(e.body) <= 1000 THEN e.body END, octet_length(e.body)::bigint,
                    e.stream_id, ",
            $name,
            " FROM ",
            $from
        )
    };
}

/// `(log, after, up to, limit)`
pub(crate) const SELECT_AFTER: &str = event_columns!(
    "NULL::text",
    "cocoonbox.event e WHERE e.log_id = $1 AND e.pos > $2 AND e.pos <= $3 ORDER BY e.pos LIMIT $4"
);
/// The same with the names of their streams: one round trip, and twice the work for a long page.
pub(crate) const SELECT_AFTER_NAMED: &str = event_columns!(
    "s.name",
    "(SELECT * FROM cocoonbox.event WHERE log_id = $1 AND pos > $2 AND pos <= $3 ORDER BY pos
      LIMIT $4) e
     LEFT JOIN cocoonbox.stream s ON s.log_id = $1 AND s.stream_id = e.stream_id ORDER BY e.pos"
);
/// `(log, after, up to position, limit, stream)`
pub(crate) const SELECT_STREAM: &str = event_columns!(
    "$5::text",
    "cocoonbox.event e WHERE e.log_id = $1 AND e.seq > $2 AND e.pos <= $3 AND e.stream_id =
     (SELECT stream_id FROM cocoonbox.stream WHERE log_id = $1 AND name = $5)
     ORDER BY e.seq LIMIT $4"
);
// One look-up for each thing asked about, whatever the server believes of the tables: before they are
// analysed it takes a log for short, reads all of its rows and throws away those that were not asked about,
// with `= ANY` and with a join alike. `LIMIT` keeps a look-up from becoming a join.

/// `(log, stream ids)`
pub(crate) const SELECT_NAMES: &str =
    "SELECT asked.id, s.name FROM unnest($2::bigint[]) AS asked(id) CROSS JOIN LATERAL (
       SELECT name FROM cocoonbox.stream WHERE log_id = $1 AND stream_id = asked.id LIMIT 1) s";
/// `(log, positions)`
pub(crate) const SELECT_BODIES: &str =
    "SELECT asked.pos, e.body FROM unnest($2::bigint[]) AS asked(pos) CROSS JOIN LATERAL (
       SELECT body FROM cocoonbox.event WHERE log_id = $1 AND pos = asked.pos LIMIT 1) e";

/// `(log, command ids)`
pub(crate) const SELECT_COMMANDS: &str =
    "SELECT asked.id, c.digest, c.first_pos, c.last_pos, e.chain
     FROM unnest($2::uuid[]) AS asked(id) CROSS JOIN LATERAL (
       SELECT * FROM cocoonbox.command WHERE log_id = $1 AND command_id = asked.id LIMIT 1) c
     LEFT JOIN LATERAL (
       SELECT chain FROM cocoonbox.event WHERE log_id = $1 AND pos = c.last_pos LIMIT 1) e ON true";

/// `(log, names)`
pub(crate) const SELECT_HEADS: &str = "SELECT asked.name, s.stream_id, s.head_seq
     FROM unnest($2::text[]) AS asked(name) CROSS JOIN LATERAL (
       SELECT * FROM cocoonbox.stream WHERE log_id = $1 AND name = asked.name LIMIT 1) s";

/// Heads as they were at a position: `(log, names, position)`
pub(crate) const SELECT_HEADS_AT: &str =
    "SELECT asked.name, h.seq FROM unnest($2::text[]) AS asked(name) CROSS JOIN LATERAL (
       SELECT * FROM cocoonbox.stream WHERE log_id = $1 AND name = asked.name LIMIT 1) s
     CROSS JOIN LATERAL (
       SELECT e.seq FROM cocoonbox.event e
       WHERE e.log_id = $1 AND e.stream_id = s.stream_id AND e.pos <= $3
       ORDER BY e.seq DESC LIMIT 1) h";

/// The columns of [`event_columns`] with nothing in the body's place.
macro_rules! bodiless {
    ($from:literal) => {
        concat!(
            "SELECT e.pos, e.seq, e.kind, e.version, e.recorded_us, e.header, e.payload_hash, e.chain,
                    NULL::bytea, NULL::bigint, e.stream_id, s.name
             FROM ",
            $from,
            " CROSS JOIN LATERAL (
               SELECT name FROM cocoonbox.stream
               WHERE log_id = $1 AND stream_id = e.stream_id LIMIT 1) s ORDER BY e.pos"
        )
    };
}

/// For comparing, so without bodies: `(log, first, last)`
pub(crate) const SELECT_HELD: &str =
    bodiless!("(SELECT * FROM cocoonbox.event WHERE log_id = $1 AND pos BETWEEN $2 AND $3) e");
/// For what their headers say, so without bodies: `(log, positions)`
pub(crate) const SELECT_AT: &str = bodiless!(
    "unnest($2::bigint[]) AS asked(pos) CROSS JOIN LATERAL (
       SELECT * FROM cocoonbox.event WHERE log_id = $1 AND pos = asked.pos LIMIT 1) e"
);

pub(crate) const SELECT_CHAIN: &str =
    "SELECT chain FROM cocoonbox.event WHERE log_id = $1 AND pos = $2";

/// Positions, sequence numbers and counts are far below 2^63.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(crate) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

pub(crate) fn kind_number(kind: LogKind) -> i32 {
    match kind {
        LogKind::System => 1,
        LogKind::Account => 2,
        LogKind::Box => 3,
    }
}

fn kind_from_number(number: i32) -> Option<LogKind> {
    match number {
        1 => Some(LogKind::System),
        2 => Some(LogKind::Account),
        3 => Some(LogKind::Box),
        _ => None,
    }
}

/// Reads a row of [`log_columns`]; `Ok(None)` if it cannot be what was written.
pub(crate) fn log(row: &PgRow) -> Result<Option<LogRow>, sqlx::Error> {
    let id = LogId(row.try_get(0)?);
    let kind = kind_from_number(row.try_get(1)?);
    let owner = row.try_get(2)?;
    let parent_log: Option<Uuid> = row.try_get(3)?;
    let parent_pos: Option<i64> = row.try_get(4)?;
    let parent_chain: Option<&[u8]> = row.try_get(5)?;
    let key_check: Option<&[u8]> = row.try_get(6)?;
    let (tail, chain): (i64, &[u8]) = (row.try_get(7)?, row.try_get(8)?);
    let recorded_us = row.try_get(9)?;
    let moved_to: Option<Uuid> = row.try_get(10)?;
    Ok((|| {
        let parent = match (parent_log, parent_pos, parent_chain) {
            (Some(log), Some(pos), Some(chain)) => Some(Parent {
                log: LogId(log),
                pos: unsigned(pos),
                chain: ChainHash::from_slice(chain)?,
            }),
            _ => None,
        };
        let key_check = match key_check {
            Some(check) => Some(check.try_into().ok()?),
            None => None,
        };
        Some(LogRow {
            opened: NewLog {
                id,
                kind: kind?,
                owner,
                parent,
            },
            key_check,
            end: End {
                pos: unsigned(tail),
                chain: ChainHash::from_slice(chain)?,
                recorded_us,
            },
            moved_to: moved_to.map(LogId),
        })
    })())
}

/// Reads a row of [`event_columns`] without its body; a stream that is not named there has a name in
/// `names`.
pub(crate) fn event(
    log: LogId,
    row: &PgRow,
    names: &HashMap<i64, StreamName>,
) -> Result<Recorded, ReadError> {
    let pos = pos(row)?;
    let damaged = |what| ReadError::Damaged { pos, what };
    let number = |index, what| {
        let number: i64 = row.try_get_unchecked(index).map_err(io)?;
        u32::try_from(number).map_err(|_| damaged(what))
    };
    let bytes = |index| row.try_get_unchecked::<&[u8], _>(index).map_err(io);
    let stream = match names.get(&stream_id(row)?) {
        Some(name) => name.clone(),
        None => {
            let name: Option<&str> = row.try_get_unchecked(11).map_err(io)?;
            let name = name.ok_or(damaged("its stream is missing"))?;
            StreamName::new(name).map_err(|_| damaged("stream name"))?
        }
    };
    Ok(Recorded {
        log,
        pos,
        stream,
        seq: unsigned(row.try_get_unchecked(1).map_err(io)?),
        kind: number(2, "kind")?,
        version: number(3, "version")?,
        recorded_us: row.try_get_unchecked(4).map_err(io)?,
        header: Bytes::copy_from_slice(bytes(5)?),
        body: None,
        payload_hash: PayloadHash::from_slice(bytes(6)?).ok_or(damaged("payload hash"))?,
        chain: ChainHash::from_slice(bytes(7)?).ok_or(damaged("chain"))?,
    })
}

/// Reads a row that names its stream.
pub(crate) fn named(log: LogId, row: &PgRow) -> Result<Recorded, ReadError> {
    event(log, row, &HashMap::new())
}

fn pos(row: &PgRow) -> Result<u64, ReadError> {
    row.try_get_unchecked(0).map(unsigned).map_err(io)
}

/// The body of a row of [`event_columns`], if it is short.
pub(crate) fn body(row: &PgRow) -> Result<Option<Vec<u8>>, ReadError> {
    row.try_get_unchecked(8).map_err(io)
}

/// How long the body is; `None` once it is erased.
pub(crate) fn body_bytes(row: &PgRow) -> Result<Option<usize>, ReadError> {
    let bytes: Option<i64> = row.try_get_unchecked(9).map_err(io)?;
    Ok(bytes.map(|bytes| usize::try_from(bytes).unwrap_or(0)))
}

pub(crate) fn stream_id(row: &PgRow) -> Result<i64, ReadError> {
    row.try_get_unchecked(10).map_err(io)
}

/// Reads a row of [`SELECT_COMMANDS`] of this log.
pub(crate) fn command(row: &PgRow, log: &Log) -> Result<(Uuid, Option<Happened>), sqlx::Error> {
    let id = row.try_get(0)?;
    let digest: Option<&[u8]> = row.try_get(1)?;
    let (first, last): (i64, i64) = (row.try_get(2)?, row.try_get(3)?);
    let chain: Option<&[u8]> = row.try_get(4)?;
    let chain = match chain {
        Some(chain) => ChainHash::from_slice(chain),
        // One that was remembered in an empty log has no event there.
        None => (unsigned(last) == log.base()).then_some(log.genesis),
    };
    let happened = chain.map(|chain| Happened {
        // One that is not 32 bytes is of no command that anybody repeats.
        digest: digest.map(|digest| digest.try_into().unwrap_or([0; 32])),
        range: Range {
            first: unsigned(first),
            last: unsigned(last),
            chain,
        },
    });
    Ok((id, happened))
}

pub(crate) fn checkpoint(row: &PgRow) -> Result<Checkpoint, ReadError> {
    let size = unsigned(row.try_get(0).map_err(io)?);
    let chain: &[u8] = row.try_get(1).map_err(io)?;
    Ok(Checkpoint {
        size,
        chain: ChainHash::from_slice(chain).ok_or(ReadError::Damaged {
            pos: size,
            what: "checkpoint",
        })?,
        note: row.try_get(2).map_err(io)?,
    })
}

pub(crate) fn io(error: sqlx::Error) -> ReadError {
    ReadError::Io(Box::new(error))
}
