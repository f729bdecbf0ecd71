//! The tables beside the events, for checking them.

use async_trait::async_trait;
use cocoonbox_events::{
    CommandId, LogId, ReadError, Sealing,
    tables::{CommandRow, Readable, Stray, StreamRow, Tables},
};
use sqlx::Row;
use uuid::Uuid;

use super::{
    PgStore,
    rows::{io, signed},
    sealing,
};

/// Rows of a table that no log has. Each names them in its only column.
const STRAYS: &[(&str, &str)] = &[
    (
        "event",
        "SELECT 'position ' || pos FROM cocoonbox.event e WHERE NOT EXISTS
           (SELECT FROM cocoonbox.log l WHERE l.log_id = e.log_id
              AND e.pos > coalesce(l.parent_pos, 0) AND e.pos <= l.tail) LIMIT $1",
    ),
    (
        "stream",
        "SELECT name FROM cocoonbox.stream s WHERE NOT EXISTS
           (SELECT FROM cocoonbox.log l WHERE l.log_id = s.log_id) LIMIT $1",
    ),
    (
        "command",
        "SELECT command_id::text FROM cocoonbox.command c WHERE NOT EXISTS
           (SELECT FROM cocoonbox.log l WHERE l.log_id = c.log_id) LIMIT $1",
    ),
    (
        "checkpoint",
        "SELECT 'of size ' || size FROM cocoonbox.checkpoint c WHERE NOT EXISTS
           (SELECT FROM cocoonbox.log l WHERE l.log_id = c.log_id) LIMIT $1",
    ),
];

#[async_trait]
impl Tables for PgStore {
    async fn streams(
        &self,
        log: LogId,
        after: &str,
        limit: usize,
    ) -> Result<Vec<StreamRow>, ReadError> {
        let ask = || {
            // Byte order, whatever the database sorts by: it is what `after` goes on from.
            sqlx::query(
                "SELECT name, head_seq FROM cocoonbox.stream
                 WHERE log_id = $1 AND name COLLATE \"C\" > $2 ORDER BY name COLLATE \"C\" LIMIT $3",
            )
            .bind(log.0)
            .bind(after)
            .bind(signed(limit as u64))
        };
        let rows = self.shelf.read(ask).await?;
        let row = |row: &sqlx::postgres::PgRow| {
            let seq: i64 = row.try_get(1).map_err(io)?;
            Ok(StreamRow {
                stream: row.try_get(0).map_err(io)?,
                seq: u64::try_from(seq).unwrap_or(0),
                pos: None,
            })
        };
        rows.iter().map(row).collect()
    }

    async fn commands(
        &self,
        log: LogId,
        after: Option<CommandId>,
        limit: usize,
    ) -> Result<Vec<CommandRow>, ReadError> {
        let after = after.map(|id| id.0);
        let ask = || {
            sqlx::query(
                "SELECT command_id, first_pos, last_pos FROM cocoonbox.command
                 WHERE log_id = $1 AND ($2::uuid IS NULL OR command_id > $2)
                 ORDER BY command_id LIMIT $3",
            )
            .bind(log.0)
            .bind(after)
            .bind(signed(limit as u64))
        };
        let rows = self.shelf.read(ask).await?;
        let row = |row: &sqlx::postgres::PgRow| {
            let pos = |index| {
                let pos: i64 = row.try_get(index).map_err(io)?;
                Ok::<_, ReadError>(u64::try_from(pos).unwrap_or(0))
            };
            Ok(CommandRow {
                command: CommandId(row.try_get::<Uuid, _>(0).map_err(io)?),
                first: pos(1)?,
                last: pos(2)?,
            })
        };
        rows.iter().map(row).collect()
    }

    async fn readable(&self, log: LogId) -> Result<Readable, ReadError> {
        let log = self.shelf.log(log).await?;
        let owner = log.opened.owner.clone();
        match (
            sealing::asked(&self.keys, log.id(), owner).await,
            log.key_check,
        ) {
            (Sealing::Key(key), Some(check)) if key.check() == check => Ok(Readable::Yes),
            (Sealing::Key(_), Some(_)) => Ok(Readable::OtherKey),
            (Sealing::Key(_) | Sealing::Open, None) => Ok(Readable::Yes),
            (Sealing::Lost, _) | (Sealing::Open, Some(_)) => Ok(Readable::NoKey),
            (Sealing::Unavailable, _) => {
                let what = std::io::Error::other("the keys cannot be read");
                Err(ReadError::Io(Box::new(what)))
            }
        }
    }

    async fn strays(&self, limit: usize) -> Result<Vec<Stray>, ReadError> {
        let mut strays = Vec::new();
        for (table, sql) in STRAYS {
            let left = signed(limit.saturating_sub(strays.len()) as u64);
            let rows = self.shelf.read(|| sqlx::query(*sql).bind(left)).await?;
            for row in rows {
                let row = row.try_get(0).map_err(io)?;
                strays.push(Stray { table, row });
            }
        }
        Ok(strays)
    }
}
