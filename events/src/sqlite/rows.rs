//! Rows: how events and logs lie in the tables.

use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::{
    chain::{ChainHash, PayloadHash, Verifier},
    id::{CommandId, LogId, StreamName},
    record::Recorded,
    replica::End,
    store::{Happened, LogKind, NewLog, Range},
};

/// A row id is `log_no << POS_BITS | pos`: a log's events lie together, in order, without another index.
const POS_BITS: u32 = 40;

/// Every query for events selects these, so that one function reads them.
macro_rules! event_columns {
    ($rest:literal) => {
        concat!(
            "SELECT e.event_no, e.seq, e.kind, e.version, e.recorded_us, e.header, e.payload_hash,
                    e.chain, e.body, s.name ",
            $rest
        )
    };
}

// CROSS JOIN keeps the event table outside: one look-up of a name per event, and no sort.
pub(super) const SELECT_AFTER: &str = event_columns!(
    "FROM event e CROSS JOIN stream s ON s.stream_id = e.stream_id
     WHERE e.event_no > ?1 AND e.event_no < ?2 ORDER BY e.event_no LIMIT ?3"
);
pub(super) const SELECT_STREAM: &str = event_columns!(
    "FROM stream s CROSS JOIN event e ON e.stream_id = s.stream_id
     WHERE s.log_no = ?1 AND s.name = ?2 AND e.seq > ?3 ORDER BY e.seq LIMIT ?4"
);
const SELECT_ONE: &str = event_columns!(
    "FROM event e CROSS JOIN stream s ON s.stream_id = e.stream_id WHERE e.event_no = ?1"
);

/// An event as it is stored: its body sealed.
pub(super) struct Stored {
    /// With no body.
    pub(super) event: Recorded,
    pub(super) body: Option<Vec<u8>>,
}

