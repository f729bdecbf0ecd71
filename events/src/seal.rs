//! Sealing: how a payload lies on disk.
//!
//! A body is stored as `0x00 || salt || payload` where there is no key, else as
//! `0x01 || nonce (24) || XChaCha20-Poly1305(salt || payload)` with the log's key and the log id and
//! payload hash as associated data, so that a row cannot be moved to another place. The chain commits
//! to the open payload, so the same history can lie sealed outside and open inside a box.

use bytes::{Buf, Bytes};
use chacha20poly1305::{KeyInit, Tag, XChaCha20Poly1305, XNonce, aead::AeadInOut};

use crate::{chain::PayloadHash, id::LogId, keys::LogKey, record::Body};

const OPEN: u8 = 0;
const SEALED: u8 = 1;
const NONCE_BYTES: usize = 24;
const SALT_BYTES: usize = 16;
const TAG_BYTES: usize = 16;
/// In front of what is sealed.
const FRONT_BYTES: usize = 1 + NONCE_BYTES;

#[derive(Debug, thiserror::Error)]
pub enum SealError {
    #[error("the random source does not answer")]
    NoRandomness,
    #[error("sealing failed")]
    Seal,
    #[error("the key of this log is not here")]
    NoKey,
    #[error("the body is damaged or was sealed with another key")]
    Damaged,
}

/// Turns a body into what is stored.
pub fn seal(
    key: Option<&LogKey>,
    log: LogId,
    hash: &PayloadHash,
    body: &Body,
) -> Result<Vec<u8>, SealError> {
    let inner = SALT_BYTES + body.payload.len();
    let Some(key) = key else {
        let mut open = Vec::with_capacity(1 + inner);
        open.push(OPEN);
        open.extend_from_slice(&body.salt);
        open.extend_from_slice(&body.payload);
        return Ok(open);
    };
    let mut nonce = [0; NONCE_BYTES];
    getrandom::fill(&mut nonce).map_err(|_| SealError::NoRandomness)?;
    // Sealed where it lies: one allocation.
    let mut stored = Vec::with_capacity(FRONT_BYTES + inner + TAG_BYTES);
    stored.push(SEALED);
    stored.extend_from_slice(&nonce);
    stored.extend_from_slice(&body.salt);
    stored.extend_from_slice(&body.payload);
    let sealed = stored.split_at_mut(FRONT_BYTES).1;
    let tag = cipher(key)
        .encrypt_inout_detached(&XNonce::from(nonce), &associated(log, hash), sealed.into())
        .map_err(|_| SealError::Seal)?;
    stored.extend_from_slice(&tag);
    Ok(stored)
}

/// Turns what is stored back into the body, which lies where it lay.
pub fn open(
    key: Option<&LogKey>,
    log: LogId,
    hash: &PayloadHash,
    mut stored: Vec<u8>,
) -> Result<Body, SealError> {
    let form = *stored.first().ok_or(SealError::Damaged)?;
    let front = match form {
        OPEN => 1,
        SEALED => {
            let key = key.ok_or(SealError::NoKey)?;
            unseal(key, log, hash, &mut stored)?;
            stored.truncate(stored.len() - TAG_BYTES);
            FRONT_BYTES
        }
        _ => return Err(SealError::Damaged),
    };
    let start = front + SALT_BYTES;
    let salt = stored.get(front..start).ok_or(SealError::Damaged)?;
    let salt = salt.try_into().map_err(|_| SealError::Damaged)?;
    let mut payload = Bytes::from(stored);
    payload.advance(start);
    // What is sealed says so by itself; an open body has only its hash to say that it is whole.
    if form == OPEN && PayloadHash::of(&salt, &payload) != *hash {
        return Err(SealError::Damaged);
    }
    Ok(Body { salt, payload })
}

