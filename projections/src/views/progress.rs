//! How far each projection is in each log, as the running process knows it.

use std::collections::{BTreeMap, BTreeSet};

use cocoonbox_events::{Kind, LogId};

use crate::{
    compare::Compared,
    database::{EditionId, Stop},
};

/// A projection that stopped in one log, at an event which it cannot take in. It stays stopped until
/// the process starts again or the log is folded anew; the event is never skipped. A build that can read
/// the event goes on from there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Degraded {
    pub projection: &'static str,
    pub log: LogId,
    /// Position of the event.
    pub pos: u64,
    /// Number of its kind.
    pub kind: u32,
    /// Version of its kind.
    pub kind_version: u32,
    /// The error with its causes.
    pub error: String,
}

impl Degraded {
    pub(crate) fn of(projection: &'static str, stop: &Stop) -> Self {
        Self {
            projection,
            log: stop.log,
            pos: stop.pos,
            kind: stop.kind,
            kind_version: stop.kind_version,
            error: stop.error.clone(),
        }
    }

    /// The kind's name in the registry, or `unknown.<number>`.
    pub fn kind_name(&self) -> String {
        Kind::from_number(self.kind).map_or_else(
            || format!("unknown.{}", self.kind),
            |kind| kind.name().to_owned(),
        )
    }
}

/// Rows that are being built beside those that answer, or before anything answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Building {
    pub projection: &'static str,
    pub edition: EditionId,
    pub version: u32,
    /// Whether other rows answer meanwhile; if not, questions are refused.
    pub answers: bool,
    /// Events taken in, of those that there are.
    pub done: u64,
    pub of: u64,
    /// Every event is taken in, and the rows are being compared with those that answer.
    pub comparing: bool,
    /// Why it cannot come to its end: it stopped where the rows that answer did not.
    pub blocked: Option<Degraded>,
}

/// The end of a rebuild that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rebuilt {
    pub projection: &'static str,
    pub edition: EditionId,
    /// `None` if there was nothing to compare with.
    pub compared: Option<Compared>,
}

#[derive(Debug, Default)]
pub(crate) struct Progress {
    logs: BTreeMap<LogId, BTreeMap<&'static str, Standing>>,
    /// Projections without rows that can be read.
    unserved: BTreeSet<&'static str>,
    building: BTreeMap<&'static str, Building>,
    /// The last one of each projection.
    rebuilt: BTreeMap<&'static str, Rebuilt>,
    folded: BTreeMap<&'static str, Folded>,
    looked: Option<tokio::time::Instant>,
}

/// Events taken in since the process began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Folded {
    /// Into rows that answer, or that nothing answers instead of.
    pub live: u64,
    /// Into rows that are built beside those.
    pub built: u64,
}

#[derive(Clone, Debug, Default)]
struct Standing {
    pos: u64,
    stopped: Option<Degraded>,
}

impl Progress {
    pub(crate) fn set(&mut self, projection: &'static str, log: LogId, pos: u64) {
        let standing = Standing { pos, stopped: None };
        self.logs
            .entry(log)
            .or_default()
            .insert(projection, standing);
    }

    /// Notes which projections take a log in, so that it is not said to be reached before all have.
    pub(crate) fn expect(&mut self, log: LogId, projections: impl Iterator<Item = &'static str>) {
        let standings = self.logs.entry(log).or_default();
        for projection in projections {
            standings.entry(projection).or_default();
        }
    }

    pub(crate) fn stop(&mut self, stopped: Degraded) {
        let log = self.logs.entry(stopped.log).or_default();
        let standing = log.entry(stopped.projection).or_default();
        standing.stopped = Some(stopped);
    }

    /// Forgets where a projection is; it is told again.
    pub(crate) fn forget(&mut self, projection: &'static str) {
        for standings in self.logs.values_mut() {
            standings.remove(projection);
        }
    }

    /// Forgets one projection in one log.
    pub(crate) fn leave(&mut self, projection: &'static str, log: LogId) {
        if let Some(standings) = self.logs.get_mut(&log) {
            standings.remove(projection);
            if standings.is_empty() {
                self.logs.remove(&log);
            }
        }
    }

    pub(crate) fn set_served(&mut self, projection: &'static str, served: bool) {
        if served {
            self.unserved.remove(projection);
        } else {
            self.unserved.insert(projection);
        }
    }

    pub(crate) fn add_folded(&mut self, projection: &'static str, events: u64, leads: bool) {
        let folded = self.folded.entry(projection).or_default();
        *(if leads {
            &mut folded.live
        } else {
            &mut folded.built
        }) += events;
    }

    pub(crate) fn folded(&self) -> Vec<(&'static str, Folded)> {
        self.folded
            .iter()
            .map(|(name, folded)| (*name, *folded))
            .collect()
    }

    pub(crate) fn look(&mut self) {
        self.looked = Some(tokio::time::Instant::now());
    }

    pub(crate) fn looked_ago(&self) -> Option<std::time::Duration> {
        self.looked.map(|looked| looked.elapsed())
    }

    pub(crate) fn set_building(&mut self, building: Building) {
        self.building.insert(building.projection, building);
    }

    pub(crate) fn built(&mut self, projection: &'static str) {
        self.building.remove(projection);
    }

    pub(crate) fn set_rebuilt(&mut self, rebuilt: Rebuilt) {
        self.rebuilt.insert(rebuilt.projection, rebuilt);
    }

    pub(crate) fn building(&self) -> Vec<Building> {
        self.building.values().cloned().collect()
    }

    pub(crate) fn rebuilt(&self, projection: &str) -> Option<Rebuilt> {
        self.rebuilt.get(projection).cloned()
    }

    pub(crate) fn reached(&self, log: LogId) -> Option<u64> {
        let standings = self.logs.get(&log)?;
        if standings.keys().any(|name| self.unserved.contains(name)) {
            return None;
        }
        standings
            .values()
            .filter(|at| at.stopped.is_none())
            .map(|at| at.pos)
            .min()
    }

    /// Where a projection is in a log, if it has met it.
    pub(crate) fn position(&self, projection: &str, log: LogId) -> Option<u64> {
        Some(self.logs.get(&log)?.get(projection)?.pos)
    }

    pub(crate) fn is_served(&self, projection: &str) -> bool {
        !self.unserved.contains(projection)
    }

    pub(crate) fn degraded(&self) -> Vec<Degraded> {
        self.logs
            .values()
            .flat_map(|standings| standings.values())
            .filter_map(|standing| standing.stopped.clone())
            .collect()
    }
}
