//! Whether anything is still owed.

use std::collections::BTreeSet;

use cocoonbox_commands::{
    agent,
    boxes::{self, Phase},
};
use cocoonbox_events::{Fold, LogId, Store, StreamName, store::LogKind};
use cocoonbox_projections::all;

use super::{at_once, read_all};
use crate::{ledger::short, store::SimStore, world::World};

impl World {
    /// Says what is not as it has to be at rest; `None`: all is done.
    pub fn owed(&self) -> Option<String> {
        let store = self.control.store().filter(|store| !store.is_stopped());
        let Some(store) = store else {
            return Some("the database is down".to_owned());
        };
        let mut boxes = BTreeSet::new();
        for (user, root) in &self.users {
            let account = store.current(*root).ok()?;
            let Ok(events) = read_all(&store, account) else {
                return Some(format!("the account of {user} cannot be read"));
            };
            let streams: BTreeSet<StreamName> = events
                .into_iter()
                .map(|event| event.stream)
                .filter(|stream| stream.as_str().starts_with("box/"))
                .collect();
            for stream in streams {
                let box_id = stream.id().to_owned();
                if let Some(owed) = self.owed_to(&store, account, stream) {
                    return Some(format!("{box_id}: {owed}"));
                }
                boxes.insert(box_id);
            }
        }
        for (box_id, standing) in self.host.list() {
            if standing.wake.is_some() && !boxes.contains(&box_id) {
                return Some(format!("{box_id} runs, and no log names it"));
            }
        }
        self.owed_to_views(&store)
    }

    fn owed_to(&self, store: &SimStore, account: LogId, stream: StreamName) -> Option<String> {
        let box_id = stream.id().to_owned();
        let mut fold = Fold::<boxes::State>::new(account, stream);
        if let Err(error) = at_once(fold.refresh(store)) {
            return Some(error.to_string());
        }
        if let Some(debt) = fold.state.owed() {
            return Some(format!("{debt:?}"));
        }
        let running = self.host.get(&box_id).and_then(|standing| standing.wake);
        let Phase::Running { wake } = &fold.state.phase else {
            return running.map(|wake| format!("runs as {wake}, and should not"));
        };
        if running.as_ref() != Some(wake) {
            return Some(format!("runs as {running:?}, not as {wake}"));
        }
        let Some(agent) = self.host.agent(&box_id) else {
            return Some("its agent does not answer".to_owned());
        };
        let Some(log) = agent.log() else {
            return Some("it waits for its release".to_owned());
        };
        let current = store.current(fold.state.box_log?).ok();
        if current != Some(log) {
            return Some(format!("it writes {}, not {current:?}", short(log)));
        }
        let (there, here) = (agent.store().tail(log).ok(), store.tail(log).ok());
        if there != here {
            return Some(format!("its log is {there:?}, the copy {here:?}"));
        }
        let mut turn = Fold::<agent::State>::new(log, StreamName::new("agent/main").ok()?);
        if let Err(error) = at_once(turn.refresh(agent.store())) {
            return Some(error.to_string());
        }
        let next = turn.state.next();
        let idle = matches!(
            next,
            agent::Next::Idle | agent::Next::Wait(_) | agent::Next::WaitBudget { .. }
        );
        (!idle).then(|| format!("its agent owes {next:?}"))
    }

    fn owed_to_views(&self, store: &SimStore) -> Option<String> {
        for number in 0..self.apis_count() {
            let views = self.views(number).views();
            for projection in all() {
                for log in store.logs() {
                    if !projection.wants(log.kind) || log.moved_to.is_some() {
                        continue;
                    }
                    let at = views.checkpoints.get(&(projection.name(), log.id));
                    let pos = at.map_or(0, |standing| standing.pos);
                    if pos < log.tail.pos {
                        let (name, kind) = (projection.name(), kind(log.kind));
                        return Some(format!(
                            "view {name} of api-{number} is at {pos} of {} in {kind} log {}",
                            log.tail.pos,
                            short(log.id)
                        ));
                    }
                }
            }
        }
        None
    }
}

fn kind(kind: LogKind) -> &'static str {
    match kind {
        LogKind::System => "system",
        LogKind::Account => "account",
        LogKind::Box => "box",
    }
}
