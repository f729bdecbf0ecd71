//! How each projection does, for operators: what is behind, by how much, and why.

use cocoonbox_events::{LogId, LogInfo, Store};

use crate::{
    projection::{Projection, takes},
    views::{Building, Degraded, Views},
};

/// Logs that a condition names; more are only counted.
const NAMED_MAX: usize = 16;

/// One projection at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    pub projection: &'static str,
    /// Of this build.
    pub version: u32,
    /// Whether there are rows that answer.
    pub answers: bool,
    /// Logs that it takes in.
    pub logs: usize,
    /// Events taken in, over all logs.
    pub done: u64,
    /// Events that are not taken in yet, over all logs, those behind a stop included.
    pub lag_events: u64,
    /// The same of the log that is furthest behind.
    pub lag_events_max: u64,
    /// Age of the oldest event that is not taken in and that nothing stops, of the logs named here.
    pub lag_us: i64,
    /// Logs that are behind without being stopped, those furthest behind first.
    pub late: Vec<Late>,
    pub stopped: Vec<Degraded>,
    pub building: Option<Building>,
}

/// A log that a projection has not taken in to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Late {
    pub log: LogId,
    pub pos: u64,
    pub tail: u64,
    /// Age of the event behind `pos`.
    pub age_us: i64,
    /// The event behind `pos` cannot be read from the log, which is why it is not taken in.
    pub unreadable: bool,
}

impl Condition {
    /// Whether somebody has to look: it stopped, answers nothing, or is blocked in being built.
    pub fn is_degraded(&self) -> bool {
        let blocked = |building: &Building| building.blocked.is_some();
        !self.answers || !self.stopped.is_empty() || self.building.as_ref().is_some_and(blocked)
    }
}

/// Looks at every projection. Reads one event of at most 16 logs each.
pub async fn conditions(views: &Views, store: &dyn Store, now_us: i64) -> Vec<Condition> {
    let logs = store.logs();
    let mut conditions = views.conditions(&logs);
    for condition in &mut conditions {
        for late in &mut condition.late {
            let read = store.read(late.log, late.pos, 1).await;
            late.unreadable = read.is_err();
            let next = read.ok().and_then(|page| page.events.into_iter().next());
            late.age_us = next.map_or(0, |event| (now_us - event.recorded_us).max(0));
            condition.lag_us = condition.lag_us.max(late.age_us);
        }
    }
    conditions
}

impl Views {
    fn conditions(&self, logs: &[LogInfo]) -> Vec<Condition> {
        let progress = self.progress();
        let (degraded, building) = (progress.degraded(), progress.building());
        let of_projection = |projection: &dyn Projection| {
            let name = projection.name();
            let mut condition = Condition {
                projection: name,
                version: projection.version(),
                answers: progress.is_served(name),
                logs: 0,
                done: 0,
                lag_events: 0,
                lag_events_max: 0,
                lag_us: 0,
                late: Vec::new(),
                stopped: degraded
                    .iter()
                    .filter(|d| d.projection == name)
                    .cloned()
                    .collect(),
                building: building.iter().find(|b| b.projection == name).cloned(),
            };
            let mut of = 0;
            for log in logs.iter().filter(|log| takes(projection, log)) {
                let (pos, tail) = (progress.position(name, log.id).unwrap_or(0), log.tail.pos);
                let lag = tail.saturating_sub(pos);
                of += tail;
                condition.logs += 1;
                condition.done += pos;
                condition.lag_events += lag;
                condition.lag_events_max = condition.lag_events_max.max(lag);
                if lag > 0 && !condition.stopped.iter().any(|stop| stop.log == log.id) {
                    condition.late.push(Late {
                        log: log.id,
                        pos,
                        tail,
                        age_us: 0,
                        unreadable: false,
                    });
                }
            }
            if let Some(building) = &mut condition.building {
                building.of = of;
            }
            condition
                .late
                .sort_by_key(|late| std::cmp::Reverse(late.tail - late.pos));
            condition.late.truncate(NAMED_MAX);
            condition
        };
        self.projections()
            .iter()
            .map(|projection| of_projection(&**projection))
            .collect()
    }
}
