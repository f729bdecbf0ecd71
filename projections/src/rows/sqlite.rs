//! Rows in SQLite: one table for all editions and views.

use rusqlite::{Connection, OptionalExtension, params};

use crate::{
    database::{Edition, EditionId},
    projection::Projection,
    row_key,
    rows::{Error, Rows, SCAN_ROWS_MAX, View},
};

/// Rows behind a connection, in whatever transaction it has open. Readers' connections are opened
/// `query_only`, so that writing through one is an error of SQLite's.
pub struct SqliteRows<'a> {
    connection: &'a Connection,
    select: Select<'a>,
}

enum Select<'a> {
    /// The rows of one edition: what a fold sees.
    Edition(EditionId),
    /// Of each view the rows that answer at the moment: what a reader sees.
    Serving(&'a [Box<dyn Projection>]),
}

impl<'a> SqliteRows<'a> {
    pub(crate) fn of(connection: &'a Connection, edition: EditionId) -> Self {
        Self {
            connection,
            select: Select::Edition(edition),
        }
    }

    pub(crate) fn serving(
        connection: &'a Connection,
        projections: &'a [Box<dyn Projection>],
    ) -> Self {
        Self {
            connection,
            select: Select::Serving(projections),
        }
    }

    /// Asked within the transaction of the read, so that the rows cannot go before they are read.
    fn edition(&self, view: View) -> Result<i64, Error> {
        let projections = match self.select {
            Select::Edition(edition) => return Ok(edition.0),
            Select::Serving(projections) => projections,
        };
        let projection = projections
            .iter()
            .find(|projection| projection.views().contains(&view))
            .ok_or(Error::Unkept { view })?;
        let serving = Edition::serving(self.connection, &**projection)?;
        let projection = projection.name();
        Ok(serving.ok_or(Error::Building { projection })?.id.0)
    }
}

impl Rows for SqliteRows<'_> {
    fn get(&self, view: View, key: &str) -> Result<Option<Vec<u8>>, Error> {
        let edition = self.edition(view)?;
        Ok(self
            .connection
            .prepare_cached("SELECT value FROM row WHERE edition = ?1 AND view = ?2 AND key = ?3")?
            .query_row(params![edition, view.name(), key], |row| row.get(0))
            .optional()?)
    }

    fn put(&mut self, view: View, key: &str, value: &[u8]) -> Result<(), Error> {
        let edition = self.edition(view)?;
        self.connection
            .prepare_cached(
                "INSERT INTO row (edition, view, key, value) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (edition, view, key) DO UPDATE SET value = excluded.value",
            )?
            .execute(params![edition, view.name(), key, value])?;
        Ok(())
    }

    fn delete(&mut self, view: View, key: &str) -> Result<(), Error> {
        let edition = self.edition(view)?;
        self.connection
            .prepare_cached("DELETE FROM row WHERE edition = ?1 AND view = ?2 AND key = ?3")?
            .execute(params![edition, view.name(), key])?;
        Ok(())
    }

    fn delete_prefix(&mut self, view: View, prefix: &str) -> Result<(), Error> {
        let edition = self.edition(view)?;
        self.connection
            .prepare_cached(
                "DELETE FROM row WHERE edition = ?1 AND view = ?2 AND key > ?3 AND key < ?4",
            )?
            .execute(params![
                edition,
                view.name(),
                prefix,
                row_key::behind(prefix)
            ])?;
        Ok(())
    }

    fn scan(
        &self,
        view: View,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, Vec<u8>)>, Error> {
        let edition = self.edition(view)?;
        let from = after.filter(|after| *after > prefix).unwrap_or(prefix);
        let limit = i64::try_from(limit.min(SCAN_ROWS_MAX)).unwrap_or(i64::MAX);
        let mut statement = self.connection.prepare_cached(
            "SELECT key, value FROM row WHERE edition = ?1 AND view = ?2 AND key > ?3 AND key < ?4
             ORDER BY key LIMIT ?5",
        )?;
        let found = statement
            .query_map(
                params![edition, view.name(), from, row_key::behind(prefix), limit],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )?
            .collect::<Result<Vec<_>, _>>()?;
        Ok(found)
    }

    fn scan_back(
        &self,
        view: View,
        prefix: &str,
        before: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, Vec<u8>)>, Error> {
        let edition = self.edition(view)?;
        let behind = row_key::behind(prefix);
        let to = before
            .filter(|before| *before < behind.as_str())
            .unwrap_or(&behind);
        let limit = i64::try_from(limit.min(SCAN_ROWS_MAX)).unwrap_or(i64::MAX);
        let mut statement = self.connection.prepare_cached(
            "SELECT key, value FROM row WHERE edition = ?1 AND view = ?2 AND key > ?3 AND key < ?4
             ORDER BY key DESC LIMIT ?5",
        )?;
        let found = statement
            .query_map(params![edition, view.name(), prefix, to, limit], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?
            .collect::<Result<Vec<_>, _>>()?;
        Ok(found)
    }
}
