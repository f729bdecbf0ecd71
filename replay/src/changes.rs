//! What happened between two positions of a log.

use std::{collections::BTreeMap, sync::Arc};

use cocoonbox_events::{Kind, LogId, Recorded, Store, StreamName};
use serde_json::{Value, json};

use crate::{
    aggregate::Known,
    error::Error,
    fields::{FieldChange, compare},
    pages::Pages,
};

/// Everything that changed behind position `from` up to and with `to`.
#[derive(Clone, Debug, PartialEq)]
pub struct Changes {
    pub from: u64,
    pub to: u64,
    pub events: u64,
    /// The streams that moved, by name.
    pub streams: BTreeMap<StreamName, StreamChanges>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct StreamChanges {
    pub first_seq: u64,
    pub last_seq: u64,
    /// Events by kind.
    pub kinds: BTreeMap<String, u64>,
    /// What is otherwise in the aggregate; empty for streams without one.
    pub fields: Vec<FieldChange>,
}

impl Changes {
    pub fn to_json(&self) -> Value {
        let streams = self.streams.iter().map(|(stream, changed)| {
            let fields = changed.fields.iter().map(FieldChange::to_json);
            let value = json!({
                "first_seq": changed.first_seq,
                "last_seq": changed.last_seq,
                "kinds": changed.kinds,
                "fields": fields.collect::<Vec<_>>(),
            });
            (stream.to_string(), value)
        });
        json!({
            "from": self.from,
            "to": self.to,
            "events": self.events,
            "streams": Value::Object(streams.collect()),
        })
    }
}

/// Compares two moments of one log. Streams that did not move are not looked at.
pub async fn changes(
    store: &Arc<dyn Store>,
    log: LogId,
    from: u64,
    to: u64,
) -> Result<Changes, Error> {
    if from >= to {
        return Err(Error::BadRange { from, to });
    }
    let tail = store.tail(log).map_err(Error::read(log))?.pos;
    if to > tail {
        return Err(Error::NoSuchPosition { log, pos: to, tail });
    }
    let mut found = Changes {
        from,
        to,
        events: 0,
        streams: BTreeMap::new(),
    };
    let mut pages = Pages::of_log(store, log, from)?.up_to(to);
    while let Some(events) = pages.next().await? {
        for event in &events {
            found.events += 1;
            let changed = found
                .streams
                .entry(event.stream.clone())
                .or_insert_with(|| StreamChanges {
                    first_seq: event.seq,
                    ..StreamChanges::default()
                });
            changed.last_seq = event.seq;
            *changed.kinds.entry(kind_name(event)).or_default() += 1;
        }
    }
    for (stream, changed) in &mut found.streams {
        if let Some(empty) = Known::of(stream) {
            changed.fields = fields(store, log, stream, empty, from, to).await?;
        }
    }
    Ok(found)
}

async fn fields(
    store: &Arc<dyn Store>,
    log: LogId,
    stream: &StreamName,
    mut state: Known,
    from: u64,
    to: u64,
) -> Result<Vec<FieldChange>, Error> {
    let mut before = Value::Null;
    let mut pages = Pages::of_stream(store, log, stream)?.up_to(to);
    while let Some(events) = pages.next().await? {
        for event in &events {
            if event.pos > from && before.is_null() && event.seq > 1 {
                before = state.json();
            }
            state.take(event)?;
        }
    }
    Ok(compare(&before, &state.json()))
}

fn kind_name(event: &Recorded) -> String {
    Kind::from_number(event.kind).map_or_else(
        || format!("kind.{}", event.kind),
        |kind| kind.name().to_owned(),
    )
}
