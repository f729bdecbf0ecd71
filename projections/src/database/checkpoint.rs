//! Checkpoints: how far an edition is in a log. They move in the transaction of the rows.

use cocoonbox_events::{ChainHash, LogId};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::database::EditionId;

const COLUMNS: &str = "edition, log, pos, chain, erased_to, epoch";

/// How far one edition of a projection is in one log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    pub edition: EditionId,
    pub log: LogId,
    /// The last position taken in; 0 = nothing yet.
    pub pos: u64,
    /// The log's link at `pos`: after a restore or a rewind the log has another one there.
    pub chain: ChainHash,
    /// Erasures that stand in the log up to here were done before the events were read.
    pub erased_to: u64,
    /// Rises whenever the log's rows are cleared. So a page that was read before something was erased
    /// is not taken in after the rows were folded again.
    pub epoch: u64,
}

/// Whether a checkpoint was moved, or somebody else had moved it before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    Yes,
    /// Two runners share the file, or the edition was given up. Nothing of this transaction may stay.
    Contended,
}

impl Checkpoint {
    /// Every checkpoint of editions that are not given up.
    pub(crate) fn load_all(connection: &Connection) -> Result<Vec<Self>, rusqlite::Error> {
        connection
            .prepare_cached(&format!(
                "SELECT {COLUMNS} FROM checkpoint ORDER BY edition, log"
            ))?
            .query_map([], Self::from_row)?
            .collect()
    }

    pub(crate) fn load(
        connection: &Connection,
        edition: EditionId,
        log: LogId,
    ) -> Result<Option<Self>, rusqlite::Error> {
        connection
            .prepare_cached(&format!(
                "SELECT {COLUMNS} FROM checkpoint WHERE edition = ?1 AND log = ?2"
            ))?
            .query_row(
                params![edition.0, log.as_bytes().as_slice()],
                Self::from_row,
            )
            .optional()
    }

    /// Writes this checkpoint where there is none. The edition must not be given up.
    pub(crate) fn insert(&self, connection: &Connection) -> Result<Moved, rusqlite::Error> {
        let rows = connection
            .prepare_cached(&format!(
                "INSERT INTO checkpoint ({COLUMNS})
                 SELECT ?1, ?2, ?3, ?4, ?5, ?6
                 WHERE EXISTS (SELECT 1 FROM edition WHERE edition = ?1 AND state IN (1, 2))
                 ON CONFLICT DO NOTHING"
            ))?
            .execute(params![
                self.edition.0,
                self.log.as_bytes().as_slice(),
                signed(self.pos),
                self.chain.0.as_slice(),
                signed(self.erased_to),
                signed(self.epoch),
            ])?;
        Ok(moved(rows))
    }

    /// Moves the checkpoint from what it was read as to `to`, if it is still that.
    pub(crate) fn advance(
        &self,
        connection: &Connection,
        to: &Self,
    ) -> Result<Moved, rusqlite::Error> {
        debug_assert!(self.edition == to.edition && self.log == to.log);
        let rows = connection
            .prepare_cached(
                "UPDATE checkpoint SET pos = ?1, chain = ?2, erased_to = ?3, epoch = ?4
                 WHERE edition = ?5 AND log = ?6 AND pos = ?7 AND chain = ?8 AND erased_to = ?9
                   AND epoch = ?10",
            )?
            .execute(params![
                signed(to.pos),
                to.chain.0.as_slice(),
                signed(to.erased_to),
                signed(to.epoch),
                self.edition.0,
                self.log.as_bytes().as_slice(),
                signed(self.pos),
                self.chain.0.as_slice(),
                signed(self.erased_to),
                signed(self.epoch),
            ])?;
        Ok(moved(rows))
    }

    /// Deletes the checkpoint if it is still what it was read as.
    pub(crate) fn remove(&self, connection: &Connection) -> Result<Moved, rusqlite::Error> {
        let rows = connection.execute(
            "DELETE FROM checkpoint WHERE edition = ?1 AND log = ?2 AND pos = ?3 AND epoch = ?4",
            params![
                self.edition.0,
                self.log.as_bytes().as_slice(),
                signed(self.pos),
                signed(self.epoch),
            ],
        )?;
        Ok(moved(rows))
    }

    fn from_row(row: &Row<'_>) -> Result<Self, rusqlite::Error> {
        let log: Vec<u8> = row.get(1)?;
        let chain: Vec<u8> = row.get(3)?;
        let damaged = |column| {
            rusqlite::Error::FromSqlConversionFailure(
                column,
                rusqlite::types::Type::Blob,
                "not a checkpoint".into(),
            )
        };
        let number =
            |column| u64::try_from(row.get::<_, i64>(column)?).map_err(|_| damaged(column));
        Ok(Self {
            edition: EditionId(row.get(0)?),
            log: LogId::from_slice(&log).ok_or_else(|| damaged(1))?,
            pos: number(2)?,
            chain: ChainHash::from_slice(&chain).ok_or_else(|| damaged(3))?,
            erased_to: number(4)?,
            epoch: number(5)?,
        })
    }
}

fn moved(rows: usize) -> Moved {
    if rows == 1 {
        Moved::Yes
    } else {
        Moved::Contended
    }
}

/// SQLite has no unsigned numbers; positions stay far below the limit.
pub(crate) fn signed(pos: u64) -> i64 {
    i64::try_from(pos).unwrap_or(i64::MAX)
}
