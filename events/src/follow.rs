//! Followers: a cursor over a log and a doorbell. Live is not a second path.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;

use crate::{
    id::LogId,
    limits::PAGE_EVENTS_MAX,
    store::{Page, ReadError, Store},
};

/// A doorbell can be lost with the process that rings it; the log is looked at this often anyway.
const POLL: Duration = Duration::from_secs(1);

/// Reads one log from a position on, for ever. A slow reader costs nothing but this cursor.
pub struct Follower {
    store: Arc<dyn Store>,
    log: LogId,
    after: u64,
    bell: watch::Receiver<u64>,
}

impl Follower {
    /// Starts behind position `after`.
    pub fn new(store: Arc<dyn Store>, log: LogId, after: u64) -> Result<Self, ReadError> {
        let bell = store.doorbell(log)?;
        Ok(Self {
            store,
            log,
            after,
            bell,
        })
    }

    /// Returns the position that this follower has read up to.
    pub fn position(&self) -> u64 {
        self.after
    }

    /// Returns what is there behind the cursor; an empty page at the tail.
    pub async fn poll(&mut self) -> Result<Page, ReadError> {
        let page = self
            .store
            .read(self.log, self.after, PAGE_EVENTS_MAX)
            .await?;
        if let Some(last) = page.events.last() {
            self.after = last.pos;
        }
        Ok(page)
    }

    /// Waits until there is something behind the cursor and returns it. Never an empty page.
    /// Cancel-safe: the cursor moves only when a page is returned.
    pub async fn next(&mut self) -> Result<Page, ReadError> {
        loop {
            self.bell.mark_unchanged();
            let page = self.poll().await?;
            if !page.events.is_empty() {
                return Ok(page);
            }
            let _ = tokio::time::timeout(POLL, self.bell.changed()).await;
        }
    }
}
