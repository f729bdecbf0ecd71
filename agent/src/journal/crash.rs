//! Ends the process at a chosen append, for tests of what comes after.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use async_trait::async_trait;
use cocoonbox_events::{
    Append, AppendError, Appended, ChainHash, LogId, LogInfo, NewLog, Page, ReadError, Recorded,
    ReplicaError, Store, StreamName, Tail,
};
use tokio::sync::watch;

/// Aborts just before or after the n-th append, counted from 1.
pub struct Crash {
    inner: Arc<dyn Store>,
    before: u64,
    after: u64,
    appends: AtomicU64,
}

impl Crash {
    /// Wraps a store; 0 = never.
    pub fn new(inner: Arc<dyn Store>, before: u64, after: u64) -> Self {
        Self {
            inner,
            before,
            after,
            appends: AtomicU64::new(0),
        }
    }
}

#[async_trait]
impl Store for Crash {
    async fn open(&self, log: NewLog) -> Result<Tail, AppendError> {
        self.inner.open(log).await
    }

    async fn append(&self, log: LogId, append: Append) -> Result<Appended, AppendError> {
        let number = self.appends.fetch_add(1, Ordering::SeqCst) + 1;
        if number == self.before {
            std::process::abort();
        }
        let appended = self.inner.append(log, append).await;
        if number == self.after {
            std::process::abort();
        }
        appended
    }

    async fn replicate(&self, log: LogId, events: Vec<Recorded>) -> Result<Tail, ReplicaError> {
        self.inner.replicate(log, events).await
    }

    async fn read(&self, log: LogId, after: u64, limit: usize) -> Result<Page, ReadError> {
        self.inner.read(log, after, limit).await
    }

    async fn read_stream(
        &self,
        log: LogId,
        stream: &StreamName,
        after: u64,
        limit: usize,
    ) -> Result<Page, ReadError> {
        self.inner.read_stream(log, stream, after, limit).await
    }

    async fn erase(&self, log: LogId, positions: &[u64]) -> Result<(), AppendError> {
        self.inner.erase(log, positions).await
    }

    fn tail(&self, log: LogId) -> Result<Tail, ReadError> {
        self.inner.tail(log)
    }

    async fn chain_at(&self, log: LogId, pos: u64) -> Result<ChainHash, ReadError> {
        self.inner.chain_at(log, pos).await
    }

    fn logs(&self) -> Vec<LogInfo> {
        self.inner.logs()
    }

    fn doorbell(&self, log: LogId) -> Result<watch::Receiver<u64>, ReadError> {
        self.inner.doorbell(log)
    }

    fn any_doorbell(&self) -> watch::Receiver<u64> {
        self.inner.any_doorbell()
    }
}
