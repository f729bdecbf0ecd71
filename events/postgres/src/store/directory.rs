//! The logs as this process knows them: what never changes of each, its last known end, its doorbell.
//!
//! Other replicas move them too, so what is known may lag behind the database; it never runs ahead.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
};

use cocoonbox_events::{ChainHash, LogId, LogInfo, NewLog, Tail, replica::End};
use tokio::sync::watch;

/// One log.
pub(crate) struct Log {
    pub(crate) opened: NewLog,
    /// Recognises the key that this log is sealed with; `None` for an unsealed log.
    pub(crate) key_check: Option<[u8; 8]>,
    pub(crate) genesis: ChainHash,
    /// The log that it branched off.
    pub(crate) before: Option<Arc<Log>>,
    state: Mutex<State>,
    bell: watch::Sender<u64>,
}

#[derive(Clone, Copy)]
struct State {
    end: End,
    moved_to: Option<LogId>,
}

/// What the database says of a log.
pub(crate) struct LogRow {
    pub(crate) opened: NewLog,
    pub(crate) key_check: Option<[u8; 8]>,
    pub(crate) end: End,
    pub(crate) moved_to: Option<LogId>,
}

#[derive(Default)]
pub(crate) struct Directory {
    logs: RwLock<BTreeMap<LogId, Arc<Log>>>,
    any: watch::Sender<u64>,
}

impl Log {
    fn new(row: &LogRow, before: Option<Arc<Log>>) -> Self {
        let genesis = End::genesis(row.opened.id, row.opened.parent);
        let (bell, _) = watch::channel(genesis.pos);
        Self {
            opened: row.opened.clone(),
            key_check: row.key_check,
            genesis: genesis.chain,
            before,
            state: Mutex::new(State {
                end: genesis,
                moved_to: None,
            }),
            bell,
        }
    }

    pub(crate) fn id(&self) -> LogId {
        self.opened.id
    }

    /// The position behind which this log's own events begin.
    pub(crate) fn base(&self) -> u64 {
        self.opened.parent.map_or(0, |parent| parent.pos)
    }

    pub(crate) fn end(&self) -> End {
        self.state().end
    }

    pub(crate) fn tail(&self) -> Tail {
        let end = self.end();
        Tail {
            log: self.id(),
            pos: end.pos,
            chain: end.chain,
        }
    }

    pub(crate) fn info(&self) -> LogInfo {
        let moved_to = self.state().moved_to;
        LogInfo {
            id: self.id(),
            kind: self.opened.kind,
            owner: self.opened.owner.clone(),
            parent: self.opened.parent,
            moved_to,
            tail: self.tail(),
        }
    }

    pub(crate) fn doorbell(&self) -> watch::Receiver<u64> {
        self.bell.subscribe()
    }

    /// The log that holds what follows `after` in this one's history, and up to where.
    pub(crate) fn holder(self: &Arc<Self>, after: u64) -> (Arc<Log>, u64) {
        let (mut log, mut to) = (self.clone(), u64::MAX);
        while let Some(before) = &log.before
            && after < log.base()
        {
            to = to.min(log.base());
            log = before.clone();
        }
        (log, to)
    }

    /// The logs that hold this one's history, newest first, each with up to where.
    pub(crate) fn line(self: &Arc<Self>) -> Vec<(Arc<Log>, u64)> {
        let mut line = vec![(self.clone(), u64::MAX)];
        let (mut log, mut to) = (self, u64::MAX);
        while let Some(before) = &log.before {
            to = to.min(log.base());
            log = before;
            line.push((log.clone(), to));
        }
        line
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what the database said at some moment. News may come out of order: only what goes on
    /// counts. Returns whether anything did.
    fn learn(&self, end: End, moved_to: Option<LogId>) -> bool {
        let mut state = self.state();
        let goes_on = end.pos > state.end.pos;
        if goes_on {
            state.end = end;
        }
        let closes = moved_to.is_some() && state.moved_to.is_none();
        if closes {
            state.moved_to = moved_to;
        }
        drop(state);
        if goes_on {
            self.bell.send_modify(|pos| *pos = (*pos).max(end.pos));
        } else if closes {
            // Who waits at its end looks up, and finds out.
            self.bell.send_modify(|_| {});
        }
        goes_on || closes
    }
}

impl Directory {
    pub(crate) fn get(&self, id: LogId) -> Option<Arc<Log>> {
        let logs = self.logs.read().unwrap_or_else(PoisonError::into_inner);
        logs.get(&id).cloned()
    }

    pub(crate) fn infos(&self) -> Vec<LogInfo> {
        let logs = self.logs.read().unwrap_or_else(PoisonError::into_inner);
        logs.values().map(|log| log.info()).collect()
    }

    pub(crate) fn any_doorbell(&self) -> watch::Receiver<u64> {
        self.any.subscribe()
    }

    /// Makes a row known, whose parent is known already. Returns the log.
    pub(crate) fn take(&self, row: &LogRow) -> Arc<Log> {
        let known = self.get(row.opened.id);
        let is_new = known.is_none();
        let log = known.unwrap_or_else(|| {
            let before = row.opened.parent.and_then(|parent| self.get(parent.log));
            let log = Arc::new(Log::new(row, before));
            let mut logs = self.logs.write().unwrap_or_else(PoisonError::into_inner);
            logs.entry(log.id()).or_insert(log).clone()
        });
        if log.learn(row.end, row.moved_to) || is_new {
            self.ring();
        }
        log
    }

    /// Makes a durable end known.
    pub(crate) fn moved(&self, log: &Log, end: End) {
        if log.learn(end, None) {
            self.ring();
        }
    }

    fn ring(&self) {
        self.any.send_modify(|count| *count = count.wrapping_add(1));
    }
}
