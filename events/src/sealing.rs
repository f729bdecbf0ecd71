//! Sealing in a store: which key a log has, what to make of one that does not fit, and whole batches.
//!
//! All of it happens on the caller's side, before a queue and behind a page, never under a lock.

use std::io;

use bytes::Bytes;

use crate::{
    chain::PayloadHash,
    id::{LogId, StreamName},
    keys::{LogKey, Sealing},
    record::{Body, Prepared, Recorded},
    replica,
    seal::{self, SealError},
    store::{AppendError, ReadError, ReplicaError},
};

/// An event with its place still open.
pub struct Sealed {
    pub stream: StreamName,
    pub kind: u32,
    pub version: u32,
    pub header: Bytes,
    pub payload_hash: PayloadHash,
    pub body: Option<Vec<u8>>,
}

/// Events of another store with their bodies taken out, and the bodies as they are stored.
pub type SealedBatch = (Vec<Recorded>, Vec<Option<Vec<u8>>>);

/// How a log is sealed whose keyring answers `found`: with the key it was sealed with from the start,
/// which `key_check` recognises, or not at all.
pub fn fitting(found: Sealing, key_check: Option<[u8; 8]>) -> Sealing {
    match (found, key_check) {
        (Sealing::Key(key), Some(check)) if key.check() == check => Sealing::Key(key),
        // Opened unsealed, or by a store that has no keys: it stays as it is.
        (Sealing::Key(_) | Sealing::Open, None) => Sealing::Open,
        (Sealing::Unavailable, _) => Sealing::Unavailable,
        (Sealing::Key(_) | Sealing::Open, Some(_)) | (Sealing::Lost, _) => Sealing::Lost,
    }
}

/// What a new log keeps of the key that it is sealed with.
pub fn key_check(found: Sealing) -> Result<Option<[u8; 8]>, AppendError> {
    Ok(writing_key(found)?.map(|key| key.check()))
}

/// The key that is written with; `None` for an open log.
pub fn writing_key(sealing: Sealing) -> Result<Option<LogKey>, AppendError> {
    match sealing {
        Sealing::Open => Ok(None),
        Sealing::Key(key) => Ok(Some(key)),
        Sealing::Lost | Sealing::Unavailable => Err(AppendError::NoKey),
    }
}

/// Seals the events of an append.
pub fn seal_append(
    key: Option<&LogKey>,
    log: LogId,
    prepared: Vec<Prepared>,
) -> Result<Vec<Sealed>, AppendError> {
    let events = prepared.into_iter().map(|event| {
        let body = seal::seal(key, log, &event.payload_hash, &event.body);
        Ok(Sealed {
            stream: event.stream,
            kind: event.kind,
            version: event.version,
            header: event.header,
            payload_hash: event.payload_hash,
            body: Some(body.map_err(seal_error)?),
        })
    });
    events.collect()
}

/// Checks a batch of another store and seals its bodies. Some milliseconds of hashing for a page of a
/// thousand.
pub fn seal_batch(
    key: Option<&LogKey>,
    log: LogId,
    mut events: Vec<Recorded>,
) -> Result<SealedBatch, ReplicaError> {
    replica::check_alone(log, &events)?;
    let bodies = events.iter_mut().map(|event| {
        let body = event.body.take();
        let sealed =
            body.map(|body| seal::seal(key, log, &event.payload_hash, &body).map_err(seal_error));
        sealed.transpose().map_err(ReplicaError::Store)
    });
    let bodies = bodies.collect::<Result<Vec<_>, _>>()?;
    Ok((events, bodies))
}

/// Opens what is stored for an event; `None` if that is nothing, or nobody can read it any more.
pub fn open_body(
    sealing: &Sealing,
    event: &Recorded,
    stored: Option<Vec<u8>>,
) -> Result<Option<Body>, ReadError> {
    let Some(stored) = stored else {
        return Ok(None);
    };
    let key = match sealing {
        Sealing::Open => None,
        Sealing::Key(key) => Some(key),
        Sealing::Lost => return Ok(None),
        Sealing::Unavailable => {
            let unavailable = io::Error::other("the keys cannot be read");
            return Err(ReadError::Io(Box::new(unavailable)));
        }
    };
    match seal::open(key, event.log, &event.payload_hash, stored) {
        Ok(body) => Ok(Some(body)),
        Err(SealError::NoKey) => Ok(None),
        Err(SealError::Damaged | SealError::Seal | SealError::NoRandomness) => {
            Err(ReadError::Damaged {
                pos: event.pos,
                what: "body",
            })
        }
    }
}

fn seal_error(error: SealError) -> AppendError {
    match error {
        SealError::NoRandomness => AppendError::NoRandomness,
        SealError::Seal | SealError::NoKey | SealError::Damaged => AppendError::NoKey,
    }
}

impl Sealed {
    /// Bytes of an event as batches count them.
    pub fn bytes(&self) -> usize {
        self.stream.as_str().len() + self.header.len() + self.body.as_ref().map_or(0, Vec::len)
    }
}
