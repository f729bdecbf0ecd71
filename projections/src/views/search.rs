//! Words in transcripts: the rows that are there are looked through, newest first.

mod query;

pub use query::{BadQuery, Query};

use std::cmp::Reverse;

use cocoonbox_events::LogId;

use crate::{
    ItemRow, row_key,
    rows::{self, Rows, View},
    views::{Views, ViewsError},
};

/// Items that one search looks at: about a second's work. Whoever wants more asks again for what is older.
const ITEMS_MAX: usize = 100_000;
/// Items of one read, so that no reader holds its transaction for long.
const PAGE: usize = 500;

/// What is searched for, and where.
#[derive(Clone, Debug)]
pub struct Search {
    /// Logs of boxes, as accounts know them.
    pub logs: Vec<LogId>,
    pub query: Query,
    /// Only items older than that.
    pub before_ms: i64,
    /// Numbers of [`cocoonbox_proto::agent::v1::transcript_item::Kind`]; empty for all.
    pub kinds: Vec<i32>,
    /// Hits; those of one millisecond are not parted.
    pub hits_max: usize,
}

/// An item that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// As it was asked for.
    pub log: LogId,
    pub agent_id: String,
    /// Its text is cut to what is around the first word.
    pub item: ItemRow,
}

/// What one search found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Searched {
    /// Newest first.
    pub hits: Vec<Hit>,
    /// Everything of this time and newer was looked through; `None` if that was all.
    pub searched_to_ms: Option<i64>,
}

/// The conversation of one agent, and how far back it was looked through.
struct Part {
    log: LogId,
    agent_id: String,
    prefix: String,
    before: Before,
    /// Everything newer was looked through.
    reached_ms: i64,
    is_done: bool,
}

#[derive(Clone)]
enum Before {
    Time(i64),
    Key(String),
}

/// What one read of a part gave.
struct Page {
    hits: Vec<ItemRow>,
    looked: usize,
    reached_ms: i64,
    /// Where to go on.
    before: Option<String>,
}

impl Views {
    /// Finds words in the conversations of boxes, as their current branches have them.
    pub async fn search(&self, search: Search) -> Result<Searched, ViewsError> {
        let mut parts = Vec::new();
        for log in &search.logs {
            for agent in self.agents(*log).await? {
                let current = row_key::log(self.current(*log));
                parts.push(Part {
                    log: *log,
                    prefix: row_key::prefix(&[&current, &agent.id]),
                    agent_id: agent.id,
                    before: Before::Time(search.before_ms),
                    reached_ms: search.before_ms,
                    is_done: false,
                });
            }
        }
        let mut hits: Vec<Hit> = Vec::new();
        let mut looked = 0;
        let reached_ms = loop {
            let open = parts.iter_mut().filter(|part| !part.is_done);
            let Some(part) = open.max_by_key(|part| part.reached_ms) else {
                break None;
            };
            let sure = hits.iter().filter(|hit| hit.item.at_ms > part.reached_ms);
            // Some of the way was made, so that who asks again gets further.
            let is_tired =
                looked >= ITEMS_MAX && part.reached_ms < search.before_ms.saturating_sub(1);
            if sure.count() >= search.hits_max || is_tired {
                break Some(part.reached_ms);
            }
            let page = self.look(part, &search).await?;
            looked += page.looked;
            part.reached_ms = part.reached_ms.min(page.reached_ms);
            match page.before {
                Some(key) => part.before = Before::Key(key),
                None => part.is_done = true,
            }
            hits.extend(page.hits.into_iter().map(|item| Hit {
                log: part.log,
                agent_id: part.agent_id.clone(),
                item,
            }));
        };
        Ok(settle(hits, reached_ms, search.hits_max))
    }

    /// Reads on in one conversation.
    async fn look(&self, part: &Part, search: &Search) -> Result<Page, ViewsError> {
        let (prefix, before) = (part.prefix.clone(), part.before.clone());
        let (query, kinds) = (search.query.clone(), search.kinds.clone());
        let before_ms = search.before_ms;
        self.read(move |rows| {
            let key = match &before {
                Before::Key(key) => Some(key.clone()),
                Before::Time(i64::MAX) => None,
                Before::Time(at_ms) => Some(seek(rows, &prefix, *at_ms)?),
            };
            let found: Vec<(String, ItemRow)> =
                rows::scan_back(rows, View::Transcript, &prefix, key.as_deref(), PAGE)?;
            let looked = found.len();
            let last = found.last();
            let reached_ms = last.map_or(i64::MIN, |(_, item)| item.at_ms);
            let before = last
                .filter(|_| looked == PAGE)
                .map(|(key, _)| key.to_owned());
            let fits = |item: &ItemRow| {
                item.at_ms < before_ms
                    && !item.partial
                    && (kinds.is_empty() || kinds.contains(&item.kind))
            };
            let hits =
                found
                    .into_iter()
                    .filter(|(_, item)| fits(item))
                    .filter_map(|(_, mut item)| {
                        item.text = query.excerpt(&item.text)?;
                        Some(item)
                    });
            Ok(Page {
                hits: hits.collect(),
                looked,
                reached_ms,
                before,
            })
        })
        .await
    }
}

/// Returns the key before which everything is older. Items come in the order of time, as events do.
fn seek(rows: &dyn Rows, prefix: &str, at_ms: i64) -> Result<String, rows::Error> {
    let last: Vec<(String, ItemRow)> = rows::scan_back(rows, View::Transcript, prefix, None, 1)?;
    let end = last
        .first()
        .and_then(|(key, _)| key.strip_prefix(prefix)?.get(..16)?.parse().ok())
        .map_or(0_u64, |pos: u64| pos.saturating_add(1));
    let (mut low, mut high) = (0, end);
    while low < high {
        let middle = low + (high - low) / 2;
        let after = format!("{prefix}{}", row_key::pos(middle));
        let next: Vec<(String, ItemRow)> =
            rows::scan(rows, View::Transcript, prefix, Some(&after), 1)?;
        if next.first().is_some_and(|(_, item)| item.at_ms < at_ms) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(format!("{prefix}{}", row_key::pos(low)))
}

/// Puts hits in order, and leaves out those that others may stand before.
fn settle(mut hits: Vec<Hit>, reached_ms: Option<i64>, hits_max: usize) -> Searched {
    hits.sort_by_key(|hit| Reverse(hit.item.at_ms));
    if let Some(reached_ms) = reached_ms {
        hits.retain(|hit| hit.item.at_ms > reached_ms);
    }
    let mut searched_to_ms = reached_ms.map(|ms| ms.saturating_add(1));
    if let Some(last) = hits_max.checked_sub(1).and_then(|last| hits.get(last)) {
        let at_ms = last.item.at_ms;
        let kept = hits.partition_point(|hit| hit.item.at_ms >= at_ms);
        if kept < hits.len() || reached_ms.is_some() {
            hits.truncate(kept);
            searched_to_ms = Some(at_ms);
        }
    }
    Searched {
        hits,
        searched_to_ms,
    }
}
