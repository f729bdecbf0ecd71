//! Where two logs part.

use std::{collections::BTreeSet, sync::Arc};

use cocoonbox_events::{LogId, Recorded, Store};
use serde_json::{Value, json};

use crate::{error::Error, line::Line, pages::Pages};

/// What counts as the same event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Everything that a link of the chain covers: for copies and branches of one log.
    Bytes,
    /// Stream, kind and payload: for two runs of the same thing.
    Meaning,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Diff {
    Same {
        events: u64,
    },
    /// The first position at which they differ. `None`: that log has ended.
    Parts {
        pos: u64,
        a: Option<Box<Line>>,
        b: Option<Box<Line>>,
    },
}

impl Diff {
    pub fn to_json(&self) -> Value {
        match self {
            Self::Same { events } => json!({"same": true, "events": events}),
            Self::Parts { pos, a, b } => json!({
                "same": false,
                "pos": pos,
                "a": a.as_ref().map(|line| line.to_json()),
                "b": b.as_ref().map(|line| line.to_json()),
            }),
        }
    }
}

/// What two stores have of one log.
#[derive(Clone, Debug, PartialEq)]
pub struct LogDiff {
    pub log: LogId,
    pub found: Side,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Side {
    OnlyA,
    OnlyB,
    Both(Diff),
}

impl LogDiff {
    pub fn is_same(&self) -> bool {
        matches!(self.found, Side::Both(Diff::Same { .. }))
    }

    pub fn to_json(&self) -> Value {
        let found = match &self.found {
            Side::OnlyA => json!({"same": false, "only": "a"}),
            Side::OnlyB => json!({"same": false, "only": "b"}),
            Side::Both(diff) => diff.to_json(),
        };
        json!({"log": self.log.to_string(), "diff": found})
    }
}

/// Compares every log of two stores by its id.
pub async fn diff_stores(
    a: &Arc<dyn Store>,
    b: &Arc<dyn Store>,
    by: By,
    see: &mut (dyn FnMut(u64) + Send),
) -> Result<Vec<LogDiff>, Error> {
    let ids = |store: &Arc<dyn Store>| -> BTreeSet<LogId> {
        store.logs().iter().map(|info| info.id).collect()
    };
    let (left, right) = (ids(a), ids(b));
    let mut found = Vec::new();
    let mut events = 0;
    for log in left.union(&right) {
        let side = match (left.contains(log), right.contains(log)) {
            (true, true) => Side::Both(diff((a, *log), (b, *log), by).await?),
            (true, false) => Side::OnlyA,
            _ => Side::OnlyB,
        };
        events += match &side {
            Side::Both(Diff::Same { events }) => *events,
            Side::Both(Diff::Parts { pos, .. }) => *pos,
            Side::OnlyA | Side::OnlyB => 0,
        };
        see(events);
        found.push(LogDiff {
            log: *log,
            found: side,
        });
    }
    Ok(found)
}

/// Finds the first position where two logs part. They may lie in two stores.
pub async fn diff(
    a: (&Arc<dyn Store>, LogId),
    b: (&Arc<dyn Store>, LogId),
    by: By,
) -> Result<Diff, Error> {
    let mut left = Events::new(Pages::of_log(a.0, a.1, 0)?);
    let mut right = Events::new(Pages::of_log(b.0, b.1, 0)?);
    let mut events = 0;
    loop {
        match (left.next().await?, right.next().await?) {
            (None, None) => return Ok(Diff::Same { events }),
            (Some(a), Some(b)) if is_same(&a, &b, by) => events += 1,
            (a, b) => {
                let line = |event: Option<Recorded>| event.map(|event| Box::new(Line::of(&event)));
                return Ok(Diff::Parts {
                    pos: events + 1,
                    a: line(a),
                    b: line(b),
                });
            }
        }
    }
}

fn is_same(a: &Recorded, b: &Recorded, by: By) -> bool {
    let meaning = a.stream == b.stream && a.kind == b.kind && a.version == b.version;
    match by {
        // Whether one of them was erased does not matter: the hash still says what it was.
        By::Bytes => {
            meaning
                && a.seq == b.seq
                && a.recorded_us == b.recorded_us
                && a.header == b.header
                && a.payload_hash == b.payload_hash
        }
        By::Meaning => {
            let payload = |event: &Recorded| event.body.as_ref().map(|body| body.payload.clone());
            meaning && payload(a) == payload(b)
        }
    }
}

/// One event after the other.
struct Events {
    pages: Pages,
    page: std::vec::IntoIter<Recorded>,
}

impl Events {
    fn new(pages: Pages) -> Self {
        Self {
            pages,
            page: Vec::new().into_iter(),
        }
    }

    async fn next(&mut self) -> Result<Option<Recorded>, Error> {
        if let Some(event) = self.page.next() {
            return Ok(Some(event));
        }
        let Some(page) = self.pages.next().await? else {
            return Ok(None);
        };
        self.page = page.into_iter();
        Ok(self.page.next())
    }
}
