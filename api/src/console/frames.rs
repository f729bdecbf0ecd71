//! Messages of a gRPC body: a flag, a length of four bytes, and so many bytes
//! (`PROTOCOL-HTTP2.md` of gRPC, "Length-Prefixed-Message").

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

const PREFIX: usize = 5;

/// Cuts a body into its messages, wherever the body's own pieces end.
#[derive(Debug)]
pub(super) struct Frames {
    held: BytesMut,
    bytes_max: usize,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadFrame {
    #[error("a message of {bytes} bytes is over the limit of {bytes_max}")]
    TooLong { bytes: usize, bytes_max: usize },
    #[error("a message is compressed, which nobody asked for")]
    Compressed,
}

impl Frames {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            held: BytesMut::new(),
            bytes_max,
        }
    }

    /// Takes the next piece of the body.
    pub(super) fn take(&mut self, piece: &[u8]) {
        self.held.extend_from_slice(piece);
    }

    /// Returns the next message that is whole.
    pub(super) fn next(&mut self) -> Result<Option<Bytes>, BadFrame> {
        let Some((prefix, rest)) = self.held.split_first_chunk::<PREFIX>() else {
            return Ok(None);
        };
        let [flag, length @ ..] = *prefix;
        if flag != 0 {
            return Err(BadFrame::Compressed);
        }
        let bytes = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        let bytes_max = self.bytes_max;
        if bytes > bytes_max {
            return Err(BadFrame::TooLong { bytes, bytes_max });
        }
        if rest.len() < bytes {
            return Ok(None);
        }
        self.held.advance(PREFIX);
        Ok(Some(self.held.split_to(bytes).freeze()))
    }
}

/// Makes a message a piece of a body. Its length is at most `u32::MAX`, which every caller's bound is below.
pub(super) fn framed(message: &[u8]) -> Bytes {
    let mut framed = BytesMut::with_capacity(PREFIX + message.len());
    framed.put_u8(0);
    framed.put_u32(u32::try_from(message.len()).expect("messages are bounded far below 4 GiB"));
    framed.put_slice(message);
    framed.freeze()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn messages_come_out_as_they_went_in(
            messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..12),
            cut in 1..17_usize,
        ) {
            let body: Vec<u8> = messages.iter().flat_map(|one| framed(one)).collect();
            let (mut frames, mut out) = (Frames::new(64), Vec::new());
            for piece in body.chunks(cut) {
                frames.take(piece);
                while let Some(message) = frames.next().unwrap() {
                    out.push(message.to_vec());
                }
            }
            prop_assert_eq!(out, messages);
        }

        #[test]
        fn any_bytes_are_messages_or_refused(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut frames = Frames::new(64);
            frames.take(&body);
            let mut bytes = 0;
            while let Ok(Some(message)) = frames.next() {
                bytes += PREFIX + message.len();
            }
            prop_assert!(bytes <= body.len());
        }
    }

    #[test]
    fn a_long_or_compressed_message_is_refused_by_its_prefix() {
        let mut frames = Frames::new(64);
        frames.take(&[0, 0, 0, 0, 65]);
        let (bytes, bytes_max) = (65, 64);
        assert_eq!(frames.next(), Err(BadFrame::TooLong { bytes, bytes_max }));
        let mut frames = Frames::new(64);
        frames.take(&[1, 0, 0, 0, 1]);
        assert_eq!(frames.next(), Err(BadFrame::Compressed));
    }
}