/// Opens what lies between the front and the tag, in its place.
fn unseal(
    key: &LogKey,
    log: LogId,
    hash: &PayloadHash,
    stored: &mut [u8],
) -> Result<(), SealError> {
    let (front, rest) = stored
        .split_first_chunk_mut::<FRONT_BYTES>()
        .ok_or(SealError::Damaged)?;
    let (sealed, tag) = rest
        .split_last_chunk_mut::<TAG_BYTES>()
        .ok_or(SealError::Damaged)?;
    let mut nonce = [0; NONCE_BYTES];
    nonce.copy_from_slice(&front[1..]);
    cipher(key)
        .decrypt_inout_detached(
            &XNonce::from(nonce),
            &associated(log, hash),
            sealed.into(),
            &Tag::from(*tag),
        )
        .map_err(|_| SealError::Damaged)
}

fn cipher(key: &LogKey) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new(&key.expose().into())
}

fn associated(log: LogId, hash: &PayloadHash) -> [u8; 48] {
    let mut aad = [0; 48];
    aad[..16].copy_from_slice(log.as_bytes());
    aad[16..].copy_from_slice(&hash.0);
    aad
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    const LOG: LogId = LogId(Uuid::from_u128(7));

    fn key(byte: u8) -> LogKey {
        LogKey::derive(&[byte; 32], LOG)
    }

    fn body(payload: &[u8]) -> (Body, PayloadHash) {
        let body = Body {
            salt: [9; 16],
            payload: Bytes::copy_from_slice(payload),
        };
        let hash = PayloadHash::of(&body.salt, &body.payload);
        (body, hash)
    }

    #[test]
    fn what_is_sealed_elsewhere_does_not_open() {
        let (body, hash) = body(b"words");
        let sealed = seal(Some(&key(1)), LOG, &hash, &body).unwrap();
        let (other_log, other_hash) = (LogId(Uuid::from_u128(8)), PayloadHash([0; 32]));
        let damaged = |opened| matches!(opened, Err(SealError::Damaged));
        assert!(damaged(open(Some(&key(2)), LOG, &hash, sealed.clone())));
        assert!(damaged(open(
            Some(&key(1)),
            other_log,
            &hash,
            sealed.clone()
        )));
        assert!(damaged(open(
            Some(&key(1)),
            LOG,
            &other_hash,
            sealed.clone()
        )));
        assert!(matches!(
            open(None, LOG, &hash, sealed),
            Err(SealError::NoKey)
        ));
    }

    #[test]
    fn every_byte_counts() {
        let (body, hash) = body(b"words");
        let sealed = seal(Some(&key(1)), LOG, &hash, &body).unwrap();
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 2;
            assert!(
                open(Some(&key(1)), LOG, &hash, changed).is_err(),
                "byte {at}"
            );
            assert!(
                open(Some(&key(1)), LOG, &hash, sealed[..at].to_vec()).is_err(),
                "cut at {at}"
            );
        }
    }

    #[test]
    fn two_seals_of_one_body_differ() {
        let (body, hash) = body(b"words");
        let sealed = || seal(Some(&key(1)), LOG, &hash, &body).unwrap();
        assert_ne!(sealed(), sealed());
    }

    proptest! {
        #[test]
        fn bodies_survive(payload in prop::collection::vec(any::<u8>(), 0..2_000)) {
            let (body, hash) = body(&payload);
            for key in [None, Some(key(1))] {
                let stored = seal(key.as_ref(), LOG, &hash, &body).unwrap();
                prop_assert_eq!(&open(key.as_ref(), LOG, &hash, stored).unwrap(), &body);
            }
            // A log that was not sealed from the start reads with a key as well.
            let stored = seal(None, LOG, &hash, &body).unwrap();
            prop_assert_eq!(open(Some(&key(1)), LOG, &hash, stored.clone()).unwrap(), body);
        }

        #[test]
        fn garbage_never_panics(stored in prop::collection::vec(any::<u8>(), 0..100)) {
            let (_, hash) = body(b"");
            prop_assert!(open(Some(&key(1)), LOG, &hash, stored.clone()).is_err());
            prop_assert!(open(None, LOG, &hash, stored).is_err());
        }
    }
}
