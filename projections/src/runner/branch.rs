//! Logs that branch: which rows give way, who reads what, and erasures that several branches share.

use std::collections::HashMap;

use cocoonbox_events::{LogId, LogInfo, Recorded};

use crate::{
    runner::{
        Fold, RunError, Runner,
        fold::{self, Erasures, Folded, Pages, Work},
        standing::Member,
    },
    views::Branch,
};

impl Runner {
    /// Has the rows of logs that were left give way, and tells readers which logs those are.
    pub(super) async fn leave(&mut self, logs: &[LogInfo]) -> Result<(), RunError> {
        let left = || logs.iter().filter(|log| log.moved_to.is_some());
        if left().next().is_none() {
            return Ok(());
        }
        let by_id: HashMap<LogId, &LogInfo> = logs.iter().map(|log| (log.id, log)).collect();
        self.views.set_branches(left().filter_map(|log| {
            let to = by_id.get(&log.moved_to?)?;
            let base = to.parent.map_or(0, |parent| parent.pos);
            Some((log.id, Branch { to: to.id, base }))
        }));
        for log in left() {
            let leaving = self.standings.leaving(&self.views, log);
            if leaving.is_empty() {
                continue;
            }
            let mut branch = log;
            while let Some(next) = branch.moved_to.and_then(|to| by_id.get(&to)) {
                branch = next;
            }
            tracing::info!(log = %log.id, branch = %branch.id, "log was left, its views give way");
            self.give_way(log, leaving, branch).await?;
        }
        Ok(())
    }

    async fn give_way(
        &mut self,
        log: &LogInfo,
        leaving: Vec<Member>,
        branch: &LogInfo,
    ) -> Result<(), RunError> {
        self.standings
            .meet(&self.views, branch, &*self.store)
            .await?;
        let fresh = self.fresh(branch, 0).await?;
        let (views, pages) = (self.views.clone(), Pages::of(self.store.clone()));
        let (left, to, members) = (log.clone(), branch.clone(), leaving.clone());
        let folded = self
            .views
            .blocking(move |database| {
                database.write(|connection| {
                    let left = (&left, &members[..]);
                    fold::give_way(connection, views.projections(), left, &to, fresh, &pages)
                })
            })
            .await?;
        let Folded::Moved(moved) = folded else {
            self.standings.forget(log.id);
            return Err(RunError::GivenUp);
        };
        for member in &leaving {
            self.standings.leave(&self.views, member);
        }
        for (member, poison) in moved {
            self.standings.take(&self.views, member, poison);
        }
        self.views.ring();
        Ok(())
    }

    /// Clears what was erased from the rows of other branches that have it as well: an erasure is said in
    /// one log, and the events that it means may be history of several.
    pub(super) async fn erase_in_kin(
        &mut self,
        said_in: &LogInfo,
        erasures: &Erasures,
    ) -> Result<(), RunError> {
        if erasures.erased().next().is_none() {
            return Ok(());
        }
        let logs = self.store.logs();
        let by_id: HashMap<LogId, &LogInfo> = logs.iter().map(|log| (log.id, log)).collect();
        for log in logs.iter().filter(|log| log.id != said_in.id) {
            let shared: Vec<Recorded> = erasures
                .erased()
                .filter(|event| has(log, &by_id, event))
                .cloned()
                .collect();
            let members = self.standings.members(log.id);
            if shared.is_empty() || members.is_empty() {
                continue;
            }
            let fresh = self.fresh(log, 0).await?;
            let work = Work::erased(log.clone(), members, shared, fresh);
            if self.fold(work).await? == Fold::Contended {
                return Err(RunError::GivenUp);
            }
        }
        Ok(())
    }
}

/// Whether an event is part of the history of a log.
fn has(log: &LogInfo, logs: &HashMap<LogId, &LogInfo>, event: &Recorded) -> bool {
    let (mut at, mut to) = (log, u64::MAX);
    while at.id != event.log {
        let Some(parent) = at.parent else {
            return false;
        };
        to = to.min(parent.pos);
        let Some(before) = logs.get(&parent.log) else {
            return false;
        };
        at = before;
    }
    event.pos <= to
}
