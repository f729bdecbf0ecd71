//! Rows: how events and logs lie in the tables.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::directory::Log;
use crate::{
    chain::{ChainHash, PayloadHash, Verifier},
    id::{CommandId, LogId, StreamName},
    record::Recorded,
    replica::End,
    store::{Checkpoint, Happened, LogKind, NewLog, Parent, Range},
};

/// A row id is `log_no << POS_BITS | pos`: a log's events lie together, in order, without another index.
const POS_BITS: u32 = 40;

/// Every query for events selects these, so that one function reads them.
macro_rules! event_columns {
    ($rest:literal) => {
        concat!(
            "SELECT e.event_no, e.seq, e.kind, e.version, e.recorded_us, e.header, e.payload_hash,
                    e.chain, e.body, s.name, s.log_no ",
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
    pub(super) moved_to: Option<LogId>,
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
    let no: i64 = row.get(0)?;
    let pos = unsigned(no & ((1 << POS_BITS) - 1));
    let damaged = |what| RowError::Damaged { pos, what };
    // Read from its start the log has this event, read by stream it has not.
    if row.get::<_, i64>(10)? != no >> POS_BITS {
        return Err(damaged("its stream is another log's"));
    }
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
        kind: row.get(2).map_err(|_| damaged("kind"))?,
        version: row.get(3).map_err(|_| damaged("version"))?,
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

/// Returns sequence number and position of a stream's last event in this log up to position `to`.
pub(super) fn head_at(
    conn: &Connection,
    log_no: i64,
    stream: &StreamName,
    to: u64,
) -> rusqlite::Result<Option<(u64, u64)>> {
    let mut statement = conn.prepare_cached(
        "SELECT e.seq, e.event_no FROM stream s CROSS JOIN event e ON e.stream_id = s.stream_id
         WHERE s.log_no = ?1 AND s.name = ?2 AND e.event_no <= ?3 ORDER BY e.seq DESC LIMIT 1",
    )?;
    let to = event_no(log_no, to.min((1 << POS_BITS) - 1));
    statement
        .query_row(params![log_no, stream.as_str(), to], |row| {
            let pos = unsigned(row.get::<_, i64>(1)? & ((1 << POS_BITS) - 1));
            Ok((unsigned(row.get(0)?), pos))
        })
        .optional()
}

/// Keeps a checkpoint, unless one of that size is there.
pub(super) fn keep_checkpoint(
    conn: &Connection,
    log_no: i64,
    checkpoint: &Checkpoint,
) -> rusqlite::Result<()> {
    conn.prepare_cached(
        "INSERT INTO checkpoint (log_no, size, chain, note) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT DO NOTHING",
    )?
    .execute(params![
        log_no,
        signed(checkpoint.size),
        checkpoint.chain.0,
        checkpoint.note
    ])?;
    Ok(())
}

pub(super) fn checkpoints(
    conn: &Connection,
    log_no: i64,
    after: u64,
    limit: usize,
) -> Result<Vec<Checkpoint>, RowError> {
    let mut statement = conn.prepare_cached(
        "SELECT size, chain, note FROM checkpoint WHERE log_no = ?1 AND size > ?2
         ORDER BY size LIMIT ?3",
    )?;
    let mut rows = statement.query(params![log_no, signed(after), signed(limit as u64)])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let size = unsigned(row.get(0)?);
        let damaged = RowError::Damaged {
            pos: size,
            what: "checkpoint",
        };
        let chain: Vec<u8> = row.get(1)?;
        let note: Result<String, _> = row.get(2);
        let whole = ChainHash::from_slice(&chain).zip(note.ok());
        let (chain, note) = whole.ok_or(damaged)?;
        found.push(Checkpoint { size, chain, note });
    }
    Ok(found)
}

/// Returns what a command wrote, if it happened.
pub(super) fn happened(
    conn: &Connection,
    log: &Log,
    command: CommandId,
) -> rusqlite::Result<Option<Happened>> {
    // One that was remembered in an empty log has no event there.
    let mut statement = conn.prepare_cached(
        "SELECT c.digest, c.first_pos, c.last_pos, coalesce(e.chain, ?4) FROM command c
         LEFT JOIN event e ON e.event_no = (?1 << 40) | c.last_pos
         WHERE c.log_no = ?1 AND c.command_id = ?2 AND (e.chain IS NOT NULL OR c.last_pos = ?3)",
    )?;
    let (base, genesis) = (signed(log.base()), log.genesis.0);
    statement
        .query_row(params![log.no, command.as_bytes(), base, genesis], |row| {
            let chain = ChainHash(row.get(3)?);
            let (first, last) = (unsigned(row.get(1)?), unsigned(row.get(2)?));
            Ok(Happened {
                digest: row.get(0)?,
                range: Range { first, last, chain },
            })
        })
        .optional()
}

/// What to make of a log's row, or of its last event, that cannot be what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Damage {
    /// Nothing may be written on top of it.
    Refused,
    /// A reader is there to say where it is: the row is passed over, the last event taken as it lies.
    Borne,
}

/// Reads every log and the end of each, and checks that the last event follows from the one before.
pub(super) fn logs(conn: &Connection, damage: Damage) -> Result<Vec<LogRow>, RowError> {
    let mut statement = conn.prepare_cached(
        "SELECT log_no, log_id, kind, owner, parent_log, parent_pos, parent_chain, key_check,
                moved_to
         FROM log ORDER BY log_no",
    )?;
    let mut rows = statement.query([])?;
    let mut logs = Vec::new();
    while let Some(row) = rows.next()? {
        let damaged = || RowError::Damaged {
            pos: 0,
            what: "the log's own row",
        };
        let no: i64 = row.get(0)?;
        let (opened, key_check, moved_to) = match whole(row) {
            Some(whole) => whole,
            None if damage == Damage::Borne => continue,
            None => return Err(damaged()),
        };
        let end = match end(conn, no, &opened) {
            Err(RowError::Damaged { pos, .. }) if damage == Damage::Borne => End {
                pos,
                chain: chain_at(conn, no, pos).unwrap_or(ChainHash([0; 32])),
                recorded_us: i64::MIN,
            },
            end => end?,
        };
        logs.push(LogRow {
            no,
            opened,
            key_check,
            moved_to,
            end,
        });
    }
    Ok(logs)
}

type Whole = (NewLog, Option<[u8; 8]>, Option<LogId>);

/// Reads what a log's row says; `None` if a column cannot be what was written.
fn whole(row: &Row<'_>) -> Option<Whole> {
    let blob = |index| row.get::<_, Option<Vec<u8>>>(index).ok();
    let parent = match blob(4)? {
        None => None,
        Some(log) => Some(Parent {
            log: LogId::from_slice(&log)?,
            pos: u64::try_from(row.get::<_, i64>(5).ok()?).ok()?,
            chain: ChainHash::from_slice(&blob(6)??)?,
        }),
    };
    let key_check = match blob(7)? {
        None => None,
        Some(check) => Some(check.try_into().ok()?),
    };
    let moved_to = match blob(8)? {
        None => None,
        Some(to) => Some(LogId::from_slice(&to)?),
    };
    let opened = NewLog {
        id: LogId::from_slice(&blob(1)??)?,
        kind: kind_from_number(row.get(2).ok()?)?,
        owner: row.get(3).ok()?,
        parent,
    };
    Some((opened, key_check, moved_to))
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
    let before = if pos == genesis.pos + 1 {
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
