//! Messages on a pipe: JSON texts, each ended by a zero byte, as `--remote-debugging-pipe` has them.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

/// Longest message that is taken in. The accessibility tree of a very large page has some tens of MiB.
const MESSAGE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Enough of a longer one to say what it answers.
const BEGINNING_BYTES: usize = 64;
const CHUNK_BYTES: usize = 64 * 1024;
/// Capacity that is kept between messages.
const KEPT_BYTES: usize = 1024 * 1024;

/// What came.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Message {
    Whole(Vec<u8>),
    /// It was longer than anything that is taken in: its beginning.
    TooLong(Vec<u8>),
}

/// Splits what is read into messages.
#[derive(Debug)]
pub(super) struct Reader<R> {
    from: R,
    chunk: Box<[u8]>,
    /// Read of the chunk, and already taken.
    filled: usize,
    taken: usize,
    message_bytes_max: usize,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    pub(super) fn new(from: R) -> Self {
        Self {
            from,
            chunk: vec![0; CHUNK_BYTES].into(),
            filled: 0,
            taken: 0,
            message_bytes_max: MESSAGE_BYTES_MAX,
        }
    }

    /// Returns the next message; `None` at the end, where half a message counts as none. Not to be dropped
    /// while it waits.
    pub(super) async fn next(&mut self) -> io::Result<Option<Message>> {
        let mut message = Vec::new();
        let mut is_too_long = false;
        loop {
            if self.taken == self.filled {
                self.filled = self.from.read(&mut self.chunk).await?;
                self.taken = 0;
                if self.filled == 0 {
                    return Ok(None);
                }
            }
            let rest = &self.chunk[self.taken..self.filled];
            let end = rest.iter().position(|byte| *byte == 0);
            let piece = &rest[..end.unwrap_or(rest.len())];
            self.taken += piece.len() + usize::from(end.is_some());
            if message.len() + piece.len() > self.message_bytes_max {
                is_too_long = true;
                message.extend_from_slice(&piece[..piece.len().min(BEGINNING_BYTES)]);
                message.truncate(BEGINNING_BYTES);
                message.shrink_to(KEPT_BYTES);
            } else if !is_too_long {
                message.extend_from_slice(piece);
            }
            if end.is_some() {
                return Ok(Some(if is_too_long {
                    Message::TooLong(message)
                } else {
                    Message::Whole(message)
                }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    async fn all(bytes: &[u8], message_bytes_max: usize) -> Vec<Message> {
        let mut reader = Reader::new(bytes);
        reader.message_bytes_max = message_bytes_max;
        let mut found = Vec::new();
        while let Some(message) = reader.next().await.unwrap() {
            found.push(message);
        }
        found
    }

    proptest! {
        #[test]
        fn messages_come_back_whole_or_with_their_beginning(
            messages in prop::collection::vec(prop::collection::vec(1..=255_u8, 0..300), 0..8),
            half in prop::collection::vec(1..=255_u8, 0..20),
            limit in 64_usize..200,
        ) {
            let mut bytes = messages.join(&0);
            if !messages.is_empty() {
                bytes.push(0);
            }
            bytes.extend(&half);
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let found = runtime.block_on(all(&bytes, limit));
            let expected: Vec<Message> = messages
                .into_iter()
                .map(|message| {
                    if message.len() > limit {
                        Message::TooLong(message[..BEGINNING_BYTES].to_vec())
                    } else {
                        Message::Whole(message)
                    }
                })
                .collect();
            prop_assert_eq!(found, expected);
        }
    }
}
