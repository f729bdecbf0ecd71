//! One transaction: what the writer knows while it writes, ahead of what is durable.

use std::{collections::HashMap, sync::Arc};

use rusqlite::{CachedStatement, Connection, OptionalExtension, params};

use super::{
    directory::{Directory, Log},
    rows::{self, Damage, RowError},
};
use crate::{
    chain::ChainHash,
    id::{CommandId, LogId, StreamName},
    replica::End,
    sealing::Sealed,
    store::NewLog,
};

/// Stream heads kept in memory. Past it the cache starts afresh: a head costs one look-up to get back,
/// and about 150 bytes to keep.
const HEADS_MAX: usize = 65_536;

/// `SQLite`'s own limit.
const PAGES_MAX: i64 = 4_294_967_294;

/// What the writer knows. Thrown away and read anew when a write fails.
pub(super) struct State {
    ends: HashMap<i64, End>,
    heads: HashMap<i64, HashMap<StreamName, Head>>,
    heads_kept: usize,
    next_stream: i64,
    next_log: i64,
    /// Bytes that the file may grow to.
    pub(super) size_max: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Head {
    /// `None` until the stream has its first event.
    id: Option<i64>,
    pub(super) seq: u64,
    pos: u64,
    /// Not yet in the table.
    is_dirty: bool,
}

/// Where an event goes.
pub(super) struct Place {
    pub(super) pos: u64,
    pub(super) seq: u64,
    pub(super) recorded_us: i64,
    pub(super) chain: ChainHash,
}

/// What a committed batch changed.
pub(super) struct Moved {
    pub(super) opened: Vec<Arc<Log>>,
    pub(super) ends: Vec<(Arc<Log>, End)>,
    /// Logs that were closed, each with the branch it goes on in.
    pub(super) closed: Vec<(Arc<Log>, LogId)>,
}

pub(super) struct Batch<'a> {
    pub(super) conn: &'a Connection,
    pub(super) directory: &'a Directory,
    pub(super) now_us: i64,
    state: &'a mut State,
    insert_event: CachedStatement<'a>,
    claim_command: CachedStatement<'a>,
    opened: Vec<Arc<Log>>,
    touched: Vec<Arc<Log>>,
    closed: Vec<(Arc<Log>, LogId)>,
    dirty: Vec<(i64, StreamName)>,
}

impl State {
    /// Reads the ends of all logs, and makes logs known that the directory does not have.
    pub(super) fn load(
        conn: &Connection,
        directory: &Directory,
        size_max: Option<u64>,
    ) -> Result<Self, RowError> {
        limit_size(conn, size_max)?;
        let number = |sql: &str| conn.query_row(sql, [], |row| row.get::<_, i64>(0));
        let next_stream = number("SELECT coalesce(max(stream_id), 0) + 1 FROM stream")?;
        let next_log = number("SELECT coalesce(max(log_no), 0) + 1 FROM log")?;
        let ends = publish(conn, directory, Damage::Refused)?;
        Ok(Self {
            ends,
            heads: HashMap::new(),
            heads_kept: 0,
            next_stream,
            next_log,
            size_max,
        })
    }

    /// Only tells the directory what is there.
    pub(super) fn read(conn: &Connection, directory: &Directory) -> Result<(), RowError> {
        publish(conn, directory, Damage::Borne).map(drop)
    }

    fn trim(&mut self) {
        if self.heads_kept > HEADS_MAX {
            self.heads.clear();
            self.heads_kept = 0;
        }
    }
}

impl<'a> Batch<'a> {
    /// Begins the transaction.
    pub(super) fn begin(
        conn: &'a Connection,
        directory: &'a Directory,
        state: &'a mut State,
        now_us: i64,
    ) -> rusqlite::Result<Self> {
        conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let insert_event = conn.prepare_cached(
            "INSERT INTO event (event_no, stream_id, seq, kind, version, recorded_us, header, body,
               payload_hash, chain) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?;
        let claim_command = conn.prepare_cached(
            "INSERT INTO command (log_no, command_id, digest, first_pos, last_pos, recorded_us)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING",
        )?;
        Ok(Self {
            conn,
            directory,
            now_us,
            state,
            insert_event,
            claim_command,
            opened: Vec::new(),
            touched: Vec::new(),
            closed: Vec::new(),
            dirty: Vec::new(),
        })
    }

