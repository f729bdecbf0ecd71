//! Logs that were left for a branch, held against the events that tell of it. The mark itself stands beside
//! the events, in the log's own row: no link covers it.
//!
//! ```text
//! a box's log:  box.log_rewound in the account log, then the mark
//! any other:    the mark, then log.rewound as the branch's first event
//! ```
//!
//! A process may have ended in between; what is not there yet on one side is then no finding.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use cocoonbox_events::{
    BoxEvent, Kind, LogEvent, LogId, LogInfo, LogKind, Payload, ReadError, Recorded, Store,
};

use super::answered;
use crate::error::Error;

/// What events say of logs that were left.
#[derive(Default)]
pub(super) struct Rewinds {
    told: HashMap<LogId, Told>,
    /// Owners whose events that would tell cannot all be read.
    partial: HashSet<String>,
}

struct Told {
    /// Where it is told.
    at: (LogId, u64),
    to: LogId,
}

impl Rewinds {
    pub(super) fn take(&mut self, info: &LogInfo, event: &Recorded, payload: Option<&Payload>) {
        let (old, new) = match (info.kind, payload) {
            (LogKind::Account, Some(Payload::Box(BoxEvent::LogRewound(rewound)))) => {
                let new = LogId::from_slice(&rewound.new_log);
                (LogId::from_slice(&rewound.old_log), new)
            }
            (
                LogKind::System | LogKind::Account,
                Some(Payload::Log(LogEvent::Rewound(rewound))),
            ) => (LogId::from_slice(&rewound.old_log), Some(info.id)),
            (_, None) if tells(event.kind) => {
                self.partial.insert(info.owner.clone());
                return;
            }
            _ => return,
        };
        if let (Some(old), Some(to)) = (old, new) {
            let at = (info.id, event.pos);
            self.told.insert(old, Told { at, to });
        }
    }

    /// Returns what is wrong: log, position, what.
    pub(super) fn check(
        &self,
        store: &Arc<dyn Store>,
        logs: &[LogInfo],
    ) -> Result<Vec<(LogId, u64, String)>, Error> {
        let mut found = Vec::new();
        for (old, told) in &self.told {
            if let Some(what) = cleared(store, *old, told)? {
                found.push((told.at.0, told.at.1, what));
            }
        }
        // As the logs were when the walk began: what was marked then has been told since.
        for log in logs {
            if let Some(to) = log.moved_to
                && self.is_forged(store, log, to, logs)
            {
                let what = format!("it says that it goes on in log {to}; no event tells of that");
                found.push((log.id, 0, what));
            }
        }
        // Out of a map: the same findings come in the same order.
        found.sort();
        Ok(found)
    }

    fn is_forged(
        &self,
        store: &Arc<dyn Store>,
        log: &LogInfo,
        to: LogId,
        logs: &[LogInfo],
    ) -> bool {
        if self.told.get(&log.id).is_some_and(|told| told.to == to)
            || self.partial.contains(&log.owner)
        {
            return false;
        }
        if log.kind == LogKind::Box {
            // Without the account log nothing can be told.
            return logs
                .iter()
                .any(|one| one.kind == LogKind::Account && one.owner == log.owner);
        }
        // A branch with nothing in it lacks the reason, which the next rewind writes. One that is not here
        // or hangs elsewhere is a finding of its own.
        store.info(to).is_ok_and(|branch| {
            branch
                .parent
                .is_some_and(|parent| parent.log == log.id && branch.tail.pos > parent.pos)
        })
    }
}

/// Returns what is wrong with a log that an event says was left.
fn cleared(store: &Arc<dyn Store>, old: LogId, told: &Told) -> Result<Option<String>, Error> {
    let to = told.to;
    // The branch is opened and the log is marked in one transaction: no branch, no mark yet.
    if matches!(store.info(to), Err(ReadError::NoSuchLog { .. })) {
        return Ok(None);
    }
    Ok(match answered(store.info(old), old)? {
        Ok(info) if info.moved_to == Some(to) => None,
        Ok(info) => {
            let says = info
                .moved_to
                .map_or("nothing of that".to_owned(), |other| format!("{other}"));
            Some(format!(
                "log {old} was left for log {to}, its own row says {says}"
            ))
        }
        // A source with some logs only.
        Err(_) => None,
    })
}

fn tells(kind: u32) -> bool {
    [Kind::BoxLogRewound, Kind::LogRewound]
        .iter()
        .any(|telling| telling.number() == kind)
}
