//! A store that stops answering at a chosen write: the api that uses it is dead from there on.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use async_trait::async_trait;
use cocoonbox_events::{
    Append, AppendError, Appended, LogId, NewLog, Recorded, ReplicaError, Store, Tail,
    wrapped::Wrapped,
};

pub(super) struct Failing {
    inner: Arc<dyn Store>,
    left: AtomicU64,
    is_done: bool,
    is_dead: AtomicBool,
}

impl Failing {
    /// Lets `writes` through. The next one is done or not, and never answered.
    pub(super) fn new(inner: Arc<dyn Store>, writes: u64, is_done: bool) -> Self {
        Self {
            inner,
            left: AtomicU64::new(writes),
            is_done,
            is_dead: AtomicBool::new(false),
        }
    }

    pub(super) fn is_dead(&self) -> bool {
        self.is_dead.load(Ordering::SeqCst)
    }

    async fn write<T, E>(&self, done: impl Future<Output = Result<T, E>>, dead: E) -> Result<T, E> {
        if self.is_dead() {
            return Err(dead);
        }
        let left = self.left.load(Ordering::SeqCst);
        if left > 0 {
            self.left.store(left - 1, Ordering::SeqCst);
            return done.await;
        }
        if self.is_done {
            drop(done.await);
        }
        self.is_dead.store(true, Ordering::SeqCst);
        Err(dead)
    }
}

#[async_trait]
impl Wrapped for Failing {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn open(&self, log: NewLog) -> Result<Tail, AppendError> {
        self.write(self.inner.open(log), AppendError::Stopped).await
    }

    async fn rewind(&self, log: NewLog) -> Result<Tail, AppendError> {
        self.write(self.inner.rewind(log), AppendError::Stopped)
            .await
    }

    async fn append(&self, log: LogId, append: Append) -> Result<Appended, AppendError> {
        self.write(self.inner.append(log, append), AppendError::Stopped)
            .await
    }

    async fn replicate(&self, log: LogId, events: Vec<Recorded>) -> Result<Tail, ReplicaError> {
        let dead = ReplicaError::Store(AppendError::Stopped);
        self.write(self.inner.replicate(log, events), dead).await
    }
}
