//! Sealing: how a payload lies on disk.
//!
//! A body is stored as `0x00 || salt || payload` where there is no key, else as
//! `0x01 || nonce (24) || XChaCha20-Poly1305(salt || payload)` with the log's key and the log id and
//! payload hash as associated data, so that a row cannot be moved to another place. The chain commits
//! to the open payload, so the same history can lie sealed outside and open inside a box.

use bytes::Bytes;
use chacha20poly1305::{
    KeyInit, XChaCha20Poly1305, XNonce,
    aead::{Aead, Payload},
};

use crate::{chain::PayloadHash, id::LogId, keys::LogKey, record::Body};

const OPEN: u8 = 0;
const SEALED: u8 = 1;
const NONCE_BYTES: usize = 24;
const SALT_BYTES: usize = 16;

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
    let mut open = Vec::with_capacity(1 + SALT_BYTES + body.payload.len());
    let Some(key) = key else {
        open.push(OPEN);
        open.extend_from_slice(&body.salt);
        open.extend_from_slice(&body.payload);
        return Ok(open);
    };
    open.extend_from_slice(&body.salt);
    open.extend_from_slice(&body.payload);
    let mut nonce = [0; NONCE_BYTES];
    getrandom::fill(&mut nonce).map_err(|_| SealError::NoRandomness)?;
    let aad = associated(log, hash);
    let sealed = cipher(key)
        .encrypt(
            &XNonce::from(nonce),
            Payload {
                msg: &open,
                aad: &aad,
            },
        )
        .map_err(|_| SealError::Seal)?;
    let mut stored = Vec::with_capacity(1 + NONCE_BYTES + sealed.len());
    stored.push(SEALED);
    stored.extend_from_slice(&nonce);
    stored.extend_from_slice(&sealed);
    Ok(stored)
}

/// Turns what is stored back into the body.
pub fn open(
    key: Option<&LogKey>,
    log: LogId,
    hash: &PayloadHash,
    stored: &[u8],
) -> Result<Body, SealError> {
    let (form, rest) = stored.split_first().ok_or(SealError::Damaged)?;
    let opened;
    let plain = match *form {
        OPEN => rest,
        SEALED => {
            let key = key.ok_or(SealError::NoKey)?;
            let (nonce, sealed) = rest
                .split_at_checked(NONCE_BYTES)
                .ok_or(SealError::Damaged)?;
            let nonce: [u8; NONCE_BYTES] = nonce.try_into().map_err(|_| SealError::Damaged)?;
            let aad = associated(log, hash);
            opened = cipher(key)
                .decrypt(
                    &XNonce::from(nonce),
                    Payload {
                        msg: sealed,
                        aad: &aad,
                    },
                )
                .map_err(|_| SealError::Damaged)?;
            &opened
        }
        _ => return Err(SealError::Damaged),
    };
    let (salt, payload) = plain
        .split_at_checked(SALT_BYTES)
        .ok_or(SealError::Damaged)?;
    let salt = salt.try_into().map_err(|_| SealError::Damaged)?;
    // What is sealed says so by itself; an open body has only its hash to say that it is whole.
    if *form == OPEN && PayloadHash::of(&salt, payload) != *hash {
        return Err(SealError::Damaged);
    }
    Ok(Body {
        salt,
        payload: Bytes::copy_from_slice(payload),
    })
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
        assert!(damaged(open(Some(&key(2)), LOG, &hash, &sealed)));
        assert!(damaged(open(Some(&key(1)), other_log, &hash, &sealed)));
        assert!(damaged(open(Some(&key(1)), LOG, &other_hash, &sealed)));
        assert!(matches!(
            open(None, LOG, &hash, &sealed),
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
                open(Some(&key(1)), LOG, &hash, &changed).is_err(),
                "byte {at}"
            );
            assert!(
                open(Some(&key(1)), LOG, &hash, &sealed[..at]).is_err(),
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
                prop_assert_eq!(&open(key.as_ref(), LOG, &hash, &stored).unwrap(), &body);
            }
            // A log that was not sealed from the start reads with a key as well.
            let stored = seal(None, LOG, &hash, &body).unwrap();
            prop_assert_eq!(open(Some(&key(1)), LOG, &hash, &stored).unwrap(), body);
        }

        #[test]
        fn garbage_never_panics(stored in prop::collection::vec(any::<u8>(), 0..100)) {
            let (_, hash) = body(b"");
            prop_assert!(open(Some(&key(1)), LOG, &hash, &stored).is_err());
            prop_assert!(open(None, LOG, &hash, &stored).is_err());
        }
    }
}
