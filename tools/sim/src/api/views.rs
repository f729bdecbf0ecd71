//! The views of one api replica: real projections, and a model of the runner that keeps them.
//!
//! A file of views may lose its last transactions with the process, never a part of one.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use cocoonbox_events::{
    ChainHash, Kind, LogEvent, LogId, LogInfo, Payload, ReadError, Recorded, Store,
};
use cocoonbox_projections::{
    Projection, all,
    rows::{MemoryRows, Rows},
};

use super::Api;
use crate::{broken::Broken, law::Law, ledger::short, scheduler::lock};

/// Transactions between two states that survive a crash.
const SAVED_EVERY: u32 = 5;

/// The file, as the process has it and as a crash would leave it.
#[derive(Default)]
pub struct ViewFile {
    state: Mutex<File>,
}

#[derive(Default)]
struct File {
    views: Views,
    saved: Views,
    unsaved: u32,
}

#[derive(Clone, Default)]
pub struct Views {
    pub rows: MemoryRows,
    pub checkpoints: BTreeMap<(&'static str, LogId), Standing>,
}

#[derive(Clone, Copy, Debug)]
pub struct Standing {
    pub pos: u64,
    chain: ChainHash,
    /// Erasures said up to here are in the rows.
    erased_to: u64,
}

/// Why a page could not be taken in.
#[derive(Debug)]
enum Fault {
    /// The database does not answer; the next pass asks again.
    Read,
    Apply(String),
}

fn unread(_: ReadError) -> Fault {
    Fault::Read
}

impl ViewFile {
    /// What the process has.
    pub fn views(&self) -> Views {
        lock(&self.state).views.clone()
    }

    /// Ends the process: the last transactions may be gone.
    pub fn crash(&self) {
        let mut file = lock(&self.state);
        file.views = file.saved.clone();
    }

    fn commit(&self, views: Views) {
        let mut file = lock(&self.state);
        file.views = views;
        file.unsaved += 1;
        if file.unsaved >= SAVED_EVERY {
            file.saved = file.views.clone();
            file.unsaved = 0;
        }
    }
}

impl Api {
    /// Keeps the views until the process ends.
    pub(super) async fn keep_views(self: Arc<Self>) {
        let projections = all();
        loop {
            self.breathe().await;
            let logs = self.store.logs();
            for projection in &projections {
                self.forget_gone(projection.as_ref(), &logs);
            }
            for log in logs {
                for projection in &projections {
                    while let Some(true) = self.advance(projection.as_ref(), &log).await {}
                }
            }
            let pause = self.sim.draw(|chance| chance.between(50, 600));
            self.sim.sleep_ms(pause).await;
        }
    }

    /// Drops a projection that has seen a log which is not there any more: which of its rows came from
    /// it cannot be told.
    fn forget_gone(&self, projection: &dyn Projection, logs: &[LogInfo]) {
        let mut views = self.views.views();
        let is_gone = |(name, log): &(&str, LogId)| {
            *name == projection.name() && logs.iter().all(|known| known.id != *log)
        };
        if logs.is_empty() || !views.checkpoints.keys().any(is_gone) {
            return;
        }
        views
            .checkpoints
            .retain(|(name, _), _| *name != projection.name());
        for view in projection.views() {
            if let Err(error) = views.rows.delete_prefix(*view, "") {
                let what = error.to_string();
                self.sim.fail(Law::Rebuild, projection.name(), what);
            }
        }
        self.views.commit(views);
    }

    /// Takes one page of one log into one projection. `Some(true)`: there may be more.
    async fn advance(&self, projection: &dyn Projection, log: &LogInfo) -> Option<bool> {
        if !projection.wants(log.kind) {
            return Some(false);
        }
        let mut views = self.views.views();
        match self.take_in(&mut views, projection, log).await {
            Ok(false) => Some(false),
            Ok(true) => {
                self.views.commit(views);
                Some(true)
            }
            Err(Fault::Read) => None,
            Err(Fault::Apply(what)) => {
                self.sim.fail(Law::Rebuild, projection.name(), what);
                None
            }
        }
    }

