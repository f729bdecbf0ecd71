//! A store whose rows somebody changed behind its back.

use std::sync::Arc;

use async_trait::async_trait;
use cocoonbox_events::{
    LogId, MemoryStore, Page, ReadError, Recorded, Store, limits::PAGE_EVENTS_MAX, wrapped::Wrapped,
};

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
impl Wrapped for Tampered {
    fn inner(&self) -> &dyn Store {
        &*self.below
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
}