    /// Writes the stream heads and commits. On an error the state is worth nothing.
    pub(super) fn commit(mut self) -> rusqlite::Result<Moved> {
        let mut put_head = self.conn.prepare_cached(
            "INSERT INTO stream (stream_id, log_no, name, head_seq, head_pos)
             VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (stream_id) DO UPDATE SET head_seq = ?4, head_pos = ?5",
        )?;
        for (log_no, stream) in self.dirty.drain(..) {
            let heads = self.state.heads.get_mut(&log_no);
            let Some(head) = heads.and_then(|heads| heads.get_mut(&stream)) else {
                continue;
            };
            head.is_dirty = false;
            let (seq, pos) = (rows::signed(head.seq), rows::signed(head.pos));
            put_head.execute(params![head.id, log_no, stream.as_str(), seq, pos])?;
        }
        self.conn.prepare_cached("COMMIT")?.execute([])?;
        let ends = self
            .touched
            .iter()
            .map(|log| (log.clone(), self.state.ends[&log.no]))
            .collect();
        self.state.trim();
        Ok(Moved {
            opened: self.opened,
            ends,
            closed: self.closed,
        })
    }

    /// Lets the file grow to `bytes` (to anything: `None`), but never below what it is.
    pub(super) fn limit_size(&mut self, bytes: Option<u64>) -> rusqlite::Result<()> {
        limit_size(self.conn, bytes)?;
        self.state.size_max = bytes;
        Ok(())
    }

    pub(super) fn end(&self, log: &Log) -> End {
        self.state
            .ends
            .get(&log.no)
            .copied()
            .unwrap_or_else(|| log.end())
    }

    /// Returns the head of a stream, with what this batch has added to it.
    pub(super) fn head(&mut self, log: &Log, stream: &StreamName) -> rusqlite::Result<Head> {
        let kept = self.state.heads.get(&log.no);
        if let Some(head) = kept.and_then(|heads| heads.get(stream)) {
            return Ok(*head);
        }
        let mut statement = self.conn.prepare_cached(
            "SELECT stream_id, head_seq, head_pos FROM stream WHERE log_no = ?1 AND name = ?2",
        )?;
        let head = statement
            .query_row(params![log.no, stream.as_str()], |row| {
                Ok(Head {
                    id: Some(row.get(0)?),
                    seq: rows::unsigned(row.get(1)?),
                    pos: rows::unsigned(row.get(2)?),
                    is_dirty: false,
                })
            })
            .optional()?;
        let head = match head {
            Some(head) => head,
            None => self.inherited(log, stream)?,
        };
        let heads = self.state.heads.entry(log.no).or_default();
        heads.insert(stream.clone(), head);
        self.state.heads_kept += 1;
        Ok(head)
    }

    /// The head that a stream had where this log branched off.
    fn inherited(&self, log: &Log, stream: &StreamName) -> rusqlite::Result<Head> {
        let Some(parent) = log.opened.parent else {
            return Ok(Head::default());
        };
        let Some(before) = self.log(parent.log) else {
            return Ok(Head::default());
        };
        for (log, to) in self.line(&before) {
            let found = rows::head_at(self.conn, log.no, stream, to.min(parent.pos))?;
            if let Some((seq, pos)) = found {
                return Ok(Head {
                    seq,
                    pos,
                    ..Head::default()
                });
            }
        }
        Ok(Head::default())
    }

