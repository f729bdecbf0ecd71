//! Bytes that are too large for the event that names them, stream `blob/<name>` of the box log.
//!
//! A blob is written once, part by part. Who writes the same bytes again finds it there, and who died in
//! the middle is taken up where the log ends.

use std::sync::Arc;

use cocoonbox_events::{Aggregate, BlobEvent, IllegalTransition, Payload};
use cocoonbox_proto::log::v1::BlobStored;

/// Bytes of every part but the last: an event takes 256 KiB, and a reader finds any byte by its part.
pub const PART_BYTES_MAX: usize = 192 * 1024;
/// Of a whole blob. A screenshot has one megabyte, and what is longer belongs into a file.
pub const BLOB_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Parts in one command: an append takes 1 MiB.
const PARTS_MAX: usize = 4;
/// Of a media type.
const MEDIA_TYPE_BYTES_MAX: usize = 128;

/// A blob, folded. Its bytes are read from the log, never held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Empty until the first part is there.
    pub name: String,
    pub media_type: String,
    pub size_bytes: u64,
    /// Parts that are there.
    pub parts: u32,
}

/// The bytes that belong beneath a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Writes the parts that come next, at most as many as one append takes. To be repeated until
    /// [`State::is_whole`].
    Store {
        name: String,
        media_type: String,
        data: Arc<[u8]>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    #[error("field `{field}` is empty")]
    Empty { field: &'static str },
    #[error("`{field}` has {bytes} bytes; {max} fit")]
    TooLarge {
        field: &'static str,
        bytes: usize,
        max: usize,
    },
    #[error("blob `{name}` has {expected} bytes, not {found}")]
    OtherBlob {
        name: String,
        expected: u64,
        found: u64,
    },
}

impl State {
    pub fn is_whole(&self) -> bool {
        self.parts > 0 && u64::from(self.parts) == parts(self.size_bytes)
    }

    fn store(
        &self,
        name: &str,
        media_type: &str,
        data: &[u8],
    ) -> Result<Vec<BlobEvent>, Rejection> {
        not_empty("name", name)?;
        not_empty("media_type", media_type)?;
        fits("media_type", media_type.len(), MEDIA_TYPE_BYTES_MAX)?;
        if data.is_empty() {
            return Err(Rejection::Empty { field: "data" });
        }
        fits("data", data.len(), BLOB_BYTES_MAX)?;
        let size_bytes = data.len() as u64;
        if self.parts > 0 && self.size_bytes != size_bytes {
            return Err(Rejection::OtherBlob {
                name: name.to_owned(),
                expected: self.size_bytes,
                found: size_bytes,
            });
        }
        let missing = (0_u32..).zip(data.chunks(PART_BYTES_MAX));
        let next = missing
            .filter(|(part, _)| *part >= self.parts)
            .take(PARTS_MAX);
        Ok(next
            .map(|(part, data)| {
                BlobEvent::Stored(BlobStored {
                    name: name.to_owned(),
                    media_type: media_type.to_owned(),
                    size_bytes,
                    part,
                    data: data.to_vec(),
                })
            })
            .collect())
    }
}

impl Aggregate for State {
    type Command = Command;
    type Event = BlobEvent;
    type Rejection = Rejection;

    fn decide(&self, command: &Command) -> Result<Vec<BlobEvent>, Rejection> {
        let Command::Store {
            name,
            media_type,
            data,
        } = command;
        self.store(name, media_type, data)
    }

    fn evolve(mut self, event: &BlobEvent) -> Result<Self, IllegalTransition> {
        let BlobEvent::Stored(stored) = event;
        let is_next = stored.part == self.parts
            && u64::from(stored.part) < parts(stored.size_bytes)
            && (self.parts == 0 || stored.size_bytes == self.size_bytes);
        if !is_next {
            return Err(IllegalTransition {
                state: format!("{} of {} parts", self.parts, parts(self.size_bytes)),
                event: event.kind().name(),
            });
        }
        if self.parts == 0 {
            self.name.clone_from(&stored.name);
            self.media_type.clone_from(&stored.media_type);
            self.size_bytes = stored.size_bytes;
        }
        self.parts += 1;
        Ok(self)
    }

    fn pick(payload: Payload) -> Option<BlobEvent> {
        BlobEvent::pick(payload)
    }
}

/// Parts of a blob of this size.
fn parts(size_bytes: u64) -> u64 {
    size_bytes.div_ceil(PART_BYTES_MAX as u64)
}

fn not_empty(field: &'static str, value: &str) -> Result<(), Rejection> {
    if value.is_empty() {
        Err(Rejection::Empty { field })
    } else {
        Ok(())
    }
}

fn fits(field: &'static str, bytes: usize, max: usize) -> Result<(), Rejection> {
    if bytes > max {
        Err(Rejection::TooLarge { field, bytes, max })
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(data: &[u8]) -> Command {
        Command::Store {
            name: "n".to_owned(),
            media_type: "text/plain".to_owned(),
            data: data.into(),
        }
    }

    /// Executes until nothing is written any more; the bytes that were.
    fn whole(mut state: State, command: &Command) -> (State, Vec<u8>) {
        let mut written = Vec::new();
        loop {
            let events = state.decide(command).expect("decides");
            assert!(events.len() <= PARTS_MAX);
            if events.is_empty() {
                return (state, written);
            }
            for event in &events {
                let BlobEvent::Stored(stored) = event;
                assert!(stored.data.len() <= PART_BYTES_MAX);
                written.extend_from_slice(&stored.data);
                state = state.evolve(event).expect("evolves");
            }
        }
    }

    #[test]
    fn parts_are_the_bytes_again() {
        for length in [
            1,
            PART_BYTES_MAX,
            PART_BYTES_MAX + 1,
            6 * PART_BYTES_MAX + 5,
        ] {
            let data: Vec<u8> = (0..length)
                .map(|at| u8::try_from(at % 251).unwrap())
                .collect();
            let (state, written) = whole(State::default(), &store(&data));
            assert_eq!(written, data);
            assert!(state.is_whole());
        }
    }

    #[test]
    fn a_blob_that_broke_off_goes_on_where_it_ends() {
        let data = vec![7; 3 * PART_BYTES_MAX];
        let first = &State::default().decide(&store(&data)).expect("decides")[0];
        let state = State::default().evolve(first).expect("evolves");
        assert!(!state.is_whole());
        let (state, written) = whole(state, &store(&data));
        assert_eq!(written.len(), 2 * PART_BYTES_MAX);
        assert!(state.is_whole());
    }

    #[test]
    fn a_part_out_of_order_is_illegal() {
        let events = State::default().decide(&store(&vec![7; 3 * PART_BYTES_MAX]));
        let events = events.expect("decides");
        assert!(State::default().evolve(&events[1]).is_err());
        let state = State::default().evolve(&events[0]).expect("evolves");
        assert!(state.evolve(&events[0]).is_err());
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let too_large = store(&vec![0; BLOB_BYTES_MAX + 1]);
        assert!(matches!(
            State::default().decide(&too_large),
            Err(Rejection::TooLarge { field: "data", .. })
        ));
        assert_eq!(
            State::default().decide(&store(&[])),
            Err(Rejection::Empty { field: "data" })
        );
        let (state, _) = whole(State::default(), &store(b"abc"));
        assert!(matches!(
            state.decide(&store(b"abcd")),
            Err(Rejection::OtherBlob { .. })
        ));
    }
}
