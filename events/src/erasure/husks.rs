//! What the log keeps of erased payloads, for folding.

use std::collections::BTreeMap;

use cocoonbox_proto::log::v1::Husk;

use crate::{
    id::{LogId, StreamName},
    limits::PAGE_EVENTS_MAX,
    record::Recorded,
    registry::{DecodeError, LogEvent, Payload},
    store::{ReadError, Store},
};

/// Stream of a log that says what was erased in it.
pub(super) const STREAM: &str = "log/erasure";

/// The husks of one log, by position.
#[derive(Clone, Debug, Default)]
pub struct Husks {
    by_pos: BTreeMap<u64, Husk>,
    /// Sequence number up to which the stream was read.
    seq: u64,
}

impl Husks {
    /// Name of the stream that they are in.
    pub fn stream() -> StreamName {
        StreamName::new(STREAM).expect("a constant that is a stream's name")
    }

    /// Reads what the log has said since.
    pub async fn refresh(&mut self, store: &dyn Store, log: LogId) -> Result<(), ReadError> {
        loop {
            let page = store
                .read_stream(log, &Self::stream(), self.seq, PAGE_EVENTS_MAX)
                .await?;
            if page.events.is_empty() {
                return Ok(());
            }
            for event in &page.events {
                self.take(event);
            }
        }
    }

    /// Takes an event of the stream in. One that cannot be read tells nothing.
    pub fn take(&mut self, event: &Recorded) {
        if let Ok(Some(Payload::Log(LogEvent::ErasureRequested(asked)))) = event.payload() {
            for husk in asked.husks {
                self.by_pos.entry(husk.pos).or_insert(husk);
            }
        }
        self.seq = event.seq;
    }

    /// Returns the payload of an event as folds take it: itself or, once erased, its husk. `None` for
    /// one that leaves none, and for a reader without the log's key.
    pub fn payload(&self, event: &Recorded) -> Result<Option<Payload>, DecodeError> {
        if event.body.is_some() {
            return event.payload();
        }
        self.by_pos
            .get(&event.pos)
            .map(|husk| Payload::decode(event.kind, husk.version, &husk.payload))
            .transpose()
    }
}
