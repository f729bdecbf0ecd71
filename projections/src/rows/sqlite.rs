//! Rows in SQLite: one table for all views.

use rusqlite::{Connection, OptionalExtension, params};

use crate::{
    row_key,
    rows::{Error, Rows, SCAN_ROWS_MAX, View},
};

/// Rows behind a connection, in whatever transaction it has open. Readers' connections are opened
/// `query_only`, so that writing through one is an error of SQLite's.
pub struct SqliteRows<'a>(pub(crate) &'a Connection);

impl Rows for SqliteRows<'_> {
    fn get(&self, view: View, key: &str) -> Result<Option<Vec<u8>>, Error> {
        Ok(self
            .0
            .prepare_cached("SELECT value FROM row WHERE view = ?1 AND key = ?2")?
            .query_row(params![view.name(), key], |row| row.get(0))
            .optional()?)
    }

    fn put(&mut self, view: View, key: &str, value: &[u8]) -> Result<(), Error> {
        self.0
            .prepare_cached(
                "INSERT INTO row (view, key, value) VALUES (?1, ?2, ?3)
                 ON CONFLICT (view, key) DO UPDATE SET value = excluded.value",
            )?
            .execute(params![view.name(), key, value])?;
        Ok(())
    }

    fn delete(&mut self, view: View, key: &str) -> Result<(), Error> {
        self.0
            .prepare_cached("DELETE FROM row WHERE view = ?1 AND key = ?2")?
            .execute(params![view.name(), key])?;
        Ok(())
    }

    fn delete_prefix(&mut self, view: View, prefix: &str) -> Result<(), Error> {
        self.0
            .prepare_cached("DELETE FROM row WHERE view = ?1 AND key > ?2 AND key < ?3")?
            .execute(params![view.name(), prefix, row_key::behind(prefix)])?;
        Ok(())
    }

    fn scan(
        &self,
        view: View,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, Vec<u8>)>, Error> {
        let from = after.filter(|after| *after > prefix).unwrap_or(prefix);
        let limit = i64::try_from(limit.min(SCAN_ROWS_MAX)).unwrap_or(i64::MAX);
        let mut statement = self.0.prepare_cached(
            "SELECT key, value FROM row WHERE view = ?1 AND key > ?2 AND key < ?3
             ORDER BY key LIMIT ?4",
        )?;
        let found = statement
            .query_map(
                params![view.name(), from, row_key::behind(prefix), limit],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )?
            .collect::<Result<Vec<_>, _>>()?;
        Ok(found)
    }
}
