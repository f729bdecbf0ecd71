//! Proof that views are what their logs say: everything is folded again in memory and compared.

use std::cmp::Ordering;

use cocoonbox_events::{LogId, ReadError, Store, limits::PAGE_EVENTS_MAX};
use rusqlite::{Connection, Rows as Found, Statement};

use crate::{
    database::EditionId,
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

/// What came of comparing rows that were built anew with those that answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Rows built.
    pub rows: usize,
    /// How many rows differ.
    pub differing: usize,
    /// The first of them.
    pub differences: Vec<Difference>,
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
    for (projection, checkpoints) in views.projections().iter().zip(&checkpoints) {
        let name = projection.name();
        let before = rebuilt.len();
        let mut part = ProjectionReport {
            name,
            logs: 0,
            events: 0,
            rows: 0,
        };
        for checkpoint in checkpoints {
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

/// Compares two editions row by row as they are at one moment, in constant memory. `None` if they are not
/// equally far in every log.
pub(crate) fn editions(
    connection: &Connection,
    live: EditionId,
    built: EditionId,
) -> Result<Option<Compared>, rusqlite::Error> {
    let apart: bool = connection.query_row(
        "SELECT EXISTS (SELECT log, pos FROM checkpoint WHERE edition = ?1
                        EXCEPT SELECT log, pos FROM checkpoint WHERE edition = ?2)
             OR EXISTS (SELECT log, pos FROM checkpoint WHERE edition = ?2
                        EXCEPT SELECT log, pos FROM checkpoint WHERE edition = ?1)",
        [live.0, built.0],
        |row| row.get(0),
    )?;
    if apart {
        return Ok(None);
    }
    let rows = "SELECT view, key, value FROM row WHERE edition = ?1 ORDER BY view, key";
    let (mut of_live, mut of_built) = (connection.prepare(rows)?, connection.prepare(rows)?);
    let mut live = Side::of(&mut of_live, live)?;
    let mut built = Side::of(&mut of_built, built)?;
    let mut compared = Compared::default();
    loop {
        let order = match (&live.row, &built.row) {
            (None, None) => return Ok(Some(compared)),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(live), Some(built)) => (&live.0, &live.1).cmp(&(&built.0, &built.1)),
        };
        let (what, row) = match order {
            Ordering::Less => (Some(Differs::Extra), live.row.clone()),
            Ordering::Greater => (Some(Differs::Missing), built.row.clone()),
            Ordering::Equal if live.row == built.row => (None, None),
            Ordering::Equal => (Some(Differs::Content), built.row.clone()),
        };
        if let (Some(what), Some((view, key, _))) = (what, row) {
            compared.differing += 1;
            if let Some(view) = View::from_name(&view)
                && compared.differences.len() < DIFFERENCES_MAX
            {
                compared.differences.push(Difference { view, key, what });
            }
        }
        if order != Ordering::Greater {
            live.step()?;
        }
        if order != Ordering::Less {
            compared.rows += 1;
            built.step()?;
        }
    }
}

/// The rows of one edition in order, one at a time.
struct Side<'a> {
    found: Found<'a>,
    row: Option<(String, String, Vec<u8>)>,
}

impl<'a> Side<'a> {
    fn of(statement: &'a mut Statement<'_>, edition: EditionId) -> Result<Self, rusqlite::Error> {
        let mut side = Self {
            found: statement.query([edition.0])?,
            row: None,
        };
        side.step()?;
        Ok(side)
    }

    fn step(&mut self) -> Result<(), rusqlite::Error> {
        self.row = match self.found.next()? {
            Some(row) => Some((row.get(0)?, row.get(1)?, row.get(2)?)),
            None => None,
        };
        Ok(())
    }
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
