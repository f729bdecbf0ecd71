//! Which keys speak for the logs of an installation.
//!
//! The system log names every key that was issued. Whoever can write the whole store can write another
//! key there, so an auditor gives a key that they know. From it trust goes on through the system log: a
//! checkpoint of the system log that is signed by a trusted key, and is true, vouches for the keys that
//! are named before it. The first checkpoint of a new key carries the old one's signature as well.

use std::sync::Arc;

use cocoonbox_events::{
    LogEvent, LogId, LogKind, Payload, Store, StreamName,
    checkpoint::{KeyName, VerifierKey},
    limits::PAGE_EVENTS_MAX,
};

/// Stream of the system log that names the keys.
const STREAM: &str = "log/checkpoint-keys";

/// A key as the system log names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedKey {
    pub key: VerifierKey,
    /// Positions in the system log.
    pub issued: u64,
    pub retired: Option<u64>,
}

/// Returns the keys that the system log names, oldest first. Whether to believe it is another question.
pub async fn named_keys(store: &Arc<dyn Store>) -> Vec<NamedKey> {
    let keys = Keys::read(store, &[]).await;
    let named = keys.known.into_iter().filter_map(|known| {
        Some(NamedKey {
            issued: known.issued?,
            retired: known.retired,
            key: known.key,
        })
    });
    named.collect()
}

/// Every key that is known, and which of them are trusted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keys {
    known: Vec<Known>,
    system: Option<LogId>,
}

#[derive(Clone, Debug)]
struct Known {
    key: VerifierKey,
    is_trusted: bool,
    /// Position in the system log at which it was issued; `None`: only given.
    issued: Option<u64>,
    retired: Option<u64>,
}

impl Keys {
    /// Reads what the system log names. With no key given all of them are trusted.
    pub(crate) async fn read(store: &Arc<dyn Store>, given: &[VerifierKey]) -> Self {
        let system = store
            .logs()
            .into_iter()
            .find(|log| log.kind == LogKind::System && log.moved_to.is_none())
            .map(|log| log.id);
        let given_one = |key: &VerifierKey| Known {
            key: key.clone(),
            is_trusted: true,
            issued: None,
            retired: None,
        };
        let mut keys = Self {
            known: given.iter().map(given_one).collect(),
            system,
        };
        let (Some(system), Ok(stream)) = (system, StreamName::new(STREAM)) else {
            return keys;
        };
        let (mut seq, mut limit) = (0, PAGE_EVENTS_MAX);
        loop {
            let page = match store.read_stream(system, &stream, seq, limit).await {
                Ok(page) => page,
                // What is in front of a damaged row is read alone.
                Err(_) if limit > 1 => {
                    limit = 1;
                    continue;
                }
                // The walk through the system log says what this is.
                Err(_) => break,
            };
            let Some(last) = page.events.last() else {
                break;
            };
            seq = last.seq;
            for event in &page.events {
                match event.payload() {
                    Ok(Some(Payload::Log(LogEvent::CheckpointKeyIssued(issued)))) => {
                        if let Some(key) = key(issued.name, &issued.public_key) {
                            keys.issue(key, event.pos, given.is_empty());
                        }
                    }
                    Ok(Some(Payload::Log(LogEvent::CheckpointKeyRetired(retired)))) => {
                        if let Some(key) = key(retired.name, &retired.public_key) {
                            keys.retire(&key, event.pos);
                        }
                    }
                    _ => {}
                }
            }
        }
        keys
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    pub(crate) fn known(&self) -> impl Iterator<Item = &VerifierKey> {
        self.known.iter().map(|known| &known.key)
    }

    pub(crate) fn trusted(&self) -> impl Iterator<Item = &VerifierKey> {
        let trusted = self.known.iter().filter(|known| known.is_trusted);
        trusted.map(|known| &known.key)
    }

    pub(crate) fn is_trusted(&self, key: &VerifierKey) -> bool {
        self.trusted().any(|trusted| trusted == key)
    }

    /// Takes in that a trusted checkpoint of this log was found true: what the system log names up to
    /// there is as it was.
    pub(crate) fn vouch(&mut self, log: LogId, size: u64) {
        if self.system != Some(log) {
            return;
        }
        for known in &mut self.known {
            known.is_trusted |= known.issued.is_some_and(|issued| issued <= size);
        }
    }

    /// Whether, in the system log, this key had no business signing at this size alone.
    pub(crate) fn was_retired(&self, key: &VerifierKey, log: LogId, size: u64) -> bool {
        let known = self.known.iter().find(|known| known.key == *key);
        self.system == Some(log)
            && known.is_some_and(|known| known.retired.is_some_and(|retired| retired < size))
    }

    fn issue(&mut self, key: VerifierKey, pos: u64, is_trusted: bool) {
        match self.known.iter_mut().find(|known| known.key == key) {
            Some(known) => known.issued = known.issued.or(Some(pos)),
            None => self.known.push(Known {
                key,
                is_trusted,
                issued: Some(pos),
                retired: None,
            }),
        }
    }

    fn retire(&mut self, key: &VerifierKey, pos: u64) {
        let known = self.known.iter_mut().find(|known| known.key == *key);
        if let Some(known) = known {
            known.retired = known.retired.or(Some(pos));
        }
    }
}

fn key(name: String, public: &[u8]) -> Option<VerifierKey> {
    VerifierKey::new(KeyName::new(name).ok()?, public)
}
