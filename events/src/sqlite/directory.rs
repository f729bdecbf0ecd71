//! The logs of a file as everybody but the writer knows them: their durable tails and doorbells.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use tokio::sync::watch;

use crate::{
    chain::ChainHash,
    id::LogId,
    replica::End,
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
    end: Mutex<End>,
    bell: watch::Sender<u64>,
}

impl Log {
    pub(super) fn new(no: i64, opened: NewLog, key_check: Option<[u8; 8]>) -> Self {
        let end = End::genesis(opened.id, opened.parent);
        let (bell, _) = watch::channel(0);
        Self {
            no,
            opened,
            key_check,
            genesis: end.chain,
            end: Mutex::new(end),
            bell,
        }
    }

    pub(super) fn id(&self) -> LogId {
        self.opened.id
    }

    pub(super) fn end(&self) -> End {
        *self.end.lock().unwrap_or_else(PoisonError::into_inner)
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
        let info = |log: &Arc<Log>| LogInfo {
            id: log.id(),
            kind: log.opened.kind,
            owner: log.opened.owner.clone(),
            tail: log.tail(),
        };
        self.logs
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
            .map(info)
            .collect()
    }

    pub(super) fn any_doorbell(&self) -> watch::Receiver<u64> {
        self.any.subscribe()
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
            *log.end.lock().unwrap_or_else(PoisonError::into_inner) = *end;
        }
        for (log, end) in moved {
            log.bell.send_replace(end.pos);
        }
        self.any.send_modify(|count| *count = count.wrapping_add(1));
    }
}
