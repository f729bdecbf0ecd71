//! Offset keys: where a reader is, as text that it keeps and gives back.

use std::{fmt, str::FromStr};

use crate::{chain::ChainHash, id::LogId};

/// A position in a log with a check on the history before it.
///
/// Text form `<log>.<pos>.<chain>`: 32 hex digits, 16 decimal digits, 8 hex digits, so that the keys
/// of one log sort as text. Opaque to clients. The chain part tells a key of another branch (after a
/// rewind, or of a log that was tampered with) from one of this history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OffsetKey {
    pub log: LogId,
    /// Resuming with this key starts behind `pos`. 0 = before the first event.
    pub pos: u64,
    pub chain: [u8; 4],
}

/// More digits would not be fixed width; no log gets there (a century at 3 million events a second).
const POS_MAX: u64 = 9_999_999_999_999_999;

#[derive(Debug, thiserror::Error)]
#[error("offset key `{text}` is not of the form <log>.<pos>.<chain>")]
pub struct BadOffsetKey {
    text: String,
}

impl OffsetKey {
    pub fn new(log: LogId, pos: u64, chain: ChainHash) -> Self {
        Self {
            log,
            pos,
            chain: chain.short(),
        }
    }
}

impl fmt::Display for OffsetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}.{:016}.{}",
            self.log,
            self.pos,
            hex::encode(self.chain)
        )
    }
}

impl FromStr for OffsetKey {
    type Err = BadOffsetKey;

    fn from_str(text: &str) -> Result<Self, BadOffsetKey> {
        parse(text).ok_or_else(|| BadOffsetKey {
            text: text.chars().take(80).collect(),
        })
    }
}

fn parse(text: &str) -> Option<OffsetKey> {
    let mut parts = text.split('.');
    let (log, pos, chain) = (parts.next()?, parts.next()?, parts.next()?);
    let exact = parts.next().is_none()
        && log.len() == 32
        && pos.len() == 16
        && pos.bytes().all(|b| b.is_ascii_digit());
    if !exact {
        return None;
    }
    let pos: u64 = pos.parse().ok().filter(|pos| *pos <= POS_MAX)?;
    let mut short = [0; 4];
    hex::decode_to_slice(chain, &mut short).ok()?;
    Some(OffsetKey {
        log: log.parse().ok()?,
        pos,
        chain: short,
    })
}
