//! What a store checks before it takes another store's events in.

use std::collections::HashMap;

use crate::{
    chain::{Break, ChainHash, PayloadHash, Verifier},
    id::{CommandId, LogId, StreamName},
    limits,
    record::Recorded,
    store::{AppendError, Parent, ReplicaError},
};

/// The end of the log that a batch has to continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    pub pos: u64,
    pub chain: ChainHash,
    /// Time of the last event; the next one is never before it.
    pub recorded_us: i64,
}

impl End {
    /// The end of a log that has no event of its own.
    pub fn genesis(log: LogId, parent: Option<Parent>) -> Self {
        Self {
            pos: parent.map_or(0, |parent| parent.pos),
            chain: ChainHash::genesis(log, parent.map(|parent| parent.chain)),
            recorded_us: i64::MIN,
        }
    }
}

/// Checks what can be checked of a batch without the log: sizes and payload hashes.
pub fn check_alone(log: LogId, events: &[Recorded]) -> Result<(), ReplicaError> {
    for event in events {
        if event.log != log {
            return Err(ReplicaError::Diverged { pos: event.pos });
        }
        let payload_bytes = event.body.as_ref().map_or(0, |body| body.payload.len());
        if payload_bytes > limits::PAYLOAD_BYTES_MAX
            || event.header.len() > limits::HEADER_BYTES_MAX
        {
            return Err(ReplicaError::Store(AppendError::TooLarge {
                kind: crate::Kind::from_number(event.kind).map_or("unknown kind", |k| k.name()),
                bytes: payload_bytes,
            }));
        }
        if let Some(body) = &event.body
            && PayloadHash::of(&body.salt, &body.payload) != event.payload_hash
        {
            return Err(ReplicaError::Broken(Break::Payload { pos: event.pos }));
        }
    }
    Ok(())
}

/// Splits a batch into what is held already and what is new, by position only.
pub fn split(end: End, events: &[Recorded]) -> Result<usize, ReplicaError> {
    let Some(first) = events.first() else {
        return Ok(0);
    };
    let expected = end.pos + 1;
    if first.pos > expected {
        return Err(ReplicaError::Gap {
            expected,
            found: first.pos,
        });
    }
    for (expected, event) in (first.pos.max(1)..).zip(events) {
        if event.pos != expected {
            let found = event.pos;
            return Err(ReplicaError::Broken(Break::Position { expected, found }));
        }
    }
    let held = usize::try_from(expected - first.pos).unwrap_or(usize::MAX);
    Ok(held.min(events.len()))
}

/// Whether two events are the same but for what may differ between stores: an erased payload.
pub fn is_same(held: &Recorded, sent: &Recorded) -> bool {
    held.pos == sent.pos
        && held.stream == sent.stream
        && held.seq == sent.seq
        && held.kind == sent.kind
        && held.version == sent.version
        && held.recorded_us == sent.recorded_us
        && held.header == sent.header
        && held.payload_hash == sent.payload_hash
        && held.chain == sent.chain
}

/// Checks that `fresh` continues the log at `end`, and each of its streams at the head that `head`
/// tells.
pub fn check_continues<E>(
    end: End,
    fresh: &[Recorded],
    mut head: impl FnMut(&StreamName) -> Result<u64, E>,
) -> Result<Result<(), ReplicaError>, E> {
    let mut verifier = Verifier::resume(end.pos, end.chain, end.recorded_us);
    let mut heads: HashMap<&StreamName, u64> = HashMap::new();
    for event in fresh {
        if let Err(broken) = verifier.check(event) {
            return Ok(Err(ReplicaError::Broken(broken)));
        }
        let before = match heads.get(&event.stream) {
            Some(seq) => *seq,
            None => head(&event.stream)?,
        };
        if event.seq != before + 1 {
            return Ok(Err(ReplicaError::StreamSeq {
                stream: event.stream.clone(),
                expected: before + 1,
                found: event.seq,
            }));
        }
        heads.insert(&event.stream, event.seq);
    }
    Ok(Ok(()))
}

/// Returns the command that wrote an event, if its header names one. A replica remembers it, so that
/// a log which is given back to a new machine still does each command once.
pub fn command_of(event: &Recorded) -> Option<CommandId> {
    CommandId::from_slice(&event.header().command_id)
}
