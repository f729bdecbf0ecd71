//! The events of a log, filtered, page by page.

use std::sync::Arc;

use cocoonbox_events::{LogId, Store, limits::PAGE_EVENTS_MAX};

use crate::{error::Error, filter::Filter, line::Line, moment::position_at, pages::Pages};

/// A cursor over the events that a filter lets through.
pub struct Show {
    pages: Pages,
    filter: Filter,
    left: usize,
}

/// Shows at most `limit` events behind position `after`.
///
/// Times of the filter are looked up, not searched for: what lies outside them is not read.
pub async fn show(
    store: &Arc<dyn Store>,
    log: LogId,
    filter: Filter,
    after: u64,
    limit: usize,
) -> Result<Show, Error> {
    let (from, to) = bounds(store, log, &filter, after).await?;
    Ok(Show {
        pages: Pages::of_log(store, log, from)?.up_to(to),
        filter,
        left: limit,
    })
}

/// Returns the last `count` events behind position `after` that the filter lets through, oldest first.
/// Reads backwards from the end and keeps only them.
pub async fn show_last(
    store: &Arc<dyn Store>,
    log: LogId,
    filter: &Filter,
    after: u64,
    count: usize,
) -> Result<Vec<Line>, Error> {
    let (from, to) = bounds(store, log, filter, after).await?;
    let mut found: Vec<Line> = Vec::new();
    let mut end = to.min(store.tail(log).map_err(Error::read(log))?.pos);
    while end > from && found.len() < count {
        let start = end.saturating_sub(PAGE_EVENTS_MAX as u64).max(from);
        let mut pages = Pages::of_log(store, log, start)?.up_to(end);
        let mut window = Vec::new();
        while let Some(events) = pages.next().await? {
            window.extend(events.iter().filter_map(|event| filter.line(event)));
        }
        let missing = count - found.len();
        let surplus = window.len().saturating_sub(missing);
        found.splice(0..0, window.drain(surplus..));
        end = start;
    }
    Ok(found)
}

/// The positions that a filter's times leave: behind the first, up to the second.
async fn bounds(
    store: &Arc<dyn Store>,
    log: LogId,
    filter: &Filter,
    after: u64,
) -> Result<(u64, u64), Error> {
    let from = match filter.from_us {
        Some(from_us) => position_at(store, log, from_us.saturating_sub(1)).await?,
        None => 0,
    };
    let to = match filter.to_us {
        Some(to_us) => position_at(store, log, to_us.saturating_sub(1)).await?,
        None => u64::MAX,
    };
    Ok((after.max(from), to))
}

impl Show {
    /// Returns the next events, at most a page; `None` at the end. Never an empty list.
    pub async fn next(&mut self) -> Result<Option<Vec<Line>>, Error> {
        while self.left > 0 {
            let Some(events) = self.pages.next().await? else {
                return Ok(None);
            };
            let lines: Vec<Line> = events
                .iter()
                .filter_map(|event| self.filter.line(event))
                .take(self.left)
                .collect();
            if !lines.is_empty() {
                self.left -= lines.len();
                return Ok(Some(lines));
            }
        }
        Ok(None)
    }
}
