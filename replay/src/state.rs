//! What was known of an aggregate at a moment.

use std::sync::Arc;

use cocoonbox_events::{LogId, Store, StreamName};
use serde_json::{Value, json};

use crate::{aggregate::Known, error::Error, pages::Pages};

/// An aggregate as of a position.
#[derive(Clone, Debug, PartialEq)]
pub struct StateAt {
    pub log: LogId,
    pub stream: StreamName,
    /// The last event folded: its position and sequence number.
    pub pos: u64,
    pub seq: u64,
    pub state: Known,
}

impl StateAt {
    pub fn to_json(&self) -> Value {
        json!({
            "log": self.log.to_string(),
            "stream": self.stream.as_str(),
            "pos": self.pos,
            "seq": self.seq,
            "state": self.state.json(),
        })
    }
}

/// Folds a stream up to `at_pos` of the log, or to its end.
pub async fn state(
    store: &Arc<dyn Store>,
    log: LogId,
    stream: &StreamName,
    at_pos: Option<u64>,
) -> Result<StateAt, Error> {
    let state = Known::of(stream).ok_or_else(|| Error::NotAnAggregate {
        stream: stream.clone(),
    })?;
    let tail = store.tail(log).map_err(Error::read(log))?.pos;
    if let Some(pos) = at_pos.filter(|pos| *pos > tail) {
        return Err(Error::NoSuchPosition { log, pos, tail });
    }
    let mut at = StateAt {
        log,
        stream: stream.clone(),
        pos: 0,
        seq: 0,
        state,
    };
    let mut pages = Pages::of_stream(store, log, stream)?.up_to(at_pos.unwrap_or(tail));
    while let Some(events) = pages.next().await? {
        for event in &events {
            at.state.take(event)?;
            (at.pos, at.seq) = (event.pos, event.seq);
        }
    }
    if at.seq == 0 {
        return Err(Error::NoSuchStream {
            log,
            stream: stream.clone(),
        });
    }
    Ok(at)
}
