//! Names of chunks, objects and snapshots.

use std::fmt;

use crate::error::Error;

/// A keyed hash of a chunk's plain bytes. Says nothing to whoever has not the key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkId(pub [u8; 32]);

/// A random name of a pack or an index segment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub [u8; 16]);

/// Names a snapshot: the millisecond it began, then 64 random bits, so that names sort by time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnapshotId(pub [u8; 16]);

impl ObjectId {
    /// A new random name.
    pub fn random() -> Result<Self, Error> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|_| Error::Randomness)?;
        Ok(Self(bytes))
    }
}

impl SnapshotId {
    /// A new name for what began at `started_ns` (nanoseconds since 1970, negative counts as 0).
    pub fn at(started_ns: i64) -> Result<Self, Error> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|_| Error::Randomness)?;
        let ms = u64::try_from(started_ns / 1_000_000).unwrap_or(0);
        bytes[..8].copy_from_slice(&ms.to_be_bytes());
        Ok(Self(bytes))
    }

    /// Reads what [`fmt::Display`] writes.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 16];
        hex::decode_to_slice(text, &mut bytes).ok()?;
        Some(Self(bytes))
    }
}

macro_rules! hex_text {
    ($($name:ident)*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&hex::encode(self.0))
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    )*};
}
hex_text!(ChunkId ObjectId SnapshotId);
