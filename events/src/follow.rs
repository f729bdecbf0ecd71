//! Followers: a cursor over a log and a doorbell. Live is not a second path.

use std::{
    collections::VecDeque,
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{sync::watch, time::Instant};

use crate::{
    id::LogId,
    limits::PAGE_EVENTS_MAX,
    store::{Page, ReadError, Store},
};

/// A doorbell can be lost with the process that rings it; the log is looked at this often anyway.
const POLL: Duration = Duration::from_secs(1);
/// A reader that is further behind than this finds its next pages read when it comes for them.
const AHEAD_BEHIND: u64 = 256;
/// Pages read at the same time for one reader: opening what is sealed takes longer than most readers take
/// to look at it.
const AHEAD_PAGES: usize = 2;
/// What was read ahead and not come for is forgotten: payloads may be erased meanwhile, and a page of
/// memory is a lot for a reader that does not read.
const AHEAD_FOR: Duration = Duration::from_secs(1);

/// Reads one log from a position on, for ever. A slow reader costs nothing but this cursor; one that is
/// far behind has some pages read for it while it works on the last one.
pub struct Follower {
    store: Arc<dyn Store>,
    log: LogId,
    after: u64,
    bell: watch::Receiver<u64>,
    page_events: usize,
    ahead_pages: usize,
    ahead: VecDeque<Ahead>,
}

/// A page behind the cursor. Stores read on threads or tasks of their own once they are asked, so it
/// goes on while nobody polls it.
struct Ahead {
    after: u64,
    since: Instant,
    reading: Reading,
}

enum Reading {
    Begun(Pin<Box<dyn Future<Output = Result<Page, ReadError>> + Send>>),
    Done(Result<Page, ReadError>),
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
            page_events: PAGE_EVENTS_MAX,
            ahead_pages: AHEAD_PAGES,
            ahead: VecDeque::new(),
        })
    }

    /// Holds less: at most twice `page_events`, a page handed out not counted.
    #[must_use]
    pub fn holding_little(mut self, page_events: usize) -> Self {
        self.page_events = page_events.clamp(1, PAGE_EVENTS_MAX);
        self.ahead_pages = 1;
        self
    }

    /// Returns the log that is read.
    pub fn log(&self) -> LogId {
        self.log
    }

    /// Returns the position that this follower has read up to.
    pub fn position(&self) -> u64 {
        self.after
    }

    /// Returns what is there behind the cursor; an empty page at the tail.
    /// Cancel-safe: the cursor moves only when a page is returned.
    pub async fn poll(&mut self) -> Result<Page, ReadError> {
        self.bell.mark_unchanged();
        let is_next = |ahead: &Ahead| ahead.after == self.after && ahead.is_fresh();
        if !self.ahead.front().is_some_and(is_next) {
            self.ahead.clear();
        }
        let page = match self.ahead.front_mut() {
            Some(ahead) => {
                poll_fn(|context| ahead.go_on(context)).await;
                self.ahead.pop_front().and_then(Ahead::into_page)
            }
            None => None,
        };
        let page = match page {
            Some(page) => page?,
            None => {
                self.store
                    .read(self.log, self.after, self.page_events)
                    .await?
            }
        };
        if let Some(last) = page.events.last() {
            self.after = last.pos;
            // A page that was cut for its bytes does not say where the one behind the next begins.
            let is_full = page.events.len() == self.page_events;
            let pages = if is_full { self.ahead_pages } else { 1 };
            self.read_ahead(pages).await;
        }
        Ok(page)
    }

    /// Waits until there is something behind the cursor and returns it. Never an empty page.
    /// Cancel-safe: the cursor moves only when a page is returned.
    pub async fn next(&mut self) -> Result<Page, ReadError> {
        loop {
            let page = self.poll().await?;
            if !page.events.is_empty() {
                return Ok(page);
            }
            self.rung().await;
        }
    }

    /// Waits until something may have come since the last look: the bell rang, or it may have been lost.
    pub async fn rung(&mut self) {
        let _ = tokio::time::timeout(POLL, self.bell.changed()).await;
    }

    /// Begins with the next pages, and waits for none.
    async fn read_ahead(&mut self, pages: usize) {
        let tail = *self.bell.borrow();
        let mut after = self.after;
        for _ in 0..pages {
            let is_begun = self.ahead.iter().any(|ahead| ahead.after == after);
            if !is_begun && tail.saturating_sub(after) >= AHEAD_BEHIND {
                let mut ahead = self.begin(after);
                poll_fn(|context| {
                    let _ = ahead.go_on(context);
                    Poll::Ready(())
                })
                .await;
                self.ahead.push_back(ahead);
            }
            after += self.page_events as u64;
        }
    }

    fn begin(&self, after: u64) -> Ahead {
        let (store, log, limit) = (self.store.clone(), self.log, self.page_events);
        let reading = Box::pin(async move { store.read(log, after, limit).await });
        Ahead {
            after,
            since: Instant::now(),
            reading: Reading::Begun(reading),
        }
    }
}

impl Ahead {
    fn is_fresh(&self) -> bool {
        self.since.elapsed() < AHEAD_FOR
    }

    /// Ready once the page is read.
    fn go_on(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Reading::Begun(reading) = &mut self.reading {
            match reading.as_mut().poll(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(page) => self.reading = Reading::Done(page),
            }
        }
        Poll::Ready(())
    }

    fn into_page(self) -> Option<Result<Page, ReadError>> {
        match self.reading {
            Reading::Begun(_) => None,
            Reading::Done(page) => Some(page),
        }
    }
}
