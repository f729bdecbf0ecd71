//! Checkpoints: how far a projection is in a log. They move in the transaction of the rows.

use cocoonbox_events::{ChainHash, LogId};
use rusqlite::{Connection, OptionalExtension, Row, params};

/// How far one projection is in one log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    pub projection: String,
    pub version: u32,
    pub log: LogId,
    /// The last position taken in; 0 = nothing yet.
    pub pos: u64,
    /// The log's link at `pos`: after a restore or a rewind the log has another one there.
    pub chain: ChainHash,
    /// Erasures that stand in the log up to here were done before the events were read.
    pub erased_to: u64,
}

/// Whether a checkpoint was moved, or somebody else had moved it before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    Yes,
    /// Two runners share the file. Nothing of this transaction may stay.
    Contended,
}

impl Checkpoint {
    pub(crate) fn load_all(connection: &Connection) -> Result<Vec<Self>, rusqlite::Error> {
        connection
            .prepare_cached(
                "SELECT projection, version, log, pos, chain, erased_to FROM checkpoint
                 ORDER BY projection, log",
            )?
            .query_map([], Self::from_row)?
            .collect()
    }

    pub(crate) fn load(
        connection: &Connection,
        projection: &str,
        log: LogId,
    ) -> Result<Option<Self>, rusqlite::Error> {
        connection
            .prepare_cached(
                "SELECT projection, version, log, pos, chain, erased_to FROM checkpoint
                 WHERE projection = ?1 AND log = ?2",
            )?
            .query_row(
                params![projection, log.as_bytes().as_slice()],
                Self::from_row,
            )
            .optional()
    }

    /// Writes this checkpoint where there is none.
    pub(crate) fn insert(&self, connection: &Connection) -> Result<Moved, rusqlite::Error> {
        let rows = connection
            .prepare_cached(
                "INSERT INTO checkpoint (projection, log, version, pos, chain, erased_to)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING",
            )?
            .execute(params![
                self.projection,
                self.log.as_bytes().as_slice(),
                self.version,
                signed(self.pos),
                self.chain.0.as_slice(),
                signed(self.erased_to),
            ])?;
        Ok(if rows == 1 {
            Moved::Yes
        } else {
            Moved::Contended
        })
    }

    /// Moves the checkpoint from what it was read as to `to`, if it is still that.
    pub(crate) fn advance(
        &self,
        connection: &Connection,
        to: &Self,
    ) -> Result<Moved, rusqlite::Error> {
        debug_assert!(self.projection == to.projection && self.log == to.log);
        let rows = connection
            .prepare_cached(
                "UPDATE checkpoint SET pos = ?1, chain = ?2, erased_to = ?3
                 WHERE projection = ?4 AND log = ?5 AND version = ?6 AND pos = ?7
                   AND chain = ?8 AND erased_to = ?9",
            )?
            .execute(params![
                signed(to.pos),
                to.chain.0.as_slice(),
                signed(to.erased_to),
                self.projection,
                self.log.as_bytes().as_slice(),
                self.version,
                signed(self.pos),
                self.chain.0.as_slice(),
                signed(self.erased_to),
            ])?;
        Ok(if rows == 1 {
            Moved::Yes
        } else {
            Moved::Contended
        })
    }

    fn from_row(row: &Row<'_>) -> Result<Self, rusqlite::Error> {
        let log: Vec<u8> = row.get(2)?;
        let chain: Vec<u8> = row.get(4)?;
        let damaged = |column| {
            rusqlite::Error::FromSqlConversionFailure(
                column,
                rusqlite::types::Type::Blob,
                "not a checkpoint".into(),
            )
        };
        Ok(Self {
            projection: row.get(0)?,
            version: row.get(1)?,
            log: LogId::from_slice(&log).ok_or_else(|| damaged(2))?,
            pos: u64::try_from(row.get::<_, i64>(3)?).map_err(|_| damaged(3))?,
            chain: ChainHash::from_slice(&chain).ok_or_else(|| damaged(4))?,
            erased_to: u64::try_from(row.get::<_, i64>(5)?).map_err(|_| damaged(5))?,
        })
    }
}

/// SQLite has no unsigned numbers; positions stay far below the limit.
fn signed(pos: u64) -> i64 {
    i64::try_from(pos).unwrap_or(i64::MAX)
}
