//! The events of a log, filtered, page by page.

use std::sync::Arc;

use cocoonbox_events::{Kind, LogId, Recorded, Store};

use crate::{error::Error, line::Line, pages::Pages};

/// What is to be shown. Everything empty: all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Streams that begin with one of these.
    pub streams: Vec<String>,
    /// Kinds that are one of these or begin with one and a dot: `box` shows `box.running`.
    pub kinds: Vec<String>,
    /// The actor as a [`Line`] has it, or only its kind: `user:7f`, `system`.
    pub actor: Option<String>,
    /// Not before, microseconds since the epoch.
    pub from_us: Option<i64>,
    /// Before, microseconds since the epoch.
    pub to_us: Option<i64>,
    /// Somewhere in the payload's JSON, whatever the case.
    pub text: Option<String>,
}

impl Filter {
    fn wants(&self, event: &Recorded) -> bool {
        let kind = Kind::from_number(event.kind).map_or("", Kind::name);
        let one_of = |list: &[String], matches: &dyn Fn(&str) -> bool| {
            list.is_empty() || list.iter().any(|wanted| matches(wanted))
        };
        one_of(&self.streams, &|wanted| {
            event.stream.as_str().starts_with(wanted)
        }) && one_of(&self.kinds, &|wanted| {
            kind.strip_prefix(wanted)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        }) && self.from_us.is_none_or(|from| event.recorded_us >= from)
            && self.to_us.is_none_or(|to| event.recorded_us < to)
    }

    /// What can only be said of a rendered event.
    fn wants_line(&self, line: &Line) -> bool {
        let actor = self.actor.as_ref().is_none_or(|wanted| {
            line.actor
                .strip_prefix(wanted.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
        });
        let text = self.text.as_ref().is_none_or(|wanted| {
            !line.payload.is_null()
                && line
                    .payload
                    .to_string()
                    .to_lowercase()
                    .contains(&wanted.to_lowercase())
        });
        actor && text
    }
}

/// A cursor over the events that a filter lets through.
pub struct Show {
    pages: Pages,
    filter: Filter,
    left: usize,
}

/// Shows at most `limit` events behind position `after`.
pub fn show(
    store: &Arc<dyn Store>,
    log: LogId,
    filter: Filter,
    after: u64,
    limit: usize,
) -> Result<Show, Error> {
    Ok(Show {
        pages: Pages::of_log(store, log, after)?,
        filter,
        left: limit,
    })
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
                .filter(|event| self.filter.wants(event))
                .map(Line::of)
                .filter(|line| self.filter.wants_line(line))
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