/// Why a row cannot be what was written.
#[derive(Debug)]
pub(super) enum RowError {
    Sqlite(rusqlite::Error),
    Damaged { pos: u64, what: &'static str },
}

impl From<rusqlite::Error> for RowError {
    fn from(source: rusqlite::Error) -> Self {
        Self::Sqlite(source)
    }
}

/// A log as its row says, with the end that its events say.
pub(super) struct LogRow {
    pub(super) no: i64,
    pub(super) opened: NewLog,
    pub(super) key_check: Option<[u8; 8]>,
    pub(super) end: End,
}

pub(super) fn event_no(log_no: i64, pos: u64) -> i64 {
    (log_no << POS_BITS) | (signed(pos) & ((1 << POS_BITS) - 1))
}

/// The first row id that is behind every event of the log.
pub(super) fn event_no_end(log_no: i64) -> i64 {
    (log_no + 1) << POS_BITS
}

/// Positions, sequence numbers and counts are far below 2^63.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

pub(super) fn kind_number(kind: LogKind) -> i64 {
    match kind {
        LogKind::System => 1,
        LogKind::Account => 2,
        LogKind::Box => 3,
    }
}

fn kind_from_number(number: i64) -> Option<LogKind> {
    match number {
        1 => Some(LogKind::System),
        2 => Some(LogKind::Account),
        3 => Some(LogKind::Box),
        _ => None,
    }
}

/// Reads a row of [`event_columns`].
pub(super) fn stored(log: LogId, row: &Row<'_>) -> Result<Stored, RowError> {
    let pos = unsigned(row.get::<_, i64>(0)? & ((1 << POS_BITS) - 1));
    let damaged = |what| RowError::Damaged { pos, what };
    let blob = |index, what| row.get_ref(index)?.as_blob().map_err(|_| damaged(what));
    let name = row
        .get_ref(9)?
        .as_str()
        .map_err(|_| damaged("stream name"))?;
    let event = Recorded {
        log,
        pos,
        stream: StreamName::new(name).map_err(|_| damaged("stream name"))?,
        seq: unsigned(row.get(1)?),
        kind: row.get(2)?,
        version: row.get(3)?,
        recorded_us: row.get(4)?,
        header: bytes::Bytes::copy_from_slice(blob(5, "header")?),
        body: None,
        payload_hash: PayloadHash::from_slice(blob(6, "payload hash")?)
            .ok_or(damaged("payload hash"))?,
        chain: ChainHash::from_slice(blob(7, "chain")?).ok_or(damaged("chain"))?,
    };
    let body = row
        .get_ref(8)?
        .as_blob_or_null()
        .map_err(|_| damaged("body"))?;
    Ok(Stored {
        event,
        body: body.map(<[u8]>::to_vec),
    })
}

pub(super) fn event_at(
    conn: &Connection,
    log: LogId,
    log_no: i64,
    pos: u64,
) -> Result<Option<Recorded>, RowError> {
    let mut statement = conn.prepare_cached(SELECT_ONE)?;
    let mut rows = statement.query([event_no(log_no, pos)])?;
    rows.next()?
        .map(|row| stored(log, row).map(|stored| stored.event))
        .transpose()
}

pub(super) fn chain_at(conn: &Connection, log_no: i64, pos: u64) -> Result<ChainHash, RowError> {
    let mut statement = conn.prepare_cached("SELECT chain FROM event WHERE event_no = ?1")?;
    let bytes: Option<Vec<u8>> = statement
        .query_row([event_no(log_no, pos)], |row| row.get(0))
        .optional()?;
    let bytes = bytes.ok_or(RowError::Damaged {
        pos,
        what: "it is missing",
    })?;
    ChainHash::from_slice(&bytes).ok_or(RowError::Damaged { pos, what: "chain" })
}

/// Returns what a command wrote, if it happened.
pub(super) fn happened(
    conn: &Connection,
    log_no: i64,
    command: CommandId,
) -> rusqlite::Result<Option<Happened>> {
    let mut statement = conn.prepare_cached(
        "SELECT c.digest, c.first_pos, c.last_pos, e.chain FROM command c
         JOIN event e ON e.event_no = (?1 << 40) | c.last_pos
         WHERE c.log_no = ?1 AND c.command_id = ?2",
    )?;
    statement
        .query_row(params![log_no, command.as_bytes()], |row| {
            let chain = ChainHash(row.get(3)?);
            let (first, last) = (unsigned(row.get(1)?), unsigned(row.get(2)?));
            Ok(Happened {
                digest: row.get(0)?,
                range: Range { first, last, chain },
            })
        })
        .optional()
}

/// Reads every log and the end of each, and checks that the last event follows from the one before.
pub(super) fn logs(conn: &Connection) -> Result<Vec<LogRow>, RowError> {
    let mut statement = conn.prepare_cached(
        "SELECT log_no, log_id, kind, owner, parent_log, parent_pos, parent_chain, key_check
         FROM log ORDER BY log_no",
    )?;
    let mut rows = statement.query([])?;
    let mut logs = Vec::new();
    while let Some(row) = rows.next()? {
        let damaged = RowError::Damaged {
            pos: 0,
            what: "the log's own row",
        };
        let no: i64 = row.get(0)?;
        let Some(opened) = opened(row)? else {
            return Err(damaged);
        };
        let key_check = match row.get::<_, Option<Vec<u8>>>(7)? {
            Some(check) => Some(check.try_into().map_err(|_| damaged)?),
            None => None,
        };
        let end = end(conn, no, &opened)?;
        logs.push(LogRow {
            no,
            opened,
            key_check,
            end,
        });
    }
    Ok(logs)
}

fn opened(row: &Row<'_>) -> rusqlite::Result<Option<NewLog>> {
    let id: Vec<u8> = row.get(1)?;
    let kind = kind_from_number(row.get(2)?);
    let owner = row.get(3)?;
    let parent = match row.get::<_, Option<Vec<u8>>>(4)? {
        None => Some(None),
        Some(log) => {
            let chain: Vec<u8> = row.get(6)?;
            let pos = unsigned(row.get(5)?);
            LogId::from_slice(&log)
                .zip(ChainHash::from_slice(&chain))
                .map(|(log, chain)| Some((log, pos, chain)))
        }
    };
    Ok((|| {
        Some(NewLog {
            id: LogId::from_slice(&id)?,
            kind: kind?,
            owner,
            parent: parent?,
        })
    })())
}

fn end(conn: &Connection, log_no: i64, opened: &NewLog) -> Result<End, RowError> {
    let genesis = End::genesis(opened.id, opened.parent);
    let mut statement = conn.prepare_cached(
        "SELECT event_no FROM event WHERE event_no > ?1 AND event_no < ?2
         ORDER BY event_no DESC LIMIT 1",
    )?;
    let bounds = params![event_no(log_no, 0), event_no_end(log_no)];
    let last: Option<i64> = statement.query_row(bounds, |row| row.get(0)).optional()?;
    let Some(last) = last else { return Ok(genesis) };
    let pos = unsigned(last & ((1 << POS_BITS) - 1));
    let damaged = |what| RowError::Damaged { pos, what };
    let event = event_at(conn, opened.id, log_no, pos)?.ok_or(damaged("its stream is missing"))?;
    let before = if pos == 1 {
        genesis.chain
    } else {
        chain_at(conn, log_no, pos - 1)?
    };
    Verifier::after(pos - 1, before)
        .check(&event)
        .map_err(|_| damaged("chain"))?;
    Ok(End {
        pos,
        chain: event.chain,
        recorded_us: event.recorded_us,
    })
}
