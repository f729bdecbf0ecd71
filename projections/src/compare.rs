//! Proof that views are what their logs say: everything is folded again in memory and compared.

use cocoonbox_events::{LogId, ReadError, Store, limits::PAGE_EVENTS_MAX};

use crate::{
    projection::ApplyError,
    rows::{MemoryRows, View},
    views::{Views, ViewsError},
};

/// Differences that a report names; more are only counted.
const DIFFERENCES_MAX: usize = 100;

/// What a comparison found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub projections: Vec<ProjectionReport>,
    /// The first rows that differ.
    pub differences: Vec<Difference>,
    /// How many rows differ.
    pub differing: usize,
}

/// One projection's part of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectionReport {
    pub name: &'static str,
    pub logs: usize,
    /// Events folded, those that say nothing to the projection included.
    pub events: u64,
    /// Rows rebuilt.
    pub rows: usize,
}

/// One row that is not what its log says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub view: View,
    pub key: String,
    pub what: Differs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Differs {
    /// The log says it, the view has it not.
    Missing,
    /// The view has it, the log does not say it.
    Extra,
    /// Both have it with other content.
    Content,
}

#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    #[error("reading the views")]
    Views(#[from] ViewsError),
    #[error("reading log {log}")]
    Read {
        log: LogId,
        #[source]
        source: ReadError,
    },
    #[error("projection `{projection}` cannot take in event {pos} of log {log}")]
    Apply {
        projection: &'static str,
        log: LogId,
        pos: u64,
        #[source]
        source: ApplyError,
    },
    /// The views were made from another history of the log; the runner builds them again.
    #[error("projection `{projection}` has seen another history of log {log} than is there")]
    OtherHistory { projection: String, log: LogId },
}

impl Report {
    pub fn is_equal(&self) -> bool {
        self.differing == 0
    }
}

/// Folds every projection again, each log up to where the live views are, and compares row by row.
///
/// Holds all rows in memory twice. An erasure that is done and not yet said in the log (or said and
/// not yet seen by the runner) shows as a difference: let the views reach the tail first.
pub async fn rebuild_and_compare(store: &dyn Store, views: &Views) -> Result<Report, CompareError> {
    let (checkpoints, live) = views.snapshot().await?;
    let logs = store.logs();
    let mut rebuilt = MemoryRows::default();
    let mut report = Report::default();
    for projection in views.projections() {
        let name = projection.name();
        let before = rebuilt.len();
        let mut part = ProjectionReport {
            name,
            logs: 0,
            events: 0,
            rows: 0,
        };
        for checkpoint in checkpoints.iter().filter(|found| found.projection == name) {
            let id = checkpoint.log;
            let read = |source| CompareError::Read { log: id, source };
            let other = || CompareError::OtherHistory {
                projection: name.to_owned(),
                log: id,
            };
            let log = logs.iter().find(|log| log.id == id).ok_or_else(other)?;
            if log.tail.pos < checkpoint.pos
                || store.chain_at(id, checkpoint.pos).await.map_err(read)? != checkpoint.chain
            {
                return Err(other());
            }
            let mut after = 0;
            while after < checkpoint.pos {
                let page = store.read(id, after, PAGE_EVENTS_MAX).await.map_err(read)?;
                let Some(last) = page.events.last() else {
                    return Err(other());
                };
                after = last.pos;
                for event in page
                    .events
                    .iter()
                    .filter(|event| event.pos <= checkpoint.pos)
                {
                    projection
                        .apply(&mut rebuilt, event, log)
                        .map_err(|source| CompareError::Apply {
                            projection: name,
                            log: id,
                            pos: event.pos,
                            source,
                        })?;
                    part.events += 1;
                }
            }
            part.logs += 1;
        }
        part.rows = rebuilt.len() - before;
        report.projections.push(part);
    }
    compare(&live, &rebuilt, &mut report);
    Ok(report)
}

fn compare(live: &MemoryRows, rebuilt: &MemoryRows, report: &mut Report) {
    let mut differs = |view: View, key: &str, what| {
        report.differing += 1;
        if report.differences.len() < DIFFERENCES_MAX {
            report.differences.push(Difference {
                view,
                key: key.to_owned(),
                what,
            });
        }
    };
    for (view, key, value) in rebuilt.iter() {
        match live.value(view, key) {
            None => differs(view, key, Differs::Missing),
            Some(found) if found != value => differs(view, key, Differs::Content),
            Some(_) => {}
        }
    }
    for (view, key, _) in live.iter() {
        if rebuilt.value(view, key).is_none() {
            differs(view, key, Differs::Extra);
        }
    }
}
