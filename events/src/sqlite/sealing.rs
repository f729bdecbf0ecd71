//! Sealing on the caller's thread: which key, and what to make of one that does not fit.

use std::io;

use super::{directory::Log, readers};
use crate::{
    keys::{Keyring, LogKey, Sealing},
    record::{Body, Recorded},
    replica,
    seal::{self, SealError},
    store::{AppendError, ReadError, ReplicaError},
};

/// How this log is sealed, if the keyring has the key it was sealed with from the start.
pub(super) fn sealing(keys: &dyn Keyring, log: &Log) -> Sealing {
    match (keys.log_key(log.id(), &log.opened.owner), log.key_check) {
        (Sealing::Key(key), Some(check)) if key.check() == check => Sealing::Key(key),
        // Opened unsealed, or by a store that has no keys: it stays as it is.
        (Sealing::Key(_) | Sealing::Open, None) => Sealing::Open,
        (Sealing::Unavailable, _) => Sealing::Unavailable,
        (Sealing::Key(_) | Sealing::Open, Some(_)) | (Sealing::Lost, _) => Sealing::Lost,
    }
}

pub(super) fn writing_key(keys: &dyn Keyring, log: &Log) -> Result<Option<LogKey>, AppendError> {
    match sealing(keys, log) {
        Sealing::Open => Ok(None),
        Sealing::Key(key) => Ok(Some(key)),
        Sealing::Lost | Sealing::Unavailable => Err(AppendError::NoKey),
    }
}

pub(super) type SealedBatch = (Vec<Recorded>, Vec<Option<Vec<u8>>>);

pub(super) fn seal_all(
    keys: &dyn Keyring,
    log: &Log,
    mut events: Vec<Recorded>,
) -> Result<SealedBatch, ReplicaError> {
    replica::check_alone(log.id(), &events)?;
    let key = writing_key(keys, log).map_err(ReplicaError::Store)?;
    let bodies = events.iter_mut().map(|event| {
        let sealed = event.body.take().map(|body| {
            seal::seal(key.as_ref(), log.id(), &event.payload_hash, &body).map_err(seal_error)
        });
        sealed.transpose().map_err(ReplicaError::Store)
    });
    let bodies = bodies.collect::<Result<Vec<_>, _>>()?;
    Ok((events, bodies))
}

pub(super) fn open_body(
    sealing: &Sealing,
    event: &Recorded,
    stored: Option<&[u8]>,
) -> Result<Option<Body>, ReadError> {
    let Some(stored) = stored else {
        return Ok(None);
    };
    let key = match sealing {
        Sealing::Open => None,
        Sealing::Key(key) => Some(key),
        Sealing::Lost => return Ok(None),
        Sealing::Unavailable => {
            return Err(readers::io(io::Error::other("the keys cannot be read")));
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

pub(super) fn seal_error(error: SealError) -> AppendError {
    match error {
        SealError::NoRandomness => AppendError::NoRandomness,
        SealError::Seal | SealError::NoKey | SealError::Damaged => AppendError::NoKey,
    }
}