    /// The logs that hold the history of `log`, newest first, each with up to where.
    pub(super) fn line(&self, log: &Arc<Log>) -> Vec<(Arc<Log>, u64)> {
        let mut line = vec![(log.clone(), u64::MAX)];
        let (mut at, mut to) = (log.clone(), u64::MAX);
        while let Some(parent) = at.opened.parent
            && let Some(before) = self.log(parent.log)
        {
            (at, to) = (before, to.min(parent.pos));
            line.push((at.clone(), to));
        }
        line
    }

    /// Where the log was rewound to, if it was.
    pub(super) fn moved_to(&self, log: &Log) -> Option<LogId> {
        let closed = self.closed.iter().find(|(closed, _)| closed.no == log.no);
        closed.map(|(_, to)| *to).or_else(|| log.moved_to())
    }

    /// Closes a log in favour of a branch of it.
    pub(super) fn close(&mut self, log: &Arc<Log>, to: LogId) -> rusqlite::Result<()> {
        self.conn
            .prepare_cached("UPDATE log SET moved_to = ?2 WHERE log_no = ?1")?
            .execute(params![log.no, to.as_bytes()])?;
        self.closed.push((log.clone(), to));
        Ok(())
    }

    /// The link at `pos` in the history of `log`, with what this batch has added; `None` past its end.
    pub(super) fn chain_at(&self, log: &Arc<Log>, pos: u64) -> rusqlite::Result<Option<ChainHash>> {
        let mut log = log.clone();
        while let Some(parent) = log.opened.parent
            && pos < parent.pos
            && let Some(before) = self.log(parent.log)
        {
            log = before;
        }
        let end = self.end(&log);
        if pos == log.base() {
            return Ok(Some(log.genesis));
        }
        if pos >= end.pos {
            return Ok((pos == end.pos).then_some(end.chain));
        }
        match rows::chain_at(self.conn, log.no, pos) {
            Ok(chain) => Ok(Some(chain)),
            Err(RowError::Sqlite(error)) => Err(error),
            Err(RowError::Damaged { .. }) => Ok(None),
        }
    }

    /// Notes that the command happens now. `false` if it happened before; nothing is changed then.
    pub(super) fn claim(
        &mut self,
        log: &Log,
        command: CommandId,
        digest: Option<&[u8; 32]>,
        (first, last): (u64, u64),
    ) -> rusqlite::Result<bool> {
        let claimed = self.claim_command.execute(params![
            log.no,
            command.as_bytes(),
            digest,
            rows::signed(first),
            rows::signed(last),
            self.now_us
        ])?;
        Ok(claimed == 1)
    }

    /// Remembers the command of a replicated event; its digest is not known.
    pub(super) fn remember(&self, log: &Log, id: CommandId, pos: u64) -> rusqlite::Result<()> {
        self.conn
            .prepare_cached(
                "INSERT INTO command (log_no, command_id, first_pos, last_pos, recorded_us)
                 VALUES (?1, ?2, ?3, ?3, ?4)
                 ON CONFLICT DO UPDATE SET last_pos = ?3
                 WHERE digest IS NULL AND last_pos = ?3 - 1",
            )?
            .execute(params![
                log.no,
                id.as_bytes(),
                rows::signed(pos),
                self.now_us
            ])?;
        Ok(())
    }

    /// Writes one event behind the last one.
    pub(super) fn insert(
        &mut self,
        log: &Arc<Log>,
        event: &Sealed,
        place: &Place,
    ) -> rusqlite::Result<()> {
        let head = self.head(log, &event.stream)?;
        let id = head.id.unwrap_or(self.state.next_stream);
        debug_assert_eq!(place.seq, head.seq + 1, "a stream has no gaps");
        debug_assert_eq!(place.pos, self.end(log).pos + 1, "a log has no gaps");
        self.insert_event.execute(params![
            rows::event_no(log.no, place.pos),
            id,
            rows::signed(place.seq),
            event.kind,
            event.version,
            place.recorded_us,
            &event.header[..],
            event.body.as_deref(),
            &event.payload_hash.0,
            &place.chain.0,
        ])?;
        if head.id.is_none() {
            self.state.next_stream += 1;
        }
        if !head.is_dirty {
            self.dirty.push((log.no, event.stream.clone()));
        }
        let changed = Head {
            id: Some(id),
            seq: place.seq,
            pos: place.pos,
            is_dirty: true,
        };
        if let Some(kept) = self
            .state
            .heads
            .get_mut(&log.no)
            .and_then(|heads| heads.get_mut(&event.stream))
        {
            *kept = changed;
        }
        let end = End {
            pos: place.pos,
            chain: place.chain,
            recorded_us: place.recorded_us,
        };
        self.state.ends.insert(log.no, end);
        if !self.touched.iter().any(|touched| touched.no == log.no) {
            self.touched.push(log.clone());
        }
        Ok(())
    }

