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