    async fn take_in(
        &self,
        views: &mut Views,
        projection: &dyn Projection,
        log: &LogInfo,
    ) -> Result<bool, Fault> {
        let at = (projection.name(), log.id);
        let apply = |error: &dyn std::fmt::Display| Fault::Apply(error.to_string());
        if log.moved_to.is_some() {
            // The branch that it went on in has its history, too; an owner's rows are made of one.
            let branches: Vec<_> = self.store.logs();
            let is_known = branches.iter().any(|branch| branch.id == log.id);
            if !is_known || views.checkpoints.remove(&at).is_none() {
                return Ok(false);
            }
            projection
                .clear(&mut views.rows, log)
                .map_err(|error| apply(&error))?;
            views.checkpoints.retain(|(name, id), _| {
                let shares = branches
                    .iter()
                    .any(|b| b.id == *id && b.owner == log.owner && b.kind == log.kind);
                *name != projection.name() || !shares
            });
            for branch in branches
                .iter()
                .filter(|b| b.owner == log.owner && b.kind == log.kind)
            {
                projection
                    .clear(&mut views.rows, branch)
                    .map_err(|error| apply(&error))?;
            }
            return Ok(true);
        }
        let genesis = self.store.chain_at(log.id, 0).await.map_err(unread)?;
        let fresh = Standing {
            pos: 0,
            chain: genesis,
            erased_to: log.tail.pos,
        };
        let standing = *views.checkpoints.entry(at).or_insert(fresh);
        let known = self.store.chain_at(log.id, standing.pos).await;
        if !known.is_ok_and(|chain| chain == standing.chain) {
            if standing.pos > log.tail.pos {
                // Perhaps only this answer is old; a history that is gone stays gone.
                let tail = self.store.tail(log.id).map_err(unread)?;
                if tail.pos >= standing.pos {
                    return Ok(false);
                }
            }
            projection
                .clear(&mut views.rows, log)
                .map_err(|error| apply(&error))?;
            views.checkpoints.insert(at, fresh);
            return Ok(true);
        }
        let page = self
            .store
            .read(log.id, standing.pos, 100)
            .await
            .map_err(unread)?;
        let Some(last) = page.events.last() else {
            return Ok(false);
        };
        // Asked for, not taken from the event: where a log branches off it has a link of its own.
        let (mut standing, pos) = (standing, last.pos);
        let chain = self.store.chain_at(log.id, pos).await.map_err(unread)?;
        let told = self
            .erased_before(views, projection, log, standing, &page.events)
            .await?;
        if told {
            projection
                .clear(&mut views.rows, log)
                .map_err(|error| apply(&error))?;
            let erased_to = log.tail.pos.max(pos);
            views
                .checkpoints
                .insert(at, Standing { erased_to, ..fresh });
            return Ok(true);
        }
        for event in &page.events {
            let skipped =
                self.broken == Broken::SkippedEvent && self.sim.draw(|chance| chance.happens(20));
            if skipped {
                continue;
            }
            projection
                .apply(&mut views.rows, event, log)
                .map_err(|error| {
                    let (pos, log) = (event.pos, short(log.id));
                    Fault::Apply(format!("event {pos} of log {log}: {error}"))
                })?;
        }
        (standing.pos, standing.chain) = (pos, chain);
        views.checkpoints.insert(at, standing);
        Ok(true)
    }

    /// Whether a page says of something that was taken in that it is erased.
    async fn erased_before(
        &self,
        views: &Views,
        projection: &dyn Projection,
        log: &LogInfo,
        standing: Standing,
        page: &[Recorded],
    ) -> Result<bool, Fault> {
        for event in page.iter().filter(|event| event.pos > standing.erased_to) {
            if event.kind != Kind::LogErasureDone.number() {
                continue;
            }
            let Ok(Some(Payload::Log(LogEvent::ErasureDone(done)))) = event.payload() else {
                return Ok(true);
            };
            for pos in done
                .positions
                .into_iter()
                .filter(|pos| *pos <= standing.pos)
            {
                let read = self.store.read(log.id, pos - 1, 1).await;
                let erased = read.map_err(unread)?.events;
                for event in &erased {
                    let holds = projection.holds(&views.rows, event, log);
                    if holds.map_err(|error| Fault::Apply(error.to_string()))? {
                        return Ok(true);
                    }
                }
            }
        }
        Ok(false)
    }
}

/// Folds everything again, each log up to where the views are, and compares. Returns what differs.
pub async fn compare(store: &dyn Store, views: &Views) -> Option<String> {
    let logs = store.logs();
    let mut rebuilt = MemoryRows::default();
    for projection in all() {
        for log in &logs {
            let at = (projection.name(), log.id);
            let Some(standing) = views.checkpoints.get(&at) else {
                continue;
            };
            let mut after = 0;
            while after < standing.pos {
                let page = store.read(log.id, after, 1_000).await.ok()?;
                let last = page.events.last()?.pos;
                after = last;
                for event in page.events.iter().filter(|e| e.pos <= standing.pos) {
                    projection.apply(&mut rebuilt, event, log).ok()?;
                }
            }
        }
    }
    let mut kept = views.rows.iter();
    let mut told = rebuilt.iter();
    loop {
        match (kept.next(), told.next()) {
            (None, None) => return None,
            (Some(kept), Some(told)) if kept == told => {}
            (kept, told) => {
                let name = |row: Option<(cocoonbox_projections::rows::View, &str, &[u8])>| {
                    row.map_or_else(
                        || "nothing".to_owned(),
                        |(view, key, value)| {
                            let text = String::from_utf8_lossy(value);
                            format!("{}/{key} {text:?}", view.name())
                        },
                    )
                };
                return Some(format!("kept {}, rebuilt {}", name(kept), name(told)));
            }
        }
    }
}
