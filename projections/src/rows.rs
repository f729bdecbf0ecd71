//! Rows: the only thing a projection can read and write.

mod memory;
mod sqlite;

pub use memory::MemoryRows;
pub use sqlite::SqliteRows;

use serde::{Serialize, de::DeserializeOwned};

use crate::codec;

/// Rows that one scan returns at most, so that no reader holds its transaction for long.
pub const SCAN_ROWS_MAX: usize = 1_000;

/// A named set of rows. Each belongs to one projection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum View {
    /// `<user>/<box>` to [`crate::BoxRow`].
    Boxes,
    /// `<box>` to the id of its owner.
    BoxOwners,
    /// `<user>/<operation>` to [`crate::OperationRow`].
    Operations,
    /// `<user>/<operation>/<pos>` to [`crate::OperationEventRow`].
    OperationEvents,
    /// `<user>/<box>` to the id of the operation under way.
    OperationsOpen,
    /// `<box log>/<agent>` to [`crate::AgentRow`].
    Agents,
    /// `<box log>/<agent>/<pos>.<block>` to [`crate::ItemRow`].
    Transcript,
    /// `<box log>/<agent>/<kind>/<id>` to what later events need to know.
    TranscriptMarks,
    /// `<user>/<time>/<account log>/<pos>` to [`crate::AuditRow`].
    Audit,
    /// `<box log>` to [`crate::DesktopRow`].
    Desktops,
    /// `<user>/<routine>` to [`crate::RoutineRow`].
    Routines,
    /// `<user>/<box>/<snapshot>` to [`crate::SnapshotRow`].
    Snapshots,
    /// `<user>/<day>/<box>` to [`crate::AwakeRow`].
    Awake,
    /// `<user>/<box>` to [`crate::SinceRow`].
    AwakeSince,
    /// `<user>/<day>/<box>/<agent>/<role>/<vendor>/<model>` to [`crate::UsageTotals`].
    Usage,
}

impl View {
    pub const ALL: [Self; 15] = [
        Self::Boxes,
        Self::BoxOwners,
        Self::Operations,
        Self::OperationEvents,
        Self::OperationsOpen,
        Self::Agents,
        Self::Transcript,
        Self::TranscriptMarks,
        Self::Audit,
        Self::Desktops,
        Self::Routines,
        Self::Snapshots,
        Self::Awake,
        Self::AwakeSince,
        Self::Usage,
    ];

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|view| view.name() == name)
    }

    /// The name in the database and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Boxes => "boxes",
            Self::BoxOwners => "box_owners",
            Self::Operations => "operations",
            Self::OperationEvents => "operation_events",
            Self::OperationsOpen => "operations_open",
            Self::Agents => "agents",
            Self::Transcript => "transcript",
            Self::TranscriptMarks => "transcript_marks",
            Self::Audit => "audit",
            Self::Desktops => "desktops",
            Self::Routines => "routines",
            Self::Snapshots => "snapshots",
            Self::Awake => "awake",
            Self::AwakeSince => "awake_since",
            Self::Usage => "usage",
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("row `{key}` of view `{view}`", view = .view.name())]
    Codec {
        view: View,
        key: String,
        #[source]
        source: codec::Error,
    },
    #[error("the views' database")]
    Database(#[from] rusqlite::Error),
    /// No edition of the rows is complete that this build can read.
    #[error("the rows of `{projection}` are being built")]
    Building { projection: &'static str },
    /// A question about a view that none of the projections here keeps.
    #[error("view `{view}` is kept by no projection", view = .view.name())]
    Unkept { view: View },
}

/// Rows by view and key, sorted by key.
pub trait Rows {
    fn get(&self, view: View, key: &str) -> Result<Option<Vec<u8>>, Error>;

    fn put(&mut self, view: View, key: &str, value: &[u8]) -> Result<(), Error>;

    fn delete(&mut self, view: View, key: &str) -> Result<(), Error>;

    /// Deletes every row whose key starts with `prefix`, which ends in `/`.
    fn delete_prefix(&mut self, view: View, prefix: &str) -> Result<(), Error>;

    /// Returns at most `limit` (and [`SCAN_ROWS_MAX`]) rows whose key starts with `prefix`, which ends
    /// in `/`, and is greater than `after`.
    fn scan(
        &self,
        view: View,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, Vec<u8>)>, Error>;

    /// Returns at most `limit` (and [`SCAN_ROWS_MAX`]) rows whose key starts with `prefix`, which ends
    /// in `/`, and is less than `before`; the greatest first.
    fn scan_back(
        &self,
        view: View,
        prefix: &str,
        before: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, Vec<u8>)>, Error>;
}

/// Reads a typed row.
pub fn get<T: DeserializeOwned>(
    rows: &dyn Rows,
    view: View,
    key: &str,
) -> Result<Option<T>, Error> {
    rows.get(view, key)?
        .map(|bytes| decode(view, key, &bytes))
        .transpose()
}

/// Writes a typed row.
pub fn put<T: Serialize>(rows: &mut dyn Rows, view: View, key: &str, row: &T) -> Result<(), Error> {
    let value = codec::encode(row).map_err(|source| codec_error(view, key, source))?;
    rows.put(view, key, &value)
}

/// Reads typed rows; see [`Rows::scan`].
pub fn scan<T: DeserializeOwned>(
    rows: &dyn Rows,
    view: View,
    prefix: &str,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<(String, T)>, Error> {
    rows.scan(view, prefix, after, limit)?
        .into_iter()
        .map(|(key, value)| decode(view, &key, &value).map(|row| (key, row)))
        .collect()
}

/// Reads typed rows; see [`Rows::scan_back`].
pub fn scan_back<T: DeserializeOwned>(
    rows: &dyn Rows,
    view: View,
    prefix: &str,
    before: Option<&str>,
    limit: usize,
) -> Result<Vec<(String, T)>, Error> {
    rows.scan_back(view, prefix, before, limit)?
        .into_iter()
        .map(|(key, value)| decode(view, &key, &value).map(|row| (key, row)))
        .collect()
}

/// Reads every typed row with a prefix, in pages.
pub fn scan_all<T: DeserializeOwned>(
    rows: &dyn Rows,
    view: View,
    prefix: &str,
) -> Result<Vec<(String, T)>, Error> {
    let mut all: Vec<(String, T)> = Vec::new();
    loop {
        let after = all.last().map(|(key, _)| key.clone());
        let page = scan(rows, view, prefix, after.as_deref(), SCAN_ROWS_MAX)?;
        let full = page.len() == SCAN_ROWS_MAX;
        all.extend(page);
        if !full {
            return Ok(all);
        }
    }
}

fn decode<T: DeserializeOwned>(view: View, key: &str, value: &[u8]) -> Result<T, Error> {
    codec::decode(value).map_err(|source| codec_error(view, key, source))
}

fn codec_error(view: View, key: &str, source: codec::Error) -> Error {
    Error::Codec {
        view,
        key: key.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests;
