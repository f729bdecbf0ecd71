//! Conditions as they are told over the wire, and by who looks at the files alone.

use std::collections::HashMap;

use cocoonbox_events::{LogId, LogInfo};
use cocoonbox_proto::control::v1::{
    LateLog, RebuiltView, RowDifference, StoppedLog, ViewBuilding, ViewCondition,
};

use crate::{
    compare::Differs,
    views::{Building, Condition, Degraded, Rebuilt},
};

/// Whose each log is.
pub struct Owners(HashMap<LogId, String>);

impl Owners {
    pub fn of(logs: &[LogInfo]) -> Self {
        Self(logs.iter().map(|log| (log.id, log.owner.clone())).collect())
    }

    fn owner(&self, log: LogId) -> String {
        self.0.get(&log).cloned().unwrap_or_default()
    }
}

impl Condition {
    pub fn report(&self, owners: &Owners) -> ViewCondition {
        let late = self.late.iter().map(|late| LateLog {
            log_id: late.log.to_string(),
            owner: owners.owner(late.log),
            pos: late.pos,
            tail: late.tail,
            age_ms: late.age_us / 1_000,
            unreadable: late.unreadable,
        });
        let stopped = self.stopped.iter().map(|stop| stop.report(owners));
        ViewCondition {
            name: self.projection.to_owned(),
            version: self.version,
            answers: self.answers,
            logs: self.logs as u64,
            events_done: self.done,
            lag_events: self.lag_events,
            lag_events_max: self.lag_events_max,
            lag_ms: self.lag_us / 1_000,
            late: late.collect(),
            stopped: stopped.collect(),
            building: self.building.as_ref().map(|one| one.report(owners)),
        }
    }
}

impl Building {
    pub fn report(&self, owners: &Owners) -> ViewBuilding {
        ViewBuilding {
            version: self.version,
            done: self.done,
            of: self.of,
            answers: self.answers,
            comparing: self.comparing,
            blocked: self.blocked.as_ref().map(|stop| stop.report(owners)),
        }
    }
}

impl Degraded {
    pub fn report(&self, owners: &Owners) -> StoppedLog {
        StoppedLog {
            log_id: self.log.to_string(),
            owner: owners.owner(self.log),
            pos: self.pos,
            kind: self.kind_name(),
            kind_version: self.kind_version,
            error: self.error.clone(),
        }
    }
}

impl Rebuilt {
    pub fn report(&self) -> RebuiltView {
        let Some(compared) = &self.compared else {
            return RebuiltView::default();
        };
        let differences = compared.differences.iter().map(|one| RowDifference {
            view: one.view.name().to_owned(),
            key: one.key.clone(),
            what: match one.what {
                Differs::Missing => "missing",
                Differs::Extra => "extra",
                Differs::Content => "content",
            }
            .to_owned(),
        });
        RebuiltView {
            compared: true,
            rows: compared.rows as u64,
            differing: compared.differing as u64,
            differences: differences.collect(),
        }
    }
}
