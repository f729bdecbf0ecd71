//! Events as they are written, on any source that grows.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use cocoonbox_events::{LogId, LogInfo, ReadError, Store, limits::PAGE_EVENTS_MAX};
use tokio::sync::watch;

use crate::{error::Error, filter::Filter, line::Line};

/// A doorbell can be lost with the process that rings it; the logs are looked at this often anyway.
const POLL: Duration = Duration::from_secs(1);

/// Events of one log that were let through.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    pub log: LogId,
    pub lines: Vec<Line>,
}

/// A cursor in each log, and a doorbell for all of them. Logs that are opened later are followed from
/// their start. Keeps one number per log.
pub struct Follow {
    store: Arc<dyn Store>,
    only: Option<LogId>,
    filter: Filter,
    after: BTreeMap<LogId, u64>,
    bell: watch::Receiver<u64>,
}

impl Follow {
    /// Follows all logs, or one, from their tails on.
    pub fn from_now(
        store: &Arc<dyn Store>,
        only: Option<LogId>,
        filter: Filter,
    ) -> Result<Self, Error> {
        let bell = store.any_doorbell();
        let logs = store.logs();
        if let Some(log) = only {
            store.tail(log).map_err(Error::read(log))?;
        }
        let wanted = logs
            .iter()
            .filter(|info| only.is_none_or(|id| id == info.id));
        let after = wanted.map(|info| (info.id, info.tail.pos)).collect();
        Ok(Self {
            store: store.clone(),
            only,
            filter,
            after,
            bell,
        })
    }

    /// Follows one log from behind position `after` on.
    pub fn from_position(
        store: &Arc<dyn Store>,
        log: LogId,
        after: u64,
        filter: Filter,
    ) -> Result<Self, Error> {
        let mut follow = Self::from_now(store, Some(log), filter)?;
        follow.after.insert(log, after);
        Ok(follow)
    }

    /// Waits for events that the filter lets through. Never an empty batch.
    ///
    /// Cancel-safe. An error leaves the cursors where they are: call it again to go on, for example
    /// when the database is back.
    pub async fn next(&mut self) -> Result<Batch, Error> {
        loop {
            self.bell.mark_unchanged();
            if let Some(batch) = self.poll().await? {
                return Ok(batch);
            }
            // The bell's end says only that the process which rang it is gone; the clock is left.
            if let Ok(Err(_)) = tokio::time::timeout(POLL, self.bell.changed()).await {
                tokio::time::sleep(POLL).await;
            }
        }
    }

    /// Returns what is there already; `None` if nothing is. Stops at the first log that has something.
    pub async fn poll(&mut self) -> Result<Option<Batch>, Error> {
        for info in self.logs() {
            while let Some(batch) = self.page(&info).await? {
                if !batch.lines.is_empty() {
                    return Ok(Some(batch));
                }
            }
        }
        Ok(None)
    }

    /// The logs to be looked at; those that are new begin where their parent's history ends.
    fn logs(&mut self) -> Vec<LogInfo> {
        let mut logs = self.store.logs();
        if let Some(only) = self.only {
            // A rewind closes the log and goes on in another one, and so do we.
            let mut wanted = vec![only];
            while let Some(next) = logs
                .iter()
                .find(|info| wanted.last() == Some(&info.id))
                .and_then(|info| info.moved_to)
                .filter(|next| !wanted.contains(next))
            {
                wanted.push(next);
            }
            logs.retain(|info| wanted.contains(&info.id));
        }
        for info in &logs {
            let start = info.parent.map_or(0, |parent| parent.pos);
            self.after.entry(info.id).or_insert(start);
        }
        logs
    }

    /// Takes the next page of a log; `None` at its tail.
    async fn page(&mut self, info: &LogInfo) -> Result<Option<Batch>, Error> {
        let Some(after) = self.after.get_mut(&info.id) else {
            return Ok(None);
        };
        let read = self.store.read(info.id, *after, PAGE_EVENTS_MAX).await;
        let page = match read {
            Ok(page) => page,
            // It was opened a moment ago, or the tail is older than the list.
            Err(ReadError::AheadOfTail { .. }) => return Ok(None),
            Err(source) => {
                return Err(Error::Read {
                    log: info.id,
                    source,
                });
            }
        };
        let Some(last) = page.events.last() else {
            return Ok(None);
        };
        *after = last.pos;
        let lines = page
            .events
            .iter()
            .filter_map(|event| self.filter.line(event));
        Ok(Some(Batch {
            log: info.id,
            lines: lines.collect(),
        }))
    }
}
