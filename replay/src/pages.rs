//! Reading a log or a stream of it page by page, up to an end that does not move.

use std::sync::Arc;

use cocoonbox_events::{LogId, Recorded, Store, StreamName, limits::PAGE_EVENTS_MAX};

use crate::error::Error;

/// A cursor over what a log held when it was made.
pub struct Pages {
    store: Arc<dyn Store>,
    log: LogId,
    stream: Option<StreamName>,
    /// Position, or sequence number where it reads one stream.
    after: u64,
    /// Position up to which it reads, inclusive.
    to: u64,
    done: bool,
}

impl Pages {
    /// Reads the events behind `after` up to the tail.
    pub fn of_log(store: &Arc<dyn Store>, log: LogId, after: u64) -> Result<Self, Error> {
        let to = store.tail(log).map_err(Error::read(log))?.pos;
        Ok(Self {
            store: store.clone(),
            log,
            stream: None,
            after,
            to,
            done: false,
        })
    }

    /// Reads one stream from its start up to the tail of the log.
    pub fn of_stream(
        store: &Arc<dyn Store>,
        log: LogId,
        stream: &StreamName,
    ) -> Result<Self, Error> {
        let mut pages = Self::of_log(store, log, 0)?;
        pages.stream = Some(stream.clone());
        Ok(pages)
    }

    /// Ends at `to`, if that is before the tail.
    #[must_use]
    pub fn up_to(mut self, to: u64) -> Self {
        self.to = self.to.min(to);
        self
    }

    /// Returns the next events; `None` at the end. Never an empty page.
    pub async fn next(&mut self) -> Result<Option<Vec<Recorded>>, Error> {
        if self.done {
            return Ok(None);
        }
        let read = match &self.stream {
            None => self.store.read(self.log, self.after, PAGE_EVENTS_MAX).await,
            Some(stream) => {
                self.store
                    .read_stream(self.log, stream, self.after, PAGE_EVENTS_MAX)
                    .await
            }
        };
        let mut events = read.map_err(Error::read(self.log))?.events;
        let whole = events.len();
        events.retain(|event| event.pos <= self.to);
        self.done = events.len() < whole;
        let Some(last) = events.last() else {
            self.done = true;
            return Ok(None);
        };
        self.after = if self.stream.is_some() {
            last.seq
        } else {
            last.pos
        };
        Ok(Some(events))
    }
}
