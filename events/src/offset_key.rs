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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    fn key() -> impl Strategy<Value = OffsetKey> {
        (any::<u128>(), 0..=POS_MAX, any::<[u8; 4]>()).prop_map(|(log, pos, chain)| {
            let log = LogId(Uuid::from_u128(log));
            OffsetKey { log, pos, chain }
        })
    }

    #[test]
    fn the_form_is_fixed() {
        let log = LogId(Uuid::from_u128(0x0123));
        let key = OffsetKey {
            log,
            pos: 42,
            chain: [0xab, 0, 1, 2],
        };
        let text = "00000000000000000000000000000123.0000000000000042.ab000102";
        assert_eq!(key.to_string(), text);
        assert_eq!(text.parse::<OffsetKey>().unwrap(), key);
    }

    #[test]
    fn other_forms_are_refused() {
        let log = "0".repeat(32);
        for text in [
            String::new(),
            format!("{log}.42.ab000102"),
            format!("{log}.0000000000000042.ab0001"),
            format!("{log}.0000000000000042.ab00010203"),
            format!("{log}.0000000000000042.zz000102"),
            format!("{log}.+000000000000042.ab000102"),
            format!("{log}.0000000000000042.ab000102."),
            format!("{log}.0000000000000042"),
            format!("{}.0000000000000042.ab000102", &log[1..]),
            format!("{}.0000000000000042.ab000102", Uuid::nil().hyphenated()),
            format!(" {log}.0000000000000042.ab000102"),
        ] {
            assert!(text.parse::<OffsetKey>().is_err(), "`{text}` was read");
        }
    }

    #[test]
    fn errors_show_only_the_start() {
        let error = "x".repeat(9_999).parse::<OffsetKey>().unwrap_err();
        assert!(error.to_string().len() < 200);
    }

    proptest! {
        #[test]
        fn keys_survive_as_text(key in key()) {
            prop_assert_eq!(key.to_string().parse::<OffsetKey>().unwrap(), key);
        }

        #[test]
        fn keys_of_a_log_sort_as_text(a in key(), pos in 0..=POS_MAX) {
            let b = OffsetKey { pos, ..a };
            prop_assert_eq!(a.to_string().cmp(&b.to_string()), a.pos.cmp(&b.pos));
        }

        #[test]
        fn garbage_never_panics(text in ".{0,80}") {
            prop_assert!(text.parse::<OffsetKey>().is_err());
        }

        #[test]
        fn nearly_keys_never_panic(key in key(), at in 0..58_usize, c in any::<char>()) {
            let mut text: Vec<char> = key.to_string().chars().collect();
            text[at] = c;
            let text: String = text.into_iter().collect();
            // What is read is what is written: one text for one key.
            if let Ok(read) = text.parse::<OffsetKey>() {
                prop_assert_eq!(read.to_string(), text.to_ascii_lowercase());
            }
        }
    }
}
