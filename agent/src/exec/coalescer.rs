//! How much of an output is logged as it comes.
//!
//! The first bytes of each source are logged whole: most commands end within them. Behind that the log
//! gets a sample ten times a second, so that one can see what goes on, and in the end counts only.

use std::collections::VecDeque;

use cocoonbox_commands::exec::Command;
use cocoonbox_proto::log::v1::exec_output_streamed::Source;

/// Of each source, logged without a gap.
const WHOLE_BYTES: u64 = 256 * 1024;
/// One event of the whole part; two of them fit an append.
const WHOLE_CHUNK_BYTES_MAX: usize = 64 * 1024;
/// One sample of what follows.
const SAMPLE_BYTES_MAX: usize = 16 * 1024;
/// Of both sources of one exec together; behind it bytes are only counted.
const LOGGED_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Output on its way into the log. Drained at most ten times a second.
#[derive(Debug, Default)]
pub(crate) struct Coalescer {
    stdout: Pending,
    stderr: Pending,
    logged: u64,
}

/// One source: what waits of the whole part, then what is left out, then the sample.
#[derive(Debug, Default)]
struct Pending {
    /// Bytes that the log accounts for, skipped ones included.
    written: u64,
    whole: VecDeque<u8>,
    /// Bytes that ever went into `whole`.
    whole_taken: u64,
    skipped: u64,
    sample: VecDeque<u8>,
}

impl Coalescer {
    pub(crate) fn take(&mut self, source: Source, bytes: &[u8]) {
        let may_sample = self.logged < LOGGED_BYTES_MAX;
        self.pending(source).take(bytes, may_sample);
    }

    /// Whether reading has to wait for the next drain. Only the whole part makes anyone wait.
    pub(crate) fn is_full(&self) -> bool {
        [&self.stdout, &self.stderr]
            .into_iter()
            .any(|pending| pending.whole.len() >= WHOLE_CHUNK_BYTES_MAX)
    }

    /// Whether a drain would write something.
    pub(crate) fn is_due(&self) -> bool {
        [&self.stdout, &self.stderr]
            .into_iter()
            .any(|pending| !pending.whole.is_empty() || !pending.sample.is_empty())
    }

    /// Returns what is to be written: one event of each source at most. At the end it is drained until
    /// nothing is due.
    pub(crate) fn drain(&mut self) -> Vec<Command> {
        let mut commands = Vec::new();
        for (source, pending) in [
            (Source::Stdout, &mut self.stdout),
            (Source::Stderr, &mut self.stderr),
        ] {
            if let Some((offset, data, skipped)) = pending.drain() {
                self.logged += data.len() as u64;
                commands.push(Command::Output {
                    source,
                    offset,
                    data,
                    skipped,
                });
            }
        }
        commands
    }

    fn pending(&mut self, source: Source) -> &mut Pending {
        match source {
            Source::Stderr => &mut self.stderr,
            Source::Stdout | Source::Unspecified => &mut self.stdout,
        }
    }
}

impl Pending {
    fn take(&mut self, bytes: &[u8], may_sample: bool) {
        let room = usize::try_from(WHOLE_BYTES - self.whole_taken).unwrap_or(usize::MAX);
        let (whole, rest) = bytes.split_at(room.min(bytes.len()));
        self.whole.extend(whole);
        self.whole_taken += whole.len() as u64;
        if !may_sample {
            self.skipped += (rest.len() + self.sample.len()) as u64;
            self.sample.clear();
            return;
        }
        // The latest bytes say most about what goes on.
        let latest = &rest[rest.len().saturating_sub(SAMPLE_BYTES_MAX)..];
        let over = (self.sample.len() + latest.len()).saturating_sub(SAMPLE_BYTES_MAX);
        self.sample.drain(..over);
        self.skipped += (over + rest.len() - latest.len()) as u64;
        self.sample.extend(latest);
    }

    /// Returns offset, data and bytes skipped before it.
    fn drain(&mut self) -> Option<(u64, Vec<u8>, u64)> {
        let (data, skipped): (Vec<u8>, u64) = if self.whole.is_empty() {
            (self.sample.drain(..).collect(), self.skipped)
        } else {
            let len = self.whole.len().min(WHOLE_CHUNK_BYTES_MAX);
            (self.whole.drain(..len).collect(), 0)
        };
        if data.is_empty() {
            return None;
        }
        self.skipped -= skipped;
        let offset = self.written + skipped;
        self.written = offset + data.len() as u64;
        Some((offset, data, skipped))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Offset, data and bytes skipped before it.
    type Chunk = (u64, Vec<u8>, u64);

    /// Drains as the pump does: when it is full, when asked to, and at the end.
    fn run(pieces: &[(usize, bool)]) -> (Vec<u8>, Vec<Chunk>) {
        let mut coalescer = Coalescer::default();
        let mut all = Vec::new();
        let mut written = Vec::new();
        let drain = |coalescer: &mut Coalescer, written: &mut Vec<_>| {
            for command in coalescer.drain() {
                let Command::Output {
                    offset,
                    data,
                    skipped,
                    ..
                } = command
                else {
                    panic!("only output")
                };
                written.push((offset, data, skipped));
            }
        };
        for (len, tick) in pieces {
            while coalescer.is_full() {
                drain(&mut coalescer, &mut written);
            }
            let from = all.len();
            all.extend((from..from + len).map(|at| u8::try_from(at % 251).unwrap_or_default()));
            coalescer.take(Source::Stdout, &all[from..]);
            if *tick {
                drain(&mut coalescer, &mut written);
            }
        }
        while coalescer.is_due() {
            drain(&mut coalescer, &mut written);
        }
        (all, written)
    }

    proptest! {
        #[test]
        fn every_byte_is_logged_in_its_place_or_counted(
            pieces in proptest::collection::vec((0_usize..40_000, any::<bool>()), 0..25),
        ) {
            let (all, written) = run(&pieces);
            let mut at = 0;
            for (offset, data, skipped) in written {
                prop_assert_eq!(offset, at + skipped);
                prop_assert!(skipped == 0 || at >= WHOLE_BYTES);
                let start = usize::try_from(offset).expect("small");
                prop_assert_eq!(&all[start..start + data.len()], &data[..]);
                at = offset + data.len() as u64;
            }
            prop_assert_eq!(at, all.len() as u64);
        }
    }

    #[test]
    fn a_long_output_ends_in_counts_only() {
        let (all, written) = run(&vec![(32 * 1024, true); 600]);
        let logged: usize = written.iter().map(|(_, data, _)| data.len()).sum();
        assert!(
            logged as u64 <= LOGGED_BYTES_MAX + SAMPLE_BYTES_MAX as u64,
            "{logged}"
        );
        assert!(all.len() > 19_000_000);
        assert_eq!(
            written
                .iter()
                .filter(|(offset, ..)| *offset < WHOLE_BYTES)
                .count(),
            8
        );
    }
}
