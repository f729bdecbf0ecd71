//! What a command printed, put together from chunks and from the summary at its end: a pure fold.
//!
//! Whatever the chunks and however often each comes, every byte comes out at most once and in order,
//! and what is missing is said.

use cocoonbox_proto::log::v1::{
    ExecExited, ExecOutputStreamed, OutputSummary, exec_exited::Reason,
};

use crate::exit::{Exit, NOT_STARTED, SIGNAL_BASE, TIMED_OUT};

pub use cocoonbox_proto::log::v1::exec_output_streamed::Source;

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    Bytes(Source, Vec<u8>),
    /// So many bytes are not in the log.
    Missing(Source, u64),
}

/// How far both outputs are printed; `None` where that is not known yet.
#[derive(Clone, Debug)]
pub struct Output {
    stdout: Option<u64>,
    stderr: Option<u64>,
}

impl Output {
    /// From the command's first byte on.
    pub fn from_start() -> Self {
        Self {
            stdout: Some(0),
            stderr: Some(0),
        }
    }

    /// From somewhere in the log on: what comes first is the beginning.
    pub fn from_somewhere() -> Self {
        Self {
            stdout: None,
            stderr: None,
        }
    }

    /// A chunk as the log has it.
    pub fn chunk(&mut self, chunk: ExecOutputStreamed) -> Vec<Piece> {
        self.place(chunk.source(), chunk.offset, chunk.data)
    }

    /// A frame of the live stream, which says what was left out instead of where it stands.
    pub fn live(&mut self, source: Source, data: Vec<u8>, skipped_bytes: u64) -> Vec<Piece> {
        let offset = self
            .printed(source)
            .unwrap_or(0)
            .saturating_add(skipped_bytes);
        self.place(source, offset, data)
    }

    /// Prints what the end knows and nobody has seen.
    pub fn end(&mut self, exited: &ExecExited) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for (source, summary) in [
            (Source::Stdout, &exited.stdout),
            (Source::Stderr, &exited.stderr),
        ] {
            if let Some(summary) = summary {
                pieces.extend(self.summary(source, summary));
            }
        }
        pieces
    }

    fn summary(&mut self, source: Source, summary: &OutputSummary) -> Vec<Piece> {
        let tail_at = summary.total_bytes.saturating_sub(length(&summary.tail));
        let Some(printed) = self.printed(source) else {
            return Vec::new();
        };
        let mut pieces = Vec::new();
        for (offset, part) in [(0, &summary.head), (tail_at, &summary.tail)] {
            // What was printed long ago is no gap.
            if offset.saturating_add(length(part)) > self.printed(source).unwrap_or(printed) {
                pieces.extend(self.place(source, offset, part.clone()));
            }
        }
        let missing = summary
            .total_bytes
            .saturating_sub(self.printed(source).unwrap_or(printed));
        if missing > 0 {
            pieces.push(Piece::Missing(source, missing));
            *self.at(source) = Some(summary.total_bytes);
        }
        pieces
    }

    fn place(&mut self, source: Source, offset: u64, mut data: Vec<u8>) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let printed = self.printed(source).unwrap_or(offset);
        if offset > printed {
            pieces.push(Piece::Missing(source, offset - printed));
        }
        let seen = usize::try_from(printed.saturating_sub(offset)).unwrap_or(usize::MAX);
        let end = offset.saturating_add(length(&data));
        *self.at(source) = Some(printed.max(end));
        if seen < data.len() {
            data.drain(..seen);
            pieces.push(Piece::Bytes(source, data));
        }
        pieces
    }

    fn printed(&self, source: Source) -> Option<u64> {
        if source == Source::Stderr {
            self.stderr
        } else {
            self.stdout
        }
    }

    fn at(&mut self, source: Source) -> &mut Option<u64> {
        if source == Source::Stderr {
            &mut self.stderr
        } else {
            &mut self.stdout
        }
    }
}

fn length(bytes: &[u8]) -> u64 {
    bytes.len() as u64
}

