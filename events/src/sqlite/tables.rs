//! The tables beside the events, for checking them.

use std::{
    sync::mpsc::{self, RecvTimeoutError},
    time::Duration,
};

use async_trait::async_trait;
use rusqlite::{Connection, ErrorCode, OptionalExtension, params};

use super::{SqliteStore, readers, rows};
use crate::{
    id::{CommandId, LogId},
    keys::Sealing,
    store::ReadError,
    tables::{CommandRow, Integrity, Readable, Stray, StreamRow, Tables},
};

#[async_trait]
impl Tables for SqliteStore {
    async fn streams(
        &self,
        log: LogId,
        after: &str,
        limit: usize,
    ) -> Result<Vec<StreamRow>, ReadError> {
        let (no, after, limit) = (
            self.log(log)?.no,
            after.to_owned(),
            rows::signed(limit as u64),
        );
        let read = move |conn: &Connection| {
            let mut statement = conn.prepare_cached(
                "SELECT name, head_seq, head_pos FROM stream WHERE log_no = ?1 AND name > ?2
                 ORDER BY name LIMIT ?3",
            )?;
            let rows = statement.query_map(params![no, after, limit], |row| {
                Ok(StreamRow {
                    stream: text(row, 0)?,
                    seq: rows::unsigned(row.get(1)?),
                    pos: Some(rows::unsigned(row.get(2)?)),
                })
            })?;
            rows.collect()
        };
        self.look(read).await
    }

    async fn commands(
        &self,
        log: LogId,
        after: Option<CommandId>,
        limit: usize,
    ) -> Result<Vec<CommandRow>, ReadError> {
        let (no, limit) = (self.log(log)?.no, rows::signed(limit as u64));
        let read = move |conn: &Connection| {
            // An id that is none cannot be said in a row; it is a stray.
            let mut statement = conn.prepare_cached(
                "SELECT command_id, first_pos, last_pos FROM command
                 WHERE log_no = ?1 AND command_id > ?2 AND length(command_id) = 16
                 ORDER BY command_id LIMIT ?3",
            )?;
            let after = after.map(|id| id.as_bytes().to_vec()).unwrap_or_default();
            let rows = statement.query_map(params![no, after, limit], |row| {
                let id: [u8; 16] = row.get(0)?;
                Ok(CommandRow {
                    command: CommandId(uuid::Uuid::from_bytes(id)),
                    first: rows::unsigned(row.get(1)?),
                    last: rows::unsigned(row.get(2)?),
                })
            })?;
            rows.collect()
        };
        self.look(read).await
    }

    async fn readable(&self, log: LogId) -> Result<Readable, ReadError> {
        let log = self.log(log)?;
        let keys = self.keys.clone();
        self.readers
            .read(
                move |_| match (keys.log_key(log.id(), &log.opened.owner), log.key_check) {
                    (Sealing::Key(key), Some(check)) if key.check() == check => Ok(Readable::Yes),
                    (Sealing::Key(_), Some(_)) => Ok(Readable::OtherKey),
                    (Sealing::Key(_) | Sealing::Open, None) => Ok(Readable::Yes),
                    (Sealing::Lost, _) | (Sealing::Open, Some(_)) => Ok(Readable::NoKey),
                    (Sealing::Unavailable, _) => Err(readers::io(std::io::Error::other(
                        "the keys cannot be read",
                    ))),
                },
            )
            .await
    }

    async fn strays(&self, limit: usize) -> Result<Vec<Stray>, ReadError> {
        let read = move |conn: &Connection| {
            let mut strays = Vec::new();
            stray_events(conn, limit, &mut strays)?;
            for (table, sql) in STRAYS {
                let left = rows::signed(limit.saturating_sub(strays.len()) as u64);
                let mut statement = conn.prepare_cached(sql)?;
                let rows = statement.query_map([left], |row| {
                    let (table, row) = (*table, text(row, 0)?);
                    Ok(Stray { table, row })
                })?;
                strays.extend(rows.collect::<Result<Vec<_>, _>>()?);
            }
            Ok(strays)
        };
        self.look(read).await
    }

    async fn integrity(&self, limit: usize, time: Duration) -> Result<Integrity, ReadError> {
        self.look(move |conn| integrity(conn, limit, time)).await
    }
}

