//! The rows of projections as of any moment, folded from the logs.

use std::sync::Arc;

use cocoonbox_events::{LogId, LogInfo, Store};
use cocoonbox_projections::{
    AgentRow, AuditRow, AwakeRow, BoxRow, DesktopRow, ItemRow, OperationEventRow, OperationRow,
    Projection, RoutineRow, SinceRow, SnapshotRow, UsageTotals, all, codec,
    rows::{MemoryRows, View},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{
    error::Error,
    fields::{FieldChange, compare},
    pages::Pages,
};

/// Up to where one log is folded.
#[derive(Clone, Debug)]
pub struct Upto {
    pub log: LogInfo,
    /// Inclusive.
    pub pos: u64,
}

/// One row that is otherwise at two moments.
#[derive(Clone, Debug, PartialEq)]
pub struct RowChange {
    pub view: View,
    pub key: String,
    /// Empty where a row cannot be told apart by fields.
    pub fields: Vec<FieldChange>,
    /// Which it is: a row that came, one that went, or one that is otherwise.
    pub what: RowWhat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowWhat {
    Added,
    Removed,
    Changed,
}

impl RowWhat {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Changed => "changed",
        }
    }
}

impl RowChange {
    pub fn to_json(&self) -> Value {
        json!({
            "view": self.view.name(),
            "key": self.key,
            "what": self.what.as_str(),
            "fields": self.fields.iter().map(FieldChange::to_json).collect::<Vec<_>>(),
        })
    }
}

/// A fold of projections in memory. Holds every row of them: with all projections and large logs that
/// is about what `views.db` has.
pub struct RowFold {
    projections: Vec<Box<dyn Projection>>,
    rows: MemoryRows,
    events: u64,
}

impl RowFold {
    /// Folds every projection.
    pub fn of_all() -> Self {
        Self {
            projections: all(),
            rows: MemoryRows::default(),
            events: 0,
        }
    }

    /// Folds only the projection that this view belongs to.
    pub fn of_view(view: View) -> Self {
        let mut fold = Self::of_all();
        fold.projections
            .retain(|projection| projection.views().contains(&view));
        fold
    }

    pub fn rows(&self) -> &MemoryRows {
        &self.rows
    }

    /// Events that were looked at.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Takes in what a log says behind `after` up to and with `upto`.
    pub async fn take(
        &mut self,
        store: &Arc<dyn Store>,
        upto: &Upto,
        after: u64,
        see: &mut (dyn FnMut(u64) + Send),
    ) -> Result<(), Error> {
        let id = upto.log.id;
        let wanted: Vec<&dyn Projection> = self
            .projections
            .iter()
            .map(AsRef::as_ref)
            .filter(|projection| projection.wants(upto.log.kind))
            .collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let mut pages = Pages::of_log(store, id, after)?.up_to(upto.pos);
        while let Some(events) = pages.next().await? {
            for event in &events {
                for projection in &wanted {
                    projection
                        .apply(&mut self.rows, event, &upto.log)
                        .map_err(|source| Error::Apply {
                            projection: projection.name(),
                            log: id,
                            pos: event.pos,
                            source,
                        })?;
                }
            }
            self.events += events.len() as u64;
            see(self.events);
        }
        Ok(())
    }
}

/// Compares the rows of two moments: for each log, from which position to which. Holds the rows of
/// both moments in memory.
pub async fn row_changes(
    store: &Arc<dyn Store>,
    spans: &[(LogId, u64, u64)],
    see: &mut (dyn FnMut(u64) + Send),
) -> Result<Vec<RowChange>, Error> {
    let mut fold = RowFold::of_all();
    let mut logs = Vec::new();
    for (log, from, to) in spans {
        logs.push((store.info(*log).map_err(Error::read(*log))?, *from, *to));
    }
    for (log, from, _) in &logs {
        let (log, pos) = (log.clone(), *from);
        fold.take(store, &Upto { log, pos }, 0, see).await?;
    }
    let before = fold.rows.clone();
    for (log, from, to) in logs {
        fold.take(store, &Upto { log, pos: to }, from, see).await?;
    }
    Ok(differences(&before, &fold.rows))
}

fn differences(before: &MemoryRows, after: &MemoryRows) -> Vec<RowChange> {
    let mut changes = Vec::new();
    for (view, key, value) in after.iter() {
        let was = before.value(view, key);
        if was == Some(value) {
            continue;
        }
        let old = was.map_or(Value::Null, |was| row_json(view, was));
        changes.push(RowChange {
            view,
            key: key.to_owned(),
            fields: compare(&old, &row_json(view, value)),
            what: if was.is_some() {
                RowWhat::Changed
            } else {
                RowWhat::Added
            },
        });
    }
    for (view, key, value) in before.iter() {
        if after.value(view, key).is_none() {
            changes.push(RowChange {
                view,
                key: key.to_owned(),
                fields: compare(&row_json(view, value), &Value::Null),
                what: RowWhat::Removed,
            });
        }
    }
    changes.sort_by(|a, b| (a.view.name(), &a.key).cmp(&(b.view.name(), &b.key)));
    changes
}

/// Returns a row as JSON. Rows that only their projection understands are in hex.
pub fn row_json(view: View, value: &[u8]) -> Value {
    match view {
        View::Boxes => typed::<BoxRow>(value),
        View::BoxOwners => typed::<String>(value),
        View::OperationsOpen => typed::<Vec<String>>(value),
        View::Operations => typed::<OperationRow>(value),
        View::OperationEvents => typed::<OperationEventRow>(value),
        View::Agents => typed::<AgentRow>(value),
        View::Transcript => typed::<ItemRow>(value),
        View::Audit => typed::<AuditRow>(value),
        View::Desktops => typed::<DesktopRow>(value),
        View::Routines => typed::<RoutineRow>(value),
        View::Snapshots => typed::<SnapshotRow>(value),
        View::Awake => typed::<AwakeRow>(value),
        View::AwakeSince => typed::<SinceRow>(value),
        View::Usage => typed::<UsageTotals>(value),
        View::TranscriptMarks => Value::String(hex::encode(value)),
    }
}

fn typed<T: Serialize + DeserializeOwned>(value: &[u8]) -> Value {
    codec::decode::<T>(value)
        .ok()
        .and_then(|row| serde_json::to_value(row).ok())
        .unwrap_or_else(|| Value::String(hex::encode(value)))
}
