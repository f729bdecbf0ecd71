//! The hash chain: what each event commits to.
//!
//! `chain[0] = H("cocoonbox log v1" || log_id || parent chain or zero)` and
//! `chain[n] = H("cocoonbox event v1" || chain[n-1] || le(pos) || len-prefixed(stream, seq, kind,
//! version, recorded_us, header) || payload_hash)`, H = BLAKE3.
//!
//! A payload is committed to by `BLAKE3-derive_key("cocoonbox 2026 payload", salt || payload)`: it can
//! be erased, or sealed under another key, and the chain still verifies; and without the salt nobody
//! can guess a short payload from its hash.

use std::{fmt, sync::LazyLock};

use blake3::hazmat::{ContextKey, HasherExt, hash_derive_key_context};

use crate::{id::LogId, record::Recorded};

/// The context's hash, which is the same for every payload.
static PAYLOAD: LazyLock<ContextKey> =
    LazyLock::new(|| hash_derive_key_context("cocoonbox 2026 payload"));

/// A link of the chain; commits to every event up to its position.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChainHash(pub [u8; 32]);

/// The salted commitment to one payload.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PayloadHash(pub [u8; 32]);

impl ChainHash {
    /// Returns the link before the first event of a log.
    pub fn genesis(log: LogId, parent: Option<ChainHash>) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"cocoonbox log v1");
        hasher.update(log.as_bytes());
        hasher.update(&parent.map_or([0; 32], |chain| chain.0));
        Self(*hasher.finalize().as_bytes())
    }

    /// Returns the link that `link`'s fields give on top of this one.
    pub fn next(&self, link: &Link<'_>) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"cocoonbox event v1");
        hasher.update(&self.0);
        hasher.update(&link.pos.to_le_bytes());
        let mut field = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        field(link.stream.as_bytes());
        field(&link.seq.to_le_bytes());
        field(&link.kind.to_le_bytes());
        field(&link.version.to_le_bytes());
        field(&link.recorded_us.to_le_bytes());
        field(link.header);
        hasher.update(&link.payload_hash.0);
        Self(*hasher.finalize().as_bytes())
    }

    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// The first four bytes as eight hex digits, as they stand in an offset key.
    pub fn short(&self) -> [u8; 4] {
        [self.0[0], self.0[1], self.0[2], self.0[3]]
    }
}

/// The fields of an event that a chain hash covers.
#[derive(Clone, Copy, Debug)]
pub struct Link<'a> {
    pub pos: u64,
    pub stream: &'a str,
    pub seq: u64,
    pub kind: u32,
    pub version: u32,
    pub recorded_us: i64,
    pub header: &'a [u8],
    pub payload_hash: PayloadHash,
}

impl<'a> From<&'a Recorded> for Link<'a> {
    fn from(event: &'a Recorded) -> Self {
        Self {
            pos: event.pos,
            stream: event.stream.as_str(),
            seq: event.seq,
            kind: event.kind,
            version: event.version,
            recorded_us: event.recorded_us,
            header: &event.header,
            payload_hash: event.payload_hash,
        }
    }
}

impl PayloadHash {
    pub fn of(salt: &[u8; 16], payload: &[u8]) -> Self {
        let mut hasher = blake3::Hasher::new_from_context_key(&PAYLOAD);
        hasher.update(salt);
        hasher.update(payload);
        Self(*hasher.finalize().as_bytes())
    }

    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }
}

macro_rules! hex_debug {
    ($($name:ident),*) => { $(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&hex::encode(self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({}…)", stringify!($name), hex::encode(&self.0[..4]))
            }
        }
    )* };
}

hex_debug!(ChainHash, PayloadHash);

/// Why an event does not follow from the one before it.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Break {
    #[error("position {found} where {expected} follows")]
    Position { expected: u64, found: u64 },
    #[error("chain at position {pos} does not follow from what is before it")]
    Chain { pos: u64 },
    #[error("payload at position {pos} is not what its hash says")]
    Payload { pos: u64 },
    #[error("time at position {pos} goes back")]
    Time { pos: u64 },
}

