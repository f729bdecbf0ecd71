//! How far each projection is in each log, as the running process knows it.

use std::collections::BTreeMap;

use cocoonbox_events::LogId;

/// A projection that stopped in one log, at an event which it cannot take in. It stays stopped until
/// the process starts again or the log is folded anew; the event is never skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Degraded {
    pub projection: &'static str,
    pub log: LogId,
    /// Position of the event.
    pub pos: u64,
    /// The error with its causes.
    pub error: String,
}

#[derive(Debug, Default)]
pub(crate) struct Progress {
    logs: BTreeMap<LogId, BTreeMap<&'static str, Standing>>,
}

#[derive(Clone, Debug, Default)]
struct Standing {
    pos: u64,
    stopped: Option<(u64, String)>,
}

impl Progress {
    pub(crate) fn set(&mut self, projection: &'static str, log: LogId, pos: u64) {
        let standing = self
            .logs
            .entry(log)
            .or_default()
            .entry(projection)
            .or_default();
        *standing = Standing { pos, stopped: None };
    }

    pub(crate) fn stop(&mut self, projection: &'static str, log: LogId, pos: u64, error: String) {
        let standing = self
            .logs
            .entry(log)
            .or_default()
            .entry(projection)
            .or_default();
        standing.stopped = Some((pos, error));
    }

    pub(crate) fn reached(&self, log: LogId) -> Option<u64> {
        self.logs
            .get(&log)?
            .values()
            .filter(|at| at.stopped.is_none())
            .map(|at| at.pos)
            .min()
    }

    pub(crate) fn degraded(&self) -> Vec<Degraded> {
        let mut all = Vec::new();
        for (log, projections) in &self.logs {
            for (projection, standing) in projections {
                if let Some((pos, error)) = &standing.stopped {
                    let error = error.clone();
                    all.push(Degraded {
                        projection,
                        log: *log,
                        pos: *pos,
                        error,
                    });
                }
            }
        }
        all
    }
}
