//! Keeps the vendor's key from coming back: some servers repeat the caller's key in error messages.

use bytes::Bytes;

/// Shorter keys are not secrets, and would be found by chance.
const KEY_BYTES_MIN: usize = 8;

/// Overwrites a key wherever it appears in a stream, with as many stars, so that lengths stay true.
///
/// Bytes that may be the beginning of the key wait for the next chunk; all others pass at once.
pub(crate) struct Scrub {
    key: Option<zeroize::Zeroizing<Vec<u8>>>,
    held: Vec<u8>,
}

impl Scrub {
    pub(crate) fn new(key: &str) -> Self {
        let worth = key.len() >= KEY_BYTES_MIN;
        Self {
            key: worth.then(|| zeroize::Zeroizing::new(key.as_bytes().to_vec())),
            held: Vec::new(),
        }
    }

    pub(crate) fn feed(&mut self, chunk: Bytes) -> Bytes {
        let Some(key) = &self.key else { return chunk };
        if self.held.is_empty() && find(&chunk, key).is_none() {
            let held = tail(&chunk, key);
            if held == 0 {
                return chunk;
            }
            self.held.extend_from_slice(&chunk[chunk.len() - held..]);
            return chunk.slice(..chunk.len() - held);
        }
        let mut bytes = std::mem::take(&mut self.held);
        bytes.extend_from_slice(&chunk);
        let mut from = 0;
        while let Some(at) = find(&bytes[from..], key) {
            let start = from + at;
            from = start + key.len();
            bytes[start..from].fill(b'*');
        }
        self.held = bytes.split_off(bytes.len() - tail(&bytes[from..], key));
        Bytes::from(bytes)
    }

    /// Returns what waited: the stream has ended, so it is not the key.
    pub(crate) fn finish(&mut self) -> Bytes {
        Bytes::from(std::mem::take(&mut self.held))
    }
}

fn find(bytes: &[u8], key: &[u8]) -> Option<usize> {
    let first = *key.first()?;
    let mut from = 0;
    while let Some(at) = bytes[from..].iter().position(|byte| *byte == first) {
        from += at;
        if bytes[from..].starts_with(key) {
            return Some(from);
        }
        from += 1;
    }
    None
}

/// Returns the length of the longest end of the bytes that is a beginning of the key.
fn tail(bytes: &[u8], key: &[u8]) -> usize {
    let longest = bytes.len().min(key.len() - 1);
    (1..=longest)
        .rev()
        .find(|&length| bytes.ends_with(&key[..length]))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn run(key: &str, text: &[u8], cut: usize) -> Vec<u8> {
        let mut scrub = Scrub::new(key);
        let mut out = Vec::new();
        for chunk in text.chunks(cut) {
            out.extend_from_slice(&scrub.feed(Bytes::copy_from_slice(chunk)));
            let waits = out.len() + scrub.held.len();
            assert!(waits <= text.len() && scrub.held.len() < key.len());
        }
        out.extend_from_slice(&scrub.finish());
        out
    }

    #[test]
    fn whole_events_pass_untouched_and_uncopied() {
        let event = Bytes::from_static(b"data: {\"type\":\"sk-\"}\n\n");
        let passed = Scrub::new("sk-12345").feed(event.clone());
        assert_eq!(passed.as_ptr(), event.as_ptr());
        assert_eq!(passed, event);
    }

    proptest! {
        #[test]
        fn the_key_never_passes_and_the_rest_does(
            parts in prop::collection::vec("[ab]{0,10}", 0..5),
            key in "[ab]{8,10}",
            cut in 1_usize..12,
        ) {
            let text = parts.join(&key);
            let mut expected = text.clone().into_bytes();
            let mut from = 0;
            while let Some(at) = text[from..].find(&key) {
                expected[from + at..from + at + key.len()].fill(b'*');
                from += at + key.len();
            }
            prop_assert_eq!(run(&key, text.as_bytes(), cut), expected);
        }
    }
}
