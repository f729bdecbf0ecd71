//! What a terminal's command has written last, for those who look on.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::watch;

/// Kept of one terminal; there are sixteen at most.
const KEPT_BYTES_MAX: usize = 128 * 1024;

/// The end of an output, and a bell that rings when there is more. A clone is the same screen.
#[derive(Clone, Debug)]
pub(crate) struct Screen(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    kept: Mutex<VecDeque<u8>>,
    total: watch::Sender<u64>,
}

/// A part of the output.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Bytes before it that are not kept any more.
    pub(crate) skipped: u64,
    pub(crate) bytes: Vec<u8>,
}

impl Screen {
    pub(super) fn new() -> Self {
        Self(Arc::new(Inner {
            kept: Mutex::default(),
            total: watch::Sender::new(0),
        }))
    }

    /// Bytes written so far.
    pub(crate) fn total(&self) -> u64 {
        *self.0.total.borrow()
    }

    /// Where what is kept begins.
    pub(crate) fn beginning(&self) -> u64 {
        let kept = self.0.kept.lock().unwrap_or_else(PoisonError::into_inner);
        self.total() - kept.len() as u64
    }

    /// Returns what was written behind `from`, `most` bytes at most.
    pub(crate) fn since(&self, from: u64, most: usize) -> Piece {
        let kept = self.0.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let beginning = self.total() - kept.len() as u64;
        let at = usize::try_from(from.saturating_sub(beginning)).unwrap_or(usize::MAX);
        Piece {
            skipped: beginning.saturating_sub(from),
            bytes: kept.iter().skip(at).take(most).copied().collect(),
        }
    }

    /// Waits until something was written behind `from`.
    pub(crate) async fn beyond(&self, from: u64) {
        let mut bell = self.0.total.subscribe();
        // The sender lives as long as we do.
        bell.wait_for(|total| *total > from).await.ok();
    }

    pub(super) fn push(&self, bytes: &[u8]) {
        let mut kept = self.0.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let latest = &bytes[bytes.len().saturating_sub(KEPT_BYTES_MAX)..];
        let over = (kept.len() + latest.len()).saturating_sub(KEPT_BYTES_MAX);
        kept.drain(..over);
        kept.extend(latest);
        // Under the lock: whoever looks sees both or neither.
        self.0
            .total
            .send_modify(|total| *total += bytes.len() as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_end_and_counts_the_rest() {
        let screen = Screen::new();
        screen.push(b"abc");
        assert_eq!(
            screen.since(1, 1),
            Piece {
                skipped: 0,
                bytes: b"b".to_vec()
            }
        );
        screen.push(&vec![b'x'; KEPT_BYTES_MAX]);
        let piece = screen.since(1, 4);
        assert_eq!((piece.skipped, piece.bytes.as_slice()), (2, &b"xxxx"[..]));
        assert_eq!(screen.beginning(), 3);
        assert!(screen.since(screen.total(), 10).bytes.is_empty());
    }
}
