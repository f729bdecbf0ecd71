//! One model call: its stream into the log in coalesced chunks.

use std::{collections::BTreeMap, time::Duration};

use cocoonbox_commands::agent::{CHUNK_BYTES_MAX, CHUNKS_MAX, Chunk, Command};
use cocoonbox_proto::log::v1::agent_model_failed::Reason;
use tokio::time::{Instant, sleep_until};

use crate::{
    prefix::prefix,
    wire::{Delta, Failure, Reply},
};

/// Between two appends of streamed output: ten a second, and sooner when a chunk is full.
const PACE: Duration = Duration::from_millis(100);

/// What may be left for the append of the reply, which has the calls of the step that follows in it too. It takes 1 MiB;
/// a reply has 240 KiB, and its calls no more.
const LEFT_BYTES_MAX: usize = 256 * 1024;

/// How a model call ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// What was not written yet, and the reply. The next step may follow at once.
    Whole(Vec<Command>),
    /// Behind it there may be a wait.
    Broken(Command),
}

/// Streamed output on its way into the log.
#[derive(Debug)]
pub(super) struct Streamed {
    pending: Vec<Chunk>,
    pending_bytes: usize,
    /// Bytes of each block that were taken.
    taken: BTreeMap<u32, u64>,
    next_write: Instant,
}

impl Streamed {
    pub(super) fn new() -> Self {
        Self {
            pending: Vec::new(),
            pending_bytes: 0,
            taken: BTreeMap::new(),
            next_write: Instant::now(),
        }
    }

    pub(super) fn take(&mut self, deltas: Vec<Delta>) {
        for Delta { block, part, text } in deltas {
            let taken = self.taken.entry(block).or_default();
            let mut rest = text.as_str();
            while !rest.is_empty() {
                let last = self.pending.last_mut().filter(|last| {
                    last.block == block && last.part == part && last.text.len() < CHUNK_BYTES_MAX
                });
                let room = CHUNK_BYTES_MAX - last.as_ref().map_or(0, |last| last.text.len());
                let fitting = prefix(rest, room);
                let piece = match last {
                    Some(last) if !fitting.is_empty() => {
                        last.text.push_str(fitting);
                        fitting
                    }
                    // The one before is full, or what is left of it is less than a character.
                    _ => {
                        let piece = prefix(rest, CHUNK_BYTES_MAX);
                        let text = piece.to_owned();
                        self.pending.push(Chunk {
                            block,
                            part,
                            offset: *taken,
                            text,
                        });
                        piece
                    }
                };
                *taken += piece.len() as u64;
                self.pending_bytes += piece.len();
                rest = &rest[piece.len()..];
            }
        }
    }

    /// Returns once there is something that should be written.
    pub(super) async fn due(&self) {
        if self.pending.is_empty() {
            std::future::pending::<()>().await;
        } else {
            sleep_until(self.next_write).await;
        }
    }

    /// Returns at once where what is there has waited for long, or is much: a stream that never pauses is written too.
    pub(super) async fn overdue(&self) {
        let is_late = !self.pending.is_empty() && Instant::now() >= self.next_write + PACE;
        if !is_late && self.pending_bytes < CHUNK_BYTES_MAX {
            std::future::pending::<()>().await;
        }
    }

    /// Whether what is left fits beside a reply.
    pub(super) fn fits_beside(&self) -> bool {
        self.pending.len() <= CHUNKS_MAX && self.pending_bytes <= LEFT_BYTES_MAX
    }

    pub(super) fn drain(&mut self) -> Vec<Chunk> {
        self.next_write = Instant::now() + PACE;
        self.pending_bytes = 0;
        std::mem::take(&mut self.pending)
    }
}

pub(super) fn streamed(call_id: &str, chunks: Vec<Chunk>) -> Command {
    Command::Streamed {
        call_id: call_id.to_owned(),
        chunks,
    }
}

pub(super) fn replied(call_id: &str, reply: Reply) -> Command {
    Command::Replied {
        call_id: call_id.to_owned(),
        blocks: reply.blocks,
        stop: reply.stop,
        vendor_stop: reply.vendor_stop,
        usage: reply.usage,
        vendor_request_id: reply.vendor_request_id,
    }
}

pub(super) fn failed(call_id: &str, failure: Failure) -> Command {
    Command::ModelFailed {
        call_id: call_id.to_owned(),
        reason: failure.reason,
        detail: failure.detail,
        retryable: failure.retryable,
        retry_after_ms: failure.retry_after_ms,
    }
}

/// The report of a call that was broken off.
pub(super) fn cancelled(call_id: &str) -> Command {
    let failure = Failure::new(Reason::Cut, "broken off: the turn was cancelled");
    failed(
        call_id,
        Failure {
            retryable: false,
            ..failure
        },
    )
}

/// Stands for a reply that the log did not take. The same call would bring the same again.
pub(super) fn unusable(call_id: &str) -> Command {
    let failure = Failure::new(Reason::Garbled, "the reply could not be recorded");
    failed(
        call_id,
        Failure {
            retryable: false,
            ..failure
        },
    )
}

#[cfg(test)]
mod tests {
    use cocoonbox_proto::log::v1::agent_output_streamed::Part;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn chunks_are_the_text_again(pieces in proptest::collection::vec(("[a-z🦋]{0,40}", 0_u32..3, 1_usize..900), 0..20)) {
            let mut streamed = Streamed::new();
            let mut expected = BTreeMap::<u32, String>::new();
            for (text, block, times) in pieces {
                let text = text.repeat(times);
                expected.entry(block).or_default().push_str(&text);
                streamed.take(vec![Delta { block, part: Part::Text, text }]);
            }
            let mut found = BTreeMap::<u32, String>::new();
            for chunk in streamed.drain() {
                prop_assert!(chunk.text.len() <= CHUNK_BYTES_MAX && !chunk.text.is_empty());
                let text = found.entry(chunk.block).or_default();
                prop_assert_eq!(chunk.offset, text.len() as u64);
                text.push_str(&chunk.text);
            }
            expected.retain(|_, text| !text.is_empty());
            prop_assert_eq!(found, expected);
        }
    }
}