/// Asks `SQLite` itself. A file that is damaged too badly to be looked through is a finding.
fn integrity(conn: &Connection, limit: usize, time: Duration) -> rusqlite::Result<Integrity> {
    let (done, waits) = mpsc::channel::<()>();
    let handle = conn.get_interrupt_handle();
    let mut found = Integrity::default();
    let asked = std::thread::scope(|scope| {
        scope.spawn(move || {
            if waits.recv_timeout(time) == Err(RecvTimeoutError::Timeout) {
                handle.interrupt();
            }
        });
        let mut ask = || -> rusqlite::Result<()> {
            let mut statement = conn.prepare(&format!("PRAGMA integrity_check({limit})"))?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let said = text(row, 0)?;
                if said != "ok" {
                    found.wrong.push(said);
                }
            }
            Ok(())
        };
        let asked = ask();
        drop(done);
        asked
    });
    match asked.as_ref().map_err(rusqlite::Error::sqlite_error_code) {
        Ok(()) => {}
        Err(Some(ErrorCode::OperationInterrupted)) => found.is_cut = true,
        Err(Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)) => {
            found
                .wrong
                .extend(asked.err().map(|error| error.to_string()));
        }
        Err(_) => return asked.map(|()| found),
    }
    Ok(found)
}

/// What is wrong in itself, table by table. Each names its rows in the first column.
const STRAYS: &[(&str, &str)] = &[
    (
        "log",
        "SELECT 'log ' || log_no FROM log WHERE log_no < 1 OR length(log_id) <> 16
           OR kind NOT BETWEEN 1 AND 3 OR format NOT BETWEEN 1 AND (SELECT user_version FROM pragma_user_version)
           OR (parent_log IS NULL) <> (parent_pos IS NULL)
           OR (parent_log IS NULL) <> (parent_chain IS NULL)
           OR length(parent_log) <> 16 OR length(parent_chain) <> 32 OR parent_pos < 0
           OR length(key_check) <> 8 OR length(moved_to) <> 16 LIMIT ?1",
    ),
    (
        "stream",
        "SELECT name FROM stream WHERE log_no NOT IN (SELECT log_no FROM log) LIMIT ?1",
    ),
    (
        "command",
        "SELECT hex(command_id) FROM command WHERE log_no NOT IN (SELECT log_no FROM log)
           OR length(command_id) <> 16 LIMIT ?1",
    ),
    (
        "checkpoint",
        "SELECT 'of size ' || size FROM checkpoint WHERE size < 0
           OR log_no NOT IN (SELECT log_no FROM log) LIMIT ?1",
    ),
];

/// Looks between the ranges of the logs, so that no event of a log is read.
fn stray_events(conn: &Connection, limit: usize, strays: &mut Vec<Stray>) -> rusqlite::Result<()> {
    let mut statement =
        conn.prepare_cached("SELECT log_no, coalesce(parent_pos, 0) FROM log ORDER BY log_no")?;
    let logs = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut between = conn.prepare_cached(
        "SELECT event_no FROM event WHERE event_no >= ?1 AND event_no <= ?2
         ORDER BY event_no LIMIT 1",
    )?;
    let mut find = |from: i64, to: i64| -> rusqlite::Result<()> {
        let found: Option<i64> = between
            .query_row(params![from, to], |row| row.get(0))
            .optional()?;
        if let Some(found) = found
            && strays.len() < limit
        {
            let (table, row) = ("event", format!("number {found}"));
            strays.push(Stray { table, row });
        }
        Ok(())
    };
    let mut from = i64::MIN;
    for log in logs {
        let (no, base): (i64, i64) = log?;
        // A damaged number is a stray itself; its range is nobody's.
        if !(1..1 << 22).contains(&no) {
            continue;
        }
        find(from, rows::event_no(no, rows::unsigned(base)))?;
        from = rows::event_no_end(no);
    }
    find(from, i64::MAX)
}

/// A text, also one that is none any more.
fn text(row: &rusqlite::Row<'_>, index: usize) -> rusqlite::Result<String> {
    let value = row.get_ref(index)?;
    let bytes = value.as_bytes_or_null().ok().flatten().unwrap_or_default();
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

impl SqliteStore {
    async fn look<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, ReadError> {
        self.readers
            .read(move |conn| read(conn).map_err(readers::io))
            .await
    }
}