/// Checks events one after the other. Give it each event of a log in order.
#[derive(Clone, Debug)]
pub struct Verifier {
    pos: u64,
    chain: ChainHash,
    recorded_us: i64,
}

impl Verifier {
    /// Starts behind position `pos`, whose link is `chain` (0 and the genesis link: from the start).
    pub fn after(pos: u64, chain: ChainHash) -> Self {
        Self {
            pos,
            chain,
            recorded_us: i64::MIN,
        }
    }

    /// Starts behind position `pos`, whose event was recorded at `recorded_us`.
    pub fn resume(pos: u64, chain: ChainHash, recorded_us: i64) -> Self {
        Self {
            pos,
            chain,
            recorded_us,
        }
    }

    pub fn pos(&self) -> u64 {
        self.pos
    }

    pub fn chain(&self) -> ChainHash {
        self.chain
    }

    /// Checks that `event` is the next one and is what its hashes say.
    pub fn check(&mut self, event: &Recorded) -> Result<(), Break> {
        let expected = self.pos + 1;
        if event.pos != expected {
            return Err(Break::Position {
                expected,
                found: event.pos,
            });
        }
        if event.recorded_us < self.recorded_us {
            return Err(Break::Time { pos: event.pos });
        }
        if let Some(body) = &event.body
            && PayloadHash::of(&body.salt, &body.payload) != event.payload_hash
        {
            return Err(Break::Payload { pos: event.pos });
        }
        let chain = self.chain.next(&Link::from(event));
        if chain != event.chain {
            return Err(Break::Chain { pos: event.pos });
        }
        self.pos = expected;
        self.chain = chain;
        self.recorded_us = event.recorded_us;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn log() -> LogId {
        LogId(Uuid::from_u128(0x0123_4567))
    }

    fn link() -> Link<'static> {
        Link {
            pos: 1,
            stream: "agent/a",
            seq: 1,
            kind: 100,
            version: 1,
            recorded_us: 1_700_000_000_000_000,
            header: b"header",
            payload_hash: PayloadHash::of(&[7; 16], b"payload"),
        }
    }

    /// These are in logs. A change here makes every log out there unverifiable.
    #[test]
    fn hashes_are_for_ever() {
        let genesis = ChainHash::genesis(log(), None);
        let lines = [
            genesis.to_string(),
            ChainHash::genesis(log(), Some(genesis)).to_string(),
            link().payload_hash.to_string(),
            genesis.next(&link()).to_string(),
        ];
        insta::assert_snapshot!(lines.join("\n"), @r"
        d357c17b558ab24c79a3f6a18cbb68e94679d9ad299b5ec5b0ba32dfb2637c15
        428897cd4f0a17d5d77827c7fdf517d91bb264baf60ecdfc187075b08b26f0af
        f036b8f35b9c47073721ab2b01ea4b96ed32244ab4fef0568dbfa0aea23b7789
        c7b264faf3713efd33ffbf1fed189561bcb318a7149a451d455bb083f0419361
        ");
    }

    #[test]
    fn every_field_counts() {
        let genesis = ChainHash::genesis(log(), None);
        let chain = genesis.next(&link());
        let others = [
            Link { pos: 2, ..link() },
            Link {
                stream: "agent/b",
                ..link()
            },
            Link { seq: 2, ..link() },
            Link {
                kind: 101,
                ..link()
            },
            Link {
                version: 2,
                ..link()
            },
            Link {
                recorded_us: 1,
                ..link()
            },
            Link {
                header: b"headers",
                ..link()
            },
            Link {
                payload_hash: PayloadHash::of(&[8; 16], b"payload"),
                ..link()
            },
        ];
        for other in others {
            assert_ne!(genesis.next(&other), chain, "{other:?}");
        }
        assert_ne!(ChainHash([0; 32]).next(&link()), chain);
        // Lengths are part of it: bytes cannot move from one field to the next.
        let (a, b) = (
            Link {
                stream: "ab",
                header: b"c",
                ..link()
            },
            Link {
                stream: "a",
                header: b"bc",
                ..link()
            },
        );
        assert_ne!(genesis.next(&a), genesis.next(&b));
    }
}
