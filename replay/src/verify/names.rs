//! What logs are called by the logs above them. The chain of a log covers its id, not its kind or owner.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use cocoonbox_events::{
    BoxEvent, DirectoryEvent, Kind, LogId, LogInfo, LogKind, Payload, Recorded, Store, StreamName,
    tables::Readable,
};

use crate::error::Error;

#[derive(Default)]
pub(super) struct Names {
    /// Kind and owner of each log that an event names.
    named: HashMap<LogId, (LogKind, String)>,
    /// Box logs by the log and stream that name them, and those that were written to.
    boxes: HashMap<(LogId, StreamName), LogId>,
    opened: HashSet<LogId>,
    /// Logs in which an event that would name one cannot be read any more.
    partial: HashSet<LogId>,
    /// Users whose key may be gone.
    removed: HashSet<String>,
}

impl Names {
    pub(super) fn take(&mut self, info: &LogInfo, event: &Recorded, payload: Option<&Payload>) {
        match (info.kind, payload) {
            (LogKind::System, Some(Payload::Directory(event))) => match event {
                DirectoryEvent::UserAdded(user) => {
                    self.name(&user.account_log, LogKind::Account, &user.user_id);
                    self.opened.extend(LogId::from_slice(&user.account_log));
                }
                DirectoryEvent::UserRemoved(user) => {
                    self.removed.insert(user.user_id.clone());
                }
                DirectoryEvent::UserDeletionRequested(user) => {
                    self.removed.insert(user.user_id.clone());
                }
            },
            (LogKind::Account, Some(Payload::Box(BoxEvent::Created(created)))) => {
                self.name(&created.box_log, LogKind::Box, &info.owner);
                if let Some(log) = LogId::from_slice(&created.box_log) {
                    self.boxes.insert((info.id, event.stream.clone()), log);
                }
            }
            // A box log is opened with the first start of the box, not when the box is named.
            (LogKind::Account, Some(Payload::Box(BoxEvent::Running(_)))) => {
                let log = self.boxes.get(&(info.id, event.stream.clone()));
                self.opened.extend(log);
            }
            (_, None) if names_a_log(event.kind) => {
                self.partial.insert(info.id);
            }
            _ => {}
        }
    }

    /// Returns what is wrong, log by log.
    pub(super) async fn check(
        &self,
        store: &Arc<dyn Store>,
        logs: &[LogInfo],
    ) -> Result<Vec<(LogId, String)>, Error> {
        let mut found = Vec::new();
        let systems: Vec<_> = logs
            .iter()
            .filter(|log| log.kind == LogKind::System)
            .collect();
        for log in logs {
            if let Some(what) = self.check_one(log, &systems) {
                found.push((log.id, what));
            }
        }
        for (log, (kind, owner)) in &self.named {
            if self.opened.contains(log) && logs.iter().all(|info| info.id != *log) {
                let what = match kind {
                    LogKind::Account => format!("the account log of `{owner}` is not here"),
                    _ => format!("a box log of `{owner}` is not here"),
                };
                found.push((*log, what));
            }
        }
        self.check_keys(store, logs, &systems, &mut found).await?;
        // Out of a map: the same findings come in the same order.
        found.sort();
        Ok(found)
    }

    fn check_one(&self, log: &LogInfo, systems: &[&LogInfo]) -> Option<String> {
        if log.kind == LogKind::System {
            // A system log that was rewound goes on in a branch.
            let begun = systems.iter().filter(|log| log.parent.is_none()).count();
            let is_one = begun == 1 && log.owner.is_empty();
            return (!is_one).then(|| "there is one system log, and nobody owns it".to_owned());
        }
        // A branch is compared with its parent.
        if log.parent.is_some() {
            return None;
        }
        match self.named.get(&log.id) {
            Some((kind, owner)) if *kind == log.kind && *owner == log.owner => None,
            Some((kind, owner)) => Some(format!(
                "it is a {:?} log of `{}`, but was opened as a {kind:?} log of `{owner}`",
                log.kind, log.owner
            )),
            None if self.partial.is_empty() && !systems.is_empty() => {
                Some("no event tells whose log it is".to_owned())
            }
            None => None,
        }
    }

    /// A key that is gone makes a history unreadable: it goes with its user, never alone.
    async fn check_keys(
        &self,
        store: &Arc<dyn Store>,
        logs: &[LogInfo],
        systems: &[&LogInfo],
        found: &mut Vec<(LogId, String)>,
    ) -> Result<(), Error> {
        let Some(tables) = store.tables() else {
            return Ok(());
        };
        let readable = |log: LogId| async move {
            let answer = tables.readable(log).await;
            answer.map_err(Error::read(log))
        };
        let mut has_keys = false;
        for log in systems {
            has_keys |= readable(log.id).await? == Readable::Yes;
        }
        for log in logs {
            match readable(log.id).await? {
                // Whoever has no keys at all, an auditor with a copy, misses none.
                Readable::NoKey if has_keys && !self.removed.contains(&log.owner) => {
                    let owner = &log.owner;
                    let what = format!(
                        "the key of `{owner}` is not here, and no event says that the user was removed"
                    );
                    found.push((log.id, what));
                }
                // The walk through the log says that a key is another one.
                Readable::Yes | Readable::NoKey | Readable::OtherKey => {}
            }
        }
        Ok(())
    }

    fn name(&mut self, log: &[u8], kind: LogKind, owner: &str) {
        if let Some(log) = LogId::from_slice(log) {
            let named = || (kind, owner.to_owned());
            self.named.entry(log).or_insert_with(named);
        }
    }
}

fn names_a_log(kind: u32) -> bool {
    [Kind::DirectoryUserAdded, Kind::BoxCreated]
        .iter()
        .any(|naming| naming.number() == kind)
}
