//! Where two logs part.

use std::sync::Arc;

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
