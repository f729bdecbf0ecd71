//! Ends the process at a chosen append, for tests of what comes after.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use async_trait::async_trait;
use cocoonbox_events::{Append, AppendError, Appended, LogId, Store, wrapped::Wrapped};

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
impl Wrapped for Crash {
    fn inner(&self) -> &dyn Store {
        &*self.inner
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
}