    /// Returns a log that is there, or was opened by this batch.
    pub(super) fn log(&self, id: LogId) -> Option<Arc<Log>> {
        self.opened
            .iter()
            .find(|log| log.id() == id)
            .cloned()
            .or_else(|| self.directory.get(id))
    }

    /// Opens a log that is not there.
    pub(super) fn open(
        &mut self,
        new: &NewLog,
        key_check: Option<[u8; 8]>,
    ) -> rusqlite::Result<Arc<Log>> {
        let no = self.state.next_log;
        let parent = new.parent.as_ref();
        self.conn
            .prepare_cached(
                "INSERT INTO log (log_no, log_id, kind, owner, parent_log, parent_pos, parent_chain,
                   key_check, format, created_us) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            )?
            .execute(params![
                no,
                new.id.as_bytes(),
                rows::kind_number(new.kind),
                new.owner,
                parent.map(|parent| parent.log.as_bytes()),
                parent.map(|parent| rows::signed(parent.pos)),
                parent.map(|parent| parent.chain.0),
                key_check,
                super::schema::FORMAT,
                self.now_us,
            ])?;
        self.state.next_log += 1;
        let log = Arc::new(Log::new(no, new.clone(), key_check));
        self.state.ends.insert(no, log.end());
        self.opened.push(log.clone());
        Ok(log)
    }
}

fn limit_size(conn: &Connection, bytes: Option<u64>) -> rusqlite::Result<()> {
    let page_bytes: i64 = conn.query_row("PRAGMA page_size", [], |row| row.get(0))?;
    let pages = bytes.map_or(PAGES_MAX, |bytes| rows::signed(bytes) / page_bytes);
    let sql = format!("PRAGMA max_page_count = {}", pages.clamp(1, PAGES_MAX));
    conn.query_row(&sql, [], |_| Ok(()))
}

fn publish(
    conn: &Connection,
    directory: &Directory,
    damage: Damage,
) -> Result<HashMap<i64, End>, RowError> {
    let mut ends = HashMap::new();
    let (mut opened, mut moved) = (Vec::new(), Vec::new());
    let mut closed = Vec::new();
    for row in rows::logs(conn, damage)? {
        ends.insert(row.no, row.end);
        let log = directory.get(row.opened.id).unwrap_or_else(|| {
            let log = Arc::new(Log::new(row.no, row.opened, row.key_check));
            opened.push(log.clone());
            log
        });
        let known = log.end();
        // Never silently: readers hold keys of what was there. Nobody does of a log that is seen for the
        // first time, and whoever bears damage looks where it is.
        let is_first = opened.last().is_some_and(|last| Arc::ptr_eq(last, &log));
        let is_borne = is_first && damage == Damage::Borne;
        if !is_borne && (row.end.pos < known.pos || log.no != row.no) {
            return Err(RowError::Damaged {
                pos: known.pos,
                what: "what was acked is gone",
            });
        }
        if let Some(to) = row.moved_to.filter(|to| log.moved_to() != Some(*to)) {
            closed.push((log.clone(), to));
        }
        if known != row.end {
            moved.push((log, row.end));
        }
    }
    directory.publish(opened, &moved);
    directory.close(&closed);
    Ok(ends)
}