/// The exit code that the command's end means, and what to say of it, if anything.
pub fn ending(exited: &ExecExited) -> (Exit, Option<String>) {
    let code = |fallback: u8| match u8::try_from(exited.code) {
        Ok(0) | Err(_) => fallback,
        Ok(code) => code,
    };
    let detail = |words: &str| match exited.detail.as_str() {
        "" => Some(words.to_owned()),
        detail => Some(format!("{words}: {detail}")),
    };
    match exited.reason() {
        Reason::Exited if exited.code == 0 => (Exit::Ok, None),
        Reason::Exited => (Exit::Command(code(1)), None),
        Reason::Signalled => {
            let signal = u8::try_from(exited.signal).unwrap_or(0);
            let words = format!("ended by signal {}", exited.signal);
            (
                Exit::Command(SIGNAL_BASE.saturating_add(signal)),
                Some(words),
            )
        }
        Reason::TimedOut => (
            Exit::Command(TIMED_OUT),
            detail("its time was up, and it was ended"),
        ),
        Reason::Cancelled => (Exit::Interrupted, detail("cancelled")),
        Reason::NotStarted => (Exit::Command(code(NOT_STARTED)), detail("not started")),
        Reason::Interrupted => (
            Exit::StreamBroke,
            detail("the box stopped while it ran; its exit code is not known"),
        ),
        Reason::Unspecified => (
            Exit::StreamBroke,
            detail("it ended in a way this build does not know"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn join(pieces: impl IntoIterator<Item = Piece>) -> (Vec<u8>, Vec<u8>, u64) {
        let (mut stdout, mut stderr, mut missing) = (Vec::new(), Vec::new(), 0);
        for piece in pieces {
            match piece {
                Piece::Bytes(Source::Stderr, bytes) => stderr.extend(bytes),
                Piece::Bytes(_, bytes) => stdout.extend(bytes),
                Piece::Missing(_, count) => missing += count,
            }
        }
        (stdout, stderr, missing)
    }

    fn summary(all: &[u8], head: usize, tail: usize) -> OutputSummary {
        let head = head.min(all.len());
        let tail = tail.min(all.len() - head);
        OutputSummary {
            total_bytes: length(all),
            head: all[..head].to_vec(),
            tail: all[all.len() - tail..].to_vec(),
            omitted_bytes: (all.len() - head - tail) as u64,
        }
    }

    fn exited(reason: Reason, code: i32, signal: i32) -> ExecExited {
        ExecExited {
            reason: reason.into(),
            code,
            signal,
            ..ExecExited::default()
        }
    }

    #[test]
    fn endings_are_exit_codes() {
        let code = |e: ExecExited| ending(&e).0.code();
        assert_eq!(code(exited(Reason::Exited, 0, 0)), 0);
        assert_eq!(code(exited(Reason::Exited, 3, 0)), 3);
        assert_eq!(code(exited(Reason::Signalled, 0, 9)), 137);
        assert_eq!(code(exited(Reason::TimedOut, 0, 9)), 124);
        assert_eq!(code(exited(Reason::NotStarted, 0, 0)), 127);
        assert_eq!(code(exited(Reason::NotStarted, 126, 0)), 126);
        assert_eq!(code(exited(Reason::Interrupted, 0, 0)), 6);
        assert_eq!(code(exited(Reason::Unspecified, 0, 0)), 6);
    }

    #[test]
    fn what_is_missing_in_the_middle_is_said_before_what_follows() {
        let mut output = Output::from_start();
        let all: Vec<u8> = (0..100).collect();
        let mut exit = exited(Reason::Exited, 0, 0);
        exit.stdout = Some(summary(&all, 10, 10));
        let first = output.live(Source::Stdout, all[..20].to_vec(), 0);
        assert_eq!(first, [Piece::Bytes(Source::Stdout, all[..20].to_vec())]);
        let rest = [
            Piece::Missing(Source::Stdout, 70),
            Piece::Bytes(Source::Stdout, all[90..].to_vec()),
        ];
        assert_eq!(output.end(&exit), rest);
    }

    proptest! {
        /// Live frames, a break, the log from any earlier key with any chunks, the summary: once.
        #[test]
        fn bytes_come_out_once(
            all in prop::collection::vec(any::<u8>(), 0..200),
            live in 0usize..200,
            from in 0usize..200,
            size in 1usize..40,
            erased in prop::collection::vec(any::<bool>(), 20),
            head in 0usize..120,
            tail in 0usize..120,
        ) {
            let mut output = Output::from_start();
            let live = live.min(all.len());
            let mut pieces = Vec::new();
            for part in all[..live].chunks(size) {
                pieces.extend(output.live(Source::Stdout, part.to_vec(), 0));
            }
            let from = from.min(live);
            let mut gone = erased.into_iter().cycle();
            let mut lost = vec![false; all.len()];
            for (index, part) in all[from..].chunks(size).enumerate() {
                let offset = from + index * size;
                if gone.next().unwrap_or(false) {
                    lost[offset..offset + part.len()].fill(true);
                    continue;
                }
                pieces.extend(output.chunk(ExecOutputStreamed {
                    source: Source::Stdout.into(),
                    offset: offset as u64,
                    data: part.to_vec(),
                    skipped_bytes: 0,
                }));
            }
            let mut exit = exited(Reason::Exited, 0, 0);
            exit.stdout = Some(summary(&all, head, tail));
            pieces.extend(output.end(&exit));
            let (stdout, stderr, missing) = join(pieces);
            prop_assert!(stderr.is_empty());
            prop_assert_eq!(stdout.len() as u64 + missing, all.len() as u64);
            // In order, nothing twice: a subsequence of what was printed.
            let mut rest = all.iter();
            prop_assert!(stdout.iter().all(|byte| rest.any(|other| other == byte)));
            if !lost.contains(&true) || head + tail >= all.len() && lost[live.min(lost.len())..].iter().all(|l| *l) {
                prop_assert_eq!(stdout, all);
            }
        }
    }
}
