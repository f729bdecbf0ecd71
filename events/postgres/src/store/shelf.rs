//! The logs of the database, as far as this process has looked.

use std::{collections::HashMap, sync::Arc};

use cocoonbox_events::{LogId, ReadError};
use sqlx::{
    Postgres,
    postgres::{PgArguments, PgPool, PgRow},
    query::Query,
};
use uuid::Uuid;

use super::{
    directory::{Directory, Log, LogRow},
    rows::{self, io},
};
use crate::error::Failure;

/// A read whose connection is lost is asked again on another, this often.
const TRIES: usize = 3;

/// Reads, and keeps the directory up to date with what was read.
pub(crate) struct Shelf {
    pub(crate) directory: Directory,
    readers: PgPool,
    /// Polls do not wait behind pages.
    control: PgPool,
}

impl Shelf {
    pub(crate) fn new(readers: PgPool, control: PgPool) -> Self {
        Self {
            directory: Directory::default(),
            readers,
            control,
        }
    }

    /// Returns a log, looking into the database for one that is not known here yet.
    pub(crate) async fn log(&self, id: LogId) -> Result<Arc<Log>, ReadError> {
        if let Some(log) = self.directory.get(id) {
            return Ok(log);
        }
        self.refresh(&[id.0]).await?;
        self.directory
            .get(id)
            .ok_or(ReadError::NoSuchLog { log: id })
    }

    pub(crate) fn known(&self, id: LogId) -> Result<Arc<Log>, ReadError> {
        self.directory
            .get(id)
            .ok_or(ReadError::NoSuchLog { log: id })
    }

    /// Whether a log is known up to a position.
    pub(crate) fn knows(&self, id: LogId, pos: u64) -> bool {
        self.directory
            .get(id)
            .is_some_and(|log| log.end().pos >= pos)
    }

    /// Reads the rows of some logs, and of what they branched off.
    pub(crate) async fn refresh(&self, logs: &[Uuid]) -> Result<(), ReadError> {
        let ask = || sqlx::query(rows::SELECT_LOGS).bind(logs);
        self.learn(asked(&self.control, ask).await?).await
    }

    /// Reads the rows of the logs that moved within so many seconds; of all of them for `None`.
    pub(crate) async fn refresh_moved(&self, within_seconds: Option<i64>) -> Result<(), ReadError> {
        let found = match within_seconds {
            Some(seconds) => {
                let ask = || sqlx::query(rows::SELECT_MOVED_LOGS).bind(seconds);
                asked(&self.control, ask).await?
            }
            None => asked(&self.control, || sqlx::query(rows::SELECT_ALL_LOGS)).await?,
        };
        self.learn(found).await
    }

    /// Asks a question of pages.
    pub(crate) async fn read<'q>(
        &self,
        ask: impl Fn() -> Query<'q, Postgres, PgArguments>,
    ) -> Result<Vec<PgRow>, ReadError> {
        asked(&self.readers, ask).await
    }

    async fn learn(&self, found: Vec<PgRow>) -> Result<(), ReadError> {
        let mut rows = HashMap::new();
        for row in &found {
            let row = rows::log(row).map_err(io)?.ok_or(ReadError::Damaged {
                pos: 0,
                what: "the log's own row",
            })?;
            rows.insert(row.opened.id, row);
        }
        // Branches whose parents are known neither here nor there.
        loop {
            let is_missing = |row: &LogRow| {
                let parent = row.opened.parent?.log;
                let is_there = rows.contains_key(&parent) || self.directory.get(parent).is_some();
                (!is_there).then_some(parent.0)
            };
            let missing: Vec<Uuid> = rows.values().filter_map(is_missing).collect();
            if missing.is_empty() {
                break;
            }
            let ask = || sqlx::query(rows::SELECT_LOGS).bind(&missing);
            let parents = asked(&self.control, ask).await?;
            let before = rows.len();
            for row in &parents {
                if let Some(row) = rows::log(row).map_err(io)? {
                    rows.insert(row.opened.id, row);
                }
            }
            if rows.len() == before {
                return Err(ReadError::Damaged {
                    pos: 0,
                    what: "a log's parent is missing",
                });
            }
        }
        // Parents first. A line is as long as a log was rewound often.
        while let Some(id) = rows.keys().next().copied() {
            let mut at = id;
            while let Some(parent) = rows.get(&at).and_then(|row| row.opened.parent)
                && rows.contains_key(&parent.log)
            {
                at = parent.log;
            }
            if let Some(row) = rows.remove(&at) {
                self.directory.take(&row);
            }
        }
        Ok(())
    }
}

/// Asks, and asks again when the connection was lost: a question changes nothing.
async fn asked<'q>(
    pool: &PgPool,
    ask: impl Fn() -> Query<'q, Postgres, PgArguments>,
) -> Result<Vec<PgRow>, ReadError> {
    let mut tries = 1;
    loop {
        match ask().fetch_all(pool).await {
            Ok(rows) => return Ok(rows),
            Err(error) if tries < TRIES && Failure::of(&error) == Failure::Lost => tries += 1,
            Err(error) => return Err(io(error)),
        }
    }
}
