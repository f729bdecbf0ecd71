//! The logs of a file as everybody but the writer knows them: their durable tails and doorbells.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
};

use tokio::sync::watch;

use crate::{
    chain::ChainHash,
    id::LogId,
    keys::{Keyring, Sealing},
    replica::End,
    sealing::fitting,
    store::{LogInfo, NewLog, Tail},
};

/// One log. What is here is durable.
pub(super) struct Log {
    /// Its number in this file: the upper bits of its events' row ids.
    pub(super) no: i64,
    pub(super) opened: NewLog,
    /// Recognises the key that this log is sealed with; `None` for an unsealed log.
    pub(super) key_check: Option<[u8; 8]>,
    pub(super) genesis: ChainHash,
    state: Mutex<State>,
    bell: watch::Sender<u64>,
}

#[derive(Clone, Copy)]
struct State {
    end: End,
    moved_to: Option<LogId>,
}

impl Log {
    pub(super) fn new(no: i64, opened: NewLog, key_check: Option<[u8; 8]>) -> Self {
        let end = End::genesis(opened.id, opened.parent);
        let (bell, _) = watch::channel(end.pos);
        Self {
            no,
            opened,
            key_check,
            genesis: end.chain,
            state: Mutex::new(State {
                end,
                moved_to: None,
            }),
            bell,
        }
    }

    pub(super) fn id(&self) -> LogId {
        self.opened.id
    }

    /// How it is sealed, if the keyring has the key it was sealed with from the start.
    pub(super) fn sealing(&self, keys: &dyn Keyring) -> Sealing {
        fitting(keys.log_key(self.id(), &self.opened.owner), self.key_check)
    }

    /// The position behind which this log's own events begin.
    pub(super) fn base(&self) -> u64 {
        self.opened.parent.map_or(0, |parent| parent.pos)
    }

    pub(super) fn end(&self) -> End {
        self.state().end
    }

    pub(super) fn moved_to(&self) -> Option<LogId> {
        self.state().moved_to
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn info(&self) -> LogInfo {
        LogInfo {
            id: self.id(),
            kind: self.opened.kind,
            owner: self.opened.owner.clone(),
            parent: self.opened.parent,
            moved_to: self.moved_to(),
            tail: self.tail(),
        }
    }

    pub(super) fn tail(&self) -> Tail {
        let end = self.end();
        Tail {
            log: self.id(),
            pos: end.pos,
            chain: end.chain,
        }
    }

    pub(super) fn doorbell(&self) -> watch::Receiver<u64> {
        self.bell.subscribe()
    }
}

#[derive(Default)]
pub(super) struct Directory {
    logs: RwLock<BTreeMap<LogId, Arc<Log>>>,
    any: watch::Sender<u64>,
}

impl Directory {
    pub(super) fn get(&self, id: LogId) -> Option<Arc<Log>> {
        self.logs
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&id)
            .cloned()
    }

    pub(super) fn all(&self) -> Vec<Arc<Log>> {
        self.logs
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
            .cloned()
            .collect()
    }

    pub(super) fn infos(&self) -> Vec<LogInfo> {
        self.logs
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
            .map(|log| log.info())
            .collect()
    }

    pub(super) fn any_doorbell(&self) -> watch::Receiver<u64> {
        self.any.subscribe()
    }

    /// The log that holds what follows `after` in the history of `log`, and up to where.
    pub(super) fn holder(&self, mut log: Arc<Log>, after: u64) -> (Arc<Log>, u64) {
        let mut to = u64::MAX;
        while let Some(parent) = log.opened.parent
            && after < parent.pos
            && let Some(before) = self.get(parent.log)
        {
            (log, to) = (before, to.min(parent.pos));
        }
        (log, to)
    }

    /// The logs that hold the history of `log`, newest first, each with up to where.
    pub(super) fn line(&self, log: Arc<Log>) -> Vec<(Arc<Log>, u64)> {
        let mut line = vec![(log.clone(), u64::MAX)];
        let (mut at, mut to) = (log, u64::MAX);
        while let Some(parent) = at.opened.parent
            && let Some(before) = self.get(parent.log)
        {
            (at, to) = (before, to.min(parent.pos));
            line.push((at.clone(), to));
        }
        line
    }

    /// Makes committed rewinds known, before the branches they go on in are rung for.
    pub(super) fn close(&self, closed: &[(Arc<Log>, LogId)]) {
        for (log, to) in closed {
            log.state().moved_to = Some(*to);
            // Who waits at its end looks up, and finds out.
            log.bell.send_modify(|_| {});
        }
        if !closed.is_empty() {
            self.any.send_modify(|count| *count = count.wrapping_add(1));
        }
    }

    /// Makes committed changes known: first the tails, then the doorbells.
    pub(super) fn publish(&self, opened: Vec<Arc<Log>>, moved: &[(Arc<Log>, End)]) {
        if opened.is_empty() && moved.is_empty() {
            return;
        }
        if !opened.is_empty() {
            let mut logs = self.logs.write().unwrap_or_else(PoisonError::into_inner);
            for log in opened {
                logs.entry(log.id()).or_insert(log);
            }
        }
        for (log, end) in moved {
            log.state().end = *end;
        }
        for (log, end) in moved {
            log.bell.send_replace(end.pos);
        }
        self.any.send_modify(|count| *count = count.wrapping_add(1));
    }
}
