//! Rows in memory: for rebuilds that are compared, and for tests.

use std::{
    collections::BTreeMap,
    ops::Bound::{Excluded, Included},
};

use rusqlite::Connection;

use crate::{
    database::EditionId,
    row_key,
    rows::{Error, Rows, SCAN_ROWS_MAX, View},
};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryRows(BTreeMap<(View, String), Vec<u8>>);

impl MemoryRows {
    /// Returns every row in order of view and key.
    pub fn iter(&self) -> impl Iterator<Item = (View, &str, &[u8])> {
        self.0
            .iter()
            .map(|((view, key), value)| (*view, key.as_str(), value.as_slice()))
    }

    pub fn value(&self, view: View, key: &str) -> Option<&[u8]> {
        self.0.get(&(view, key.to_owned())).map(Vec::as_slice)
    }

    /// Reads every row of an edition.
    pub(crate) fn load(
        &mut self,
        connection: &Connection,
        edition: EditionId,
    ) -> Result<(), rusqlite::Error> {
        let mut statement =
            connection.prepare("SELECT view, key, value FROM row WHERE edition = ?1")?;
        let mut found = statement.query([edition.0])?;
        while let Some(row) = found.next()? {
            let name: String = row.get(0)?;
            // A view that no projection of this build has is nobody's.
            if let Some(view) = View::from_name(&name) {
                self.0.insert((view, row.get(1)?), row.get(2)?);
            }
        }
        Ok(())
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Rows for MemoryRows {
    fn get(&self, view: View, key: &str) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.0.get(&(view, key.to_owned())).cloned())
    }

    fn put(&mut self, view: View, key: &str, value: &[u8]) -> Result<(), Error> {
        self.0.insert((view, key.to_owned()), value.to_vec());
        Ok(())
    }

    fn delete(&mut self, view: View, key: &str) -> Result<(), Error> {
        self.0.remove(&(view, key.to_owned()));
        Ok(())
    }

    fn delete_prefix(&mut self, view: View, prefix: &str) -> Result<(), Error> {
        self.0
            .retain(|(of, key), _| *of != view || !key.starts_with(prefix));
        Ok(())
    }

    fn scan(
        &self,
        view: View,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, Vec<u8>)>, Error> {
        let from = after
            .filter(|after| *after > prefix)
            .unwrap_or(prefix)
            .to_owned();
        let behind = row_key::behind(prefix);
        if from >= behind {
            return Ok(Vec::new());
        }
        Ok(self
            .0
            .range((Excluded((view, from)), Included((view, behind.clone()))))
            .filter(|((_, key), _)| *key != behind)
            .take(limit.min(SCAN_ROWS_MAX))
            .map(|((_, key), value)| (key.clone(), value.clone()))
            .collect())
    }

    fn scan_back(
        &self,
        view: View,
        prefix: &str,
        before: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, Vec<u8>)>, Error> {
        let behind = row_key::behind(prefix);
        let to = before
            .filter(|before| *before < behind.as_str())
            .unwrap_or(&behind)
            .to_owned();
        if to.as_str() <= prefix {
            return Ok(Vec::new());
        }
        Ok(self
            .0
            .range((Excluded((view, prefix.to_owned())), Excluded((view, to))))
            .rev()
            .take(limit.min(SCAN_ROWS_MAX))
            .map(|((_, key), value)| (key.clone(), value.clone()))
            .collect())
    }
}
