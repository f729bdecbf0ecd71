//! Identifiers: newtypes, so that two of them cannot be swapped.

use std::{fmt, str::FromStr};

use uuid::Uuid;

use crate::limits::STREAM_NAME_BYTES_MAX;

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub Uuid);

        impl $name {
            pub fn as_bytes(&self) -> &[u8; 16] {
                self.0.as_bytes()
            }

            /// Reads 16 bytes; `None` if there are not 16.
            pub fn from_slice(bytes: &[u8]) -> Option<Self> {
                Uuid::from_slice(bytes).ok().map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.simple().fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self.0.simple())
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            fn from_str(text: &str) -> Result<Self, uuid::Error> {
                Uuid::parse_str(text).map(Self)
            }
        }
    };
}

uuid_id!(
    /// Names one log. A rewind opens another one with another id.
    LogId
);
uuid_id!(
    /// Names one event, in whatever log it ends up.
    EventId
);
uuid_id!(
    /// The idempotency key of an append: a command with one id happens once.
    CommandId
);

impl CommandId {
    /// Derives the id of a step from the id of what caused it, so that repeating the cause repeats
    /// the id.
    pub fn derive(cause: &[u8], step: &str) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("cocoonbox 2026 derived command id");
        hasher.update(cause);
        hasher.update(&[0]);
        hasher.update(step.as_bytes());
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        Self(uuid::Builder::from_custom_bytes(bytes).into_uuid())
    }
}

/// Names a stream within a log, for example `box/7f3a`.
///
/// `[a-z]` first, then `[A-Za-z0-9/_.-]`, at most 200 bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamName(String);

#[derive(Debug, thiserror::Error)]
#[error("stream name `{0}` is empty, too long or has other characters than A-Z a-z 0-9 / _ . -")]
pub struct BadStreamName(String);

impl StreamName {
    pub fn new(name: impl Into<String>) -> Result<Self, BadStreamName> {
        let name = name.into();
        let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'_' | b'.' | b'-');
        let fits = name.len() <= STREAM_NAME_BYTES_MAX
            && name.bytes().next().is_some_and(|b| b.is_ascii_lowercase())
            && name.bytes().all(allowed);
        if fits {
            Ok(Self(name))
        } else {
            Err(BadStreamName(name.chars().take(60).collect()))
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns what follows the first slash: the aggregate's id.
    pub fn id(&self) -> &str {
        self.0.split_once('/').map_or("", |(_, id)| id)
    }
}

impl fmt::Display for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn stream_names_are_checked() {
        let long = format!("a{}", "b".repeat(STREAM_NAME_BYTES_MAX));
        for name in [
            "",
            "A",
            "/a",
            "1",
            "agent/ä",
            "agent a",
            "agent\0",
            "agent\n",
            long.as_str(),
        ] {
            assert!(StreamName::new(name).is_err(), "`{name}` was taken");
        }
        for name in [
            "a",
            "agent/Ab_9.x-y",
            "log/erasure",
            &long[1..].replacen('b', "c", 1),
        ] {
            assert_eq!(StreamName::new(name).unwrap().as_str(), name);
        }
    }

    #[test]
    fn a_stream_names_its_aggregate() {
        let id = |name: &str| StreamName::new(name).unwrap().id().to_owned();
        assert_eq!(id("box/7f3a"), "7f3a");
        assert_eq!(id("control/box/1"), "box/1");
        assert_eq!(id("directory"), "");
    }

    #[test]
    fn derived_commands_are_stable_and_apart() {
        let derive = |cause: &[u8], step| CommandId::derive(cause, step).to_string();
        assert_eq!(derive(b"cause", "step"), "028327cfd2748c16a3794d2f578cae0b");
        assert_eq!(derive(b"cause", "step"), derive(b"cause", "step"));
        let others = [
            derive(b"cause", "step2"),
            derive(b"caus", "step"),
            derive(b"causes", "tep"),
        ];
        assert!(
            others
                .iter()
                .all(|other| *other != derive(b"cause", "step"))
        );
    }

    proptest! {
        #[test]
        fn ids_survive_as_text_and_bytes(number in any::<u128>()) {
            let id = LogId(Uuid::from_u128(number));
            prop_assert_eq!(id.to_string().parse::<LogId>().unwrap(), id);
            prop_assert_eq!(LogId::from_slice(id.as_bytes()), Some(id));
        }

        #[test]
        fn other_lengths_are_no_ids(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            prop_assert_eq!(EventId::from_slice(&bytes).is_some(), bytes.len() == 16);
        }
    }
}
