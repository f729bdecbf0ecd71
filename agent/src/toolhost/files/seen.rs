//! What each reader has seen of each file, so that nobody writes over what they do not know of.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, PoisonError},
};

use super::{Refusal, path::Place};

/// Files remembered, of all readers together. What is forgotten is not checked.
const FILES_MAX: usize = 4_096;

/// Digests of files as they were read or written last.
#[derive(Debug, Default)]
pub(super) struct Seen(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    digests: HashMap<Key, blake3::Hash>,
    order: VecDeque<Key>,
}

type Key = (String, std::path::PathBuf);

impl Seen {
    /// Remembers that the reader knows the file as it is. An empty reader is nobody.
    pub(super) fn note(&self, reader: &str, place: &Place, content: &[u8]) {
        if reader.is_empty() {
            return;
        }
        let key = (reader.to_owned(), place.full());
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known.digests.insert(key.clone(), blake3::hash(content));
        if before.is_none() {
            known.order.push_back(key);
        }
        if known.order.len() > FILES_MAX
            && let Some(oldest) = known.order.pop_front()
        {
            known.digests.remove(&oldest);
        }
    }

    /// Refuses if the reader has seen the file and it was another.
    pub(super) fn check(&self, reader: &str, place: &Place, content: &[u8]) -> Result<(), Refusal> {
        let key = (reader.to_owned(), place.full());
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match known.digests.get(&key) {
            Some(digest) if *digest != blake3::hash(content) => Err(Refusal::Changed {
                path: place.shown.clone(),
            }),
            _ => Ok(()),
        }
    }
}
