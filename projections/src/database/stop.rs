//! Where projections have stopped, kept for who looks at the file without the process.

use cocoonbox_events::LogId;
use rusqlite::{Connection, Row, params, types::Type};

use crate::database::{EditionId, checkpoint::signed};

/// An event that an edition cannot take in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    pub edition: EditionId,
    pub log: LogId,
    pub pos: u64,
    /// Number of its kind.
    pub kind: u32,
    pub kind_version: u32,
    /// The error with its causes.
    pub error: String,
}

impl Stop {
    pub(crate) fn load_all(connection: &Connection) -> Result<Vec<Self>, rusqlite::Error> {
        connection
            .prepare_cached(
                "SELECT edition, log, pos, kind, kind_version, error FROM stopped
                 ORDER BY edition, log",
            )?
            .query_map([], Self::from_row)?
            .collect()
    }

    pub(crate) fn put(&self, connection: &Connection) -> Result<(), rusqlite::Error> {
        connection
            .prepare_cached(
                "INSERT OR REPLACE INTO stopped (edition, log, pos, kind, kind_version, error)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute(params![
                self.edition.0,
                self.log.as_bytes().as_slice(),
                signed(self.pos),
                self.kind,
                self.kind_version,
                self.error,
            ])?;
        Ok(())
    }

    pub(crate) fn remove(
        connection: &Connection,
        edition: EditionId,
        log: LogId,
    ) -> Result<(), rusqlite::Error> {
        connection
            .prepare_cached("DELETE FROM stopped WHERE edition = ?1 AND log = ?2")?
            .execute(params![edition.0, log.as_bytes().as_slice()])?;
        Ok(())
    }

    fn from_row(row: &Row<'_>) -> Result<Self, rusqlite::Error> {
        let log: Vec<u8> = row.get(1)?;
        let damaged = |column| {
            rusqlite::Error::FromSqlConversionFailure(column, Type::Blob, "not a stop".into())
        };
        Ok(Self {
            edition: EditionId(row.get(0)?),
            log: LogId::from_slice(&log).ok_or_else(|| damaged(1))?,
            pos: u64::try_from(row.get::<_, i64>(2)?).map_err(|_| damaged(2))?,
            kind: row.get(3)?,
            kind_version: row.get(4)?,
            error: row.get(5)?,
        })
    }
}
