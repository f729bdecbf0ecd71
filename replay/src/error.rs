//! Why a question could not be answered.

use cocoonbox_events::{DecodeError, EventId, LogId, ReadError, StreamName};
use cocoonbox_projections::ApplyError;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("reading log {log}")]
    Read {
        log: LogId,
        #[source]
        source: ReadError,
    },
    #[error("event {pos} of log {log} cannot be read by this build")]
    Decode {
        log: LogId,
        pos: u64,
        #[source]
        source: DecodeError,
    },
    #[error("event {pos} (`{event}`) of stream `{stream}` cannot follow in state `{state}`")]
    Illegal {
        stream: StreamName,
        pos: u64,
        event: &'static str,
        state: String,
    },
    #[error("projection `{projection}` cannot take in event {pos} of log {log}")]
    Apply {
        projection: &'static str,
        log: LogId,
        pos: u64,
        #[source]
        source: ApplyError,
    },
    #[error("stream `{stream}` has no event in log {log}")]
    NoSuchStream { log: LogId, stream: StreamName },
    #[error("stream `{stream}` has no aggregate; its events can be shown, not folded")]
    NotAnAggregate { stream: StreamName },
    #[error("log {log} ends at {tail}, before position {pos}")]
    NoSuchPosition { log: LogId, pos: u64, tail: u64 },
    #[error("event {event} is in no log here")]
    NoSuchEvent { event: EventId },
    #[error("position {from} is not before {to}")]
    BadRange { from: u64, to: u64 },
}

impl Error {
    pub(crate) fn read(log: LogId) -> impl Fn(ReadError) -> Self {
        move |source| Self::Read { log, source }
    }
}
