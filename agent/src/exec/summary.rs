//! Head and tail of an output of any length, in memory that does not grow.

use std::collections::VecDeque;

use cocoonbox_proto::log::v1::OutputSummary;

/// The beginning and the end of a byte stream.
#[derive(Clone, Debug)]
pub(crate) struct HeadTail {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
    /// Of each of the two.
    bytes_max: usize,
}

impl HeadTail {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            head: Vec::new(),
            tail: VecDeque::new(),
            total: 0,
            bytes_max,
        }
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    pub(crate) fn take(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = (self.bytes_max - self.head.len()).min(bytes.len());
        let (head, rest) = bytes.split_at(room);
        self.head.extend_from_slice(head);
        // Of a long piece only the end can stay.
        let rest = &rest[rest.len().saturating_sub(self.bytes_max)..];
        let over = (self.tail.len() + rest.len()).saturating_sub(self.bytes_max);
        self.tail.drain(..over);
        self.tail.extend(rest);
    }

    pub(crate) fn summary(&self) -> OutputSummary {
        OutputSummary {
            total_bytes: self.total,
            head: self.head.clone(),
            tail: self.tail.iter().copied().collect(),
            omitted_bytes: self.omitted(),
        }
    }

    /// Renders it for a reader, saying what is left out.
    pub(crate) fn text(&self) -> String {
        let (head, tail): (&[u8], Vec<u8>) = (&self.head, self.tail.iter().copied().collect());
        match self.omitted() {
            0 => {
                let mut whole = head.to_vec();
                whole.extend(tail);
                String::from_utf8_lossy(&whole).into_owned()
            }
            omitted => format!(
                "{}\n[{omitted} of {} bytes left out]\n{}",
                String::from_utf8_lossy(head),
                self.total,
                String::from_utf8_lossy(&tail),
            ),
        }
    }

    fn omitted(&self) -> u64 {
        self.total - (self.head.len() + self.tail.len()) as u64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn keeps_both_ends(pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20), 0..20)) {
            let mut kept = HeadTail::new(8);
            let whole: Vec<u8> = pieces.concat();
            for piece in &pieces {
                kept.take(piece);
            }
            let summary = kept.summary();
            prop_assert_eq!(summary.total_bytes, whole.len() as u64);
            let head = whole.len().min(8);
            let tail = (whole.len() - head).min(8);
            prop_assert_eq!(&summary.head[..], &whole[..head]);
            prop_assert_eq!(&summary.tail[..], &whole[whole.len() - tail..]);
            prop_assert_eq!(summary.omitted_bytes, (whole.len() - head - tail) as u64);
        }
    }
}
