//! A store that is measured.

use std::sync::Arc;

use async_trait::async_trait;
use cocoonbox_events::{
    Append, AppendError, Appended, Clock, LogId, Recorded, ReplicaError, Store, Tail,
    wrapped::Wrapped,
};
use tokio::time::Instant;

use super::{
    APPEND_EVENTS, APPEND_SECONDS, APPENDED_EVENTS, APPENDS, REPLICATED_EVENTS, REPLICATION_DELAY,
};

/// Passes everything on, and counts what is written.
pub struct Measured {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
}

impl Measured {
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock }
    }
}

/// How an append came out: a refusal is an answer, a failure is the store's.
fn outcome(appended: &Result<Appended, AppendError>) -> &'static str {
    match appended {
        Ok(Appended::Committed(..)) => "committed",
        Ok(Appended::Replayed(_)) => "replayed",
        Err(
            AppendError::Overloaded
            | AppendError::DiskFull
            | AppendError::Stopped
            | AppendError::Unknown
            | AppendError::NoRandomness,
        ) => "failed",
        Err(_) => "refused",
    }
}

#[async_trait]
impl Wrapped for Measured {
    fn inner(&self) -> &dyn Store {
        &*self.store
    }

    async fn append(&self, log: LogId, append: Append) -> Result<Appended, AppendError> {
        let begun = Instant::now();
        let appended = self.store.append(log, append).await;
        metrics::histogram!(APPEND_SECONDS).record(begun.elapsed());
        metrics::counter!(APPENDS, "outcome" => outcome(&appended)).increment(1);
        if let Ok(Appended::Committed(range, _)) = &appended {
            let events = range.last + 1 - range.first;
            metrics::counter!(APPENDED_EVENTS).increment(events);
            metrics::histogram!(APPEND_EVENTS)
                .record(f64::from(u32::try_from(events).unwrap_or(u32::MAX)));
        }
        appended
    }

    async fn replicate(&self, log: LogId, events: Vec<Recorded>) -> Result<Tail, ReplicaError> {
        let count = events.len() as u64;
        let newest_us = events.last().map(|event| event.recorded_us);
        let tail = self.store.replicate(log, events).await?;
        metrics::counter!(REPLICATED_EVENTS).increment(count);
        if let Some(newest_us) = newest_us {
            let age_us = self.clock.now_us().saturating_sub(newest_us).max(0);
            let age = std::time::Duration::from_micros(age_us.unsigned_abs());
            metrics::histogram!(REPLICATION_DELAY).record(age);
        }
        Ok(tail)
    }
}
