//! Editions: one set of rows of one projection.
//!
//! A projection of another version, or one that an operator wants built again, gets an edition of its own
//! beside the one that answers. Both lie in the same tables; what tells them apart is their number.

use rusqlite::{Connection, OptionalExtension, Row, params, types::Type};

use crate::projection::Projection;

/// Rows of a dropped edition that one transaction deletes: a few milliseconds.
const SWEEP_ROWS: i64 = 2_000;

/// Names an edition. Never given out twice in one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EditionId(pub(crate) i64);

/// How far an edition is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Being folded from position 1; answers nothing.
    Building,
    /// Answers, for builds that read its version.
    Complete,
    /// Its rows are being deleted.
    Dropped,
}

/// One edition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edition {
    pub id: EditionId,
    pub projection: String,
    pub version: u32,
    pub state: State,
    /// Whether it is compared with the edition that it replaces, row by row.
    pub compare: bool,
}

impl State {
    fn number(self) -> i64 {
        match self {
            Self::Building => 1,
            Self::Complete => 2,
            Self::Dropped => 3,
        }
    }

    fn from_number(number: i64) -> Option<Self> {
        [Self::Building, Self::Complete, Self::Dropped]
            .into_iter()
            .find(|state| state.number() == number)
    }
}

impl Edition {
    pub(crate) fn load_all(connection: &Connection) -> Result<Vec<Self>, rusqlite::Error> {
        connection
            .prepare_cached(
                "SELECT edition, projection, version, state, compare FROM edition ORDER BY edition",
            )?
            .query_map([], Self::from_row)?
            .collect()
    }

    /// Begins an edition of a projection.
    pub(crate) fn begin(
        connection: &Connection,
        projection: &str,
        version: u32,
        compare: bool,
    ) -> Result<Self, rusqlite::Error> {
        connection.execute(
            "INSERT INTO edition (projection, version, state, compare) VALUES (?1, ?2, ?3, ?4)",
            params![projection, version, State::Building.number(), compare],
        )?;
        Ok(Self {
            id: EditionId(connection.last_insert_rowid()),
            projection: projection.to_owned(),
            version,
            state: State::Building,
            compare,
        })
    }

    /// Lets a built edition answer. Returns false if it is not being built any more.
    pub(crate) fn complete(
        connection: &Connection,
        id: EditionId,
    ) -> Result<bool, rusqlite::Error> {
        let changed = connection.execute(
            "UPDATE edition SET state = ?1 WHERE edition = ?2 AND state = ?3",
            params![State::Complete.number(), id.0, State::Building.number()],
        )?;
        Ok(changed == 1)
    }

    /// Gives an edition up: from here on nobody reads it or moves its checkpoints. [`sweep`] deletes it.
    pub(crate) fn give_up(connection: &Connection, id: EditionId) -> Result<(), rusqlite::Error> {
        connection.execute(
            "UPDATE edition SET state = ?1 WHERE edition = ?2",
            params![State::Dropped.number(), id.0],
        )?;
        for table in ["checkpoint", "stopped"] {
            connection.execute(&format!("DELETE FROM {table} WHERE edition = ?1"), [id.0])?;
        }
        Ok(())
    }

    /// The edition that answers for a projection of this build: one of its version, else the newest of a
    /// version whose rows it reads.
    pub(crate) fn serving(
        connection: &Connection,
        projection: &dyn Projection,
    ) -> Result<Option<Self>, rusqlite::Error> {
        let mut statement = connection.prepare_cached(
            "SELECT edition, projection, version, state, compare FROM edition
             WHERE projection = ?1 AND state = ?2 ORDER BY version = ?3 DESC, edition DESC",
        )?;
        let mut found = statement.query(params![
            projection.name(),
            State::Complete.number(),
            projection.version()
        ])?;
        while let Some(row) = found.next()? {
            let edition = Self::from_row(row)?;
            if edition.version == projection.version() || projection.reads(edition.version) {
                return Ok(Some(edition));
            }
        }
        Ok(None)
    }

    fn from_row(row: &Row<'_>) -> Result<Self, rusqlite::Error> {
        let state = State::from_number(row.get(3)?).ok_or_else(|| {
            rusqlite::Error::FromSqlConversionFailure(3, Type::Integer, "not a state".into())
        })?;
        Ok(Self {
            id: EditionId(row.get(0)?),
            projection: row.get(1)?,
            version: row.get(2)?,
            state,
            compare: row.get(4)?,
        })
    }
}

/// Deletes some rows of editions that were given up. Returns whether there are more.
pub(crate) fn sweep(connection: &Connection) -> Result<bool, rusqlite::Error> {
    let dropped: Option<i64> = connection
        .prepare_cached("SELECT edition FROM edition WHERE state = ?1 LIMIT 1")?
        .query_row([State::Dropped.number()], |row| row.get(0))
        .optional()?;
    let Some(edition) = dropped else {
        return Ok(false);
    };
    let deleted = connection
        .prepare_cached(
            "DELETE FROM row WHERE (edition, view, key) IN
             (SELECT edition, view, key FROM row WHERE edition = ?1 LIMIT ?2)",
        )?
        .execute(params![edition, SWEEP_ROWS])?;
    if deleted == 0 {
        connection.execute("DELETE FROM edition WHERE edition = ?1", [edition])?;
    }
    Ok(true)
}
