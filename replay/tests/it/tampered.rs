//! A store whose rows somebody changed behind its back.

use std::sync::Arc;

use async_trait::async_trait;
use cocoonbox_events::{
    Append, AppendError, Appended, ChainHash, LogId, LogInfo, MemoryStore, NewLog, Page, ReadError,
    Recorded, ReplicaError, Store, StreamName, Tail, limits::PAGE_EVENTS_MAX,
};
use tokio::sync::watch;

type Edit = dyn Fn(&mut Vec<Recorded>) + Send + Sync;

/// Answers as the store below it, but with one log edited.
pub(crate) struct Tampered {
    below: Arc<MemoryStore>,
    log: LogId,
    edit: Box<Edit>,
}

impl Tampered {
    pub(crate) fn edited(
        below: &Arc<MemoryStore>,
        log: LogId,
        edit: impl Fn(&mut Vec<Recorded>) + Send + Sync + 'static,
    ) -> Arc<dyn Store> {
        Arc::new(Self {
            below: below.clone(),
            log,
            edit: Box::new(edit),
        })
    }

    /// Changes one event.
    pub(crate) fn at(
        below: &Arc<MemoryStore>,
        log: LogId,
        pos: u64,
        edit: impl Fn(&mut Recorded) + Send + Sync + 'static,
    ) -> Arc<dyn Store> {
        Self::edited(below, log, move |events| {
            for event in events.iter_mut().filter(|event| event.pos == pos) {
                edit(event);
            }
        })
    }
}

#[async_trait]
impl Store for Tampered {
    async fn open(&self, log: NewLog) -> Result<Tail, AppendError> {
        self.below.open(log).await
    }

    async fn append(&self, log: LogId, append: Append) -> Result<Appended, AppendError> {
        self.below.append(log, append).await
    }

    async fn replicate(&self, log: LogId, events: Vec<Recorded>) -> Result<Tail, ReplicaError> {
        self.below.replicate(log, events).await
    }

    async fn read(&self, log: LogId, after: u64, limit: usize) -> Result<Page, ReadError> {
        if log != self.log {
            return self.below.read(log, after, limit).await;
        }
        let mut events = self.below.read(log, 0, PAGE_EVENTS_MAX).await?.events;
        (self.edit)(&mut events);
        let skipped = usize::try_from(after).unwrap();
        Ok(Page {
            events: events.into_iter().skip(skipped).take(limit).collect(),
        })
    }

    async fn read_stream(
        &self,
        log: LogId,
        stream: &StreamName,
        after: u64,
        limit: usize,
    ) -> Result<Page, ReadError> {
        self.below.read_stream(log, stream, after, limit).await
    }

    async fn erase(&self, log: LogId, positions: &[u64]) -> Result<(), AppendError> {
        self.below.erase(log, positions).await
    }

    fn tail(&self, log: LogId) -> Result<Tail, ReadError> {
        self.below.tail(log)
    }

    async fn chain_at(&self, log: LogId, pos: u64) -> Result<ChainHash, ReadError> {
        self.below.chain_at(log, pos).await
    }

    fn logs(&self) -> Vec<LogInfo> {
        self.below.logs()
    }

    fn doorbell(&self, log: LogId) -> Result<watch::Receiver<u64>, ReadError> {
        self.below.doorbell(log)
    }

    fn any_doorbell(&self) -> watch::Receiver<u64> {
        self.below.any_doorbell()
    }
}
