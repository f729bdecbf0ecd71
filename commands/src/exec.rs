//! One command that was run in a box, stream `exec/<id>` of the box log.

use cocoonbox_events::{Aggregate, ExecEvent, IllegalTransition, Payload};
use cocoonbox_proto::log::v1::{
    ExecExited, ExecOutputStreamed, ExecStarted, OutputSummary, exec_exited::Reason,
    exec_output_streamed::Source,
};

use crate::bounded;

/// Longest chunk of output in one event. Writers coalesce to ten appends a second.
pub const CHUNK_BYTES_MAX: usize = 64 * 1024;
/// Program, arguments and directory together: they have to fit an event.
pub const ARGV_BYTES_MAX: usize = 200 * 1024;
/// Head and tail, each, of each output, for the same reason. Longer ones are cut: an exit has happened
/// and is never refused.
pub const KEPT_BYTES_MAX: usize = 50 * 1024;

/// An exec, folded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    pub started: Option<ExecStarted>,
    /// Bytes of each output so far, skipped ones included.
    pub stdout_bytes: u64,
    pub stderr_bytes: u64,
    pub exited: Option<ExecExited>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Written before the process is started. The same exec id with the same fields is one exec.
    Start(ExecStarted),
    Output {
        source: Source,
        /// Bytes of this source before `data`, those skipped included.
        offset: u64,
        data: Vec<u8>,
        /// Bytes left out between the chunk before and this one.
        skipped: u64,
    },
    Exit(ExecExited),
    /// What came at one time, in one append: each append is a wait for the disk. Where one of them is refused, nothing
    /// is written.
    Together(Vec<Command>),
    /// The process that watched it is gone: how it ended is not known. Nothing if it has ended.
    Interrupt,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    #[error("the exec was not started")]
    NotStarted,
    #[error("exec `{exec_id}` was started before with other fields")]
    OtherExec { exec_id: String },
    #[error("the exec has ended")]
    Ended,
    #[error("one does not follow from the other")]
    OutOfOrder,
    #[error("field `{field}` is empty")]
    Empty { field: &'static str },
    #[error("`{field}` has {bytes} bytes; {max} fit")]
    TooLarge {
        field: &'static str,
        bytes: usize,
        max: usize,
    },
    #[error("the output is at byte {expected}, the chunk says {found}")]
    Offset { expected: u64, found: u64 },
}

impl State {
    /// Whether it was started and has not ended.
    pub fn is_running(&self) -> bool {
        self.started.is_some() && self.exited.is_none()
    }

    /// Returns how many bytes of an output are known of.
    pub fn bytes(&self, source: Source) -> u64 {
        match source {
            Source::Stderr => self.stderr_bytes,
            Source::Stdout | Source::Unspecified => self.stdout_bytes,
        }
    }

    fn running(&self) -> Result<(), Rejection> {
        match (&self.started, &self.exited) {
            (None, _) => Err(Rejection::NotStarted),
            (Some(_), Some(_)) => Err(Rejection::Ended),
            (Some(_), None) => Ok(()),
        }
    }

    fn start(&self, asked: &ExecStarted) -> Result<Vec<ExecEvent>, Rejection> {
        if asked.exec_id.is_empty() {
            return Err(Rejection::Empty { field: "exec_id" });
        }
        if asked.argv.first().is_none_or(String::is_empty) {
            return Err(Rejection::Empty { field: "argv" });
        }
        let bytes = asked.argv.iter().map(|arg| arg.len() + 8).sum::<usize>() + asked.cwd.len();
        fits("argv", bytes, ARGV_BYTES_MAX)?;
        match &self.started {
            Some(started) if started == asked => Ok(Vec::new()),
            Some(started) => Err(Rejection::OtherExec {
                exec_id: started.exec_id.clone(),
            }),
            None => Ok(vec![ExecEvent::Started(asked.clone())]),
        }
    }

    fn output(
        &self,
        source: Source,
        offset: u64,
        data: &[u8],
        skipped: u64,
    ) -> Result<Vec<ExecEvent>, Rejection> {
        self.running()?;
        if source == Source::Unspecified {
            return Err(Rejection::Empty { field: "source" });
        }
        fits("data", data.len(), CHUNK_BYTES_MAX)?;
        let expected = self.bytes(source).saturating_add(skipped);
        if offset != expected {
            return Err(Rejection::Offset {
                expected,
                found: offset,
            });
        }
        if data.is_empty() && skipped == 0 {
            return Ok(Vec::new());
        }
        Ok(vec![ExecEvent::OutputStreamed(ExecOutputStreamed {
            source: source.into(),
            offset,
            data: data.to_vec(),
            skipped_bytes: skipped,
        })])
    }

    fn exit(&self, exited: &ExecExited) -> Result<Vec<ExecEvent>, Rejection> {
        if exited.reason() == Reason::Unspecified {
            return Err(Rejection::Empty { field: "reason" });
        }
        let mut exited = exited.clone();
        exited.detail = bounded::detail(&exited.detail);
        for summary in [&mut exited.stdout, &mut exited.stderr]
            .into_iter()
            .flatten()
        {
            shorten(summary);
        }
        if self.exited.as_ref() == Some(&exited) {
            return Ok(Vec::new());
        }
        self.running()?;
        Ok(vec![ExecEvent::Exited(exited)])
    }

    /// Decides each on what those before it leave.
    fn together(&self, commands: &[Command]) -> Result<Vec<ExecEvent>, Rejection> {
        let mut after = self.clone();
        let mut all = Vec::new();
        for command in commands {
            let events = after.decide(command)?;
            for event in &events {
                after = after.evolve(event).map_err(|_| Rejection::OutOfOrder)?;
            }
            all.extend(events);
        }
        Ok(all)
    }

    /// Takes output in; `None` if it cannot be. A gap is a chunk that was erased.
    fn streamed(&mut self, event: &ExecOutputStreamed) -> Option<()> {
        let end = event.offset.checked_add(event.data.len() as u64)?;
        let bytes = match event.source() {
            Source::Stdout => &mut self.stdout_bytes,
            Source::Stderr => &mut self.stderr_bytes,
            Source::Unspecified => return None,
        };
        (event.offset >= bytes.checked_add(event.skipped_bytes)?).then(|| *bytes = end)
    }
}

impl Aggregate for State {
    type Command = Command;
    type Event = ExecEvent;
    type Rejection = Rejection;

    fn decide(&self, command: &Command) -> Result<Vec<ExecEvent>, Rejection> {
        match command {
            Command::Start(asked) => self.start(asked),
            Command::Output {
                source,
                offset,
                data,
                skipped,
            } => self.output(*source, *offset, data, *skipped),
            Command::Exit(exited) => self.exit(exited),
            Command::Together(commands) => self.together(commands),
            Command::Interrupt => match self.running() {
                Err(Rejection::Ended) => Ok(Vec::new()),
                Err(rejection) => Err(rejection),
                Ok(()) => Ok(vec![ExecEvent::Exited(ExecExited {
                    reason: Reason::Interrupted.into(),
                    ..ExecExited::default()
                })]),
            },
        }
    }

    fn evolve(mut self, event: &ExecEvent) -> Result<Self, IllegalTransition> {
        let running = self.is_running();
        let state = match (&self.started, running) {
            (None, _) => "absent",
            (Some(_), true) => "running",
            (Some(_), false) => "exited",
        };
        let taken = match event {
            ExecEvent::Started(event) => self
                .started
                .is_none()
                .then(|| self.started = Some(event.clone())),
            ExecEvent::OutputStreamed(event) if running => self.streamed(event),
            ExecEvent::Exited(event) if running => {
                self.exited = Some(event.clone());
                Some(())
            }
            ExecEvent::OutputStreamed(_) | ExecEvent::Exited(_) => None,
        };
        match taken {
            Some(()) => Ok(self),
            None => Err(IllegalTransition {
                state: state.into(),
                event: event.kind().name(),
            }),
        }
    }

    fn pick(payload: Payload) -> Option<ExecEvent> {
        ExecEvent::pick(payload)
    }
}

fn shorten(summary: &mut OutputSummary) {
    let (head, tail) = (&mut summary.head, &mut summary.tail);
    let kept = head.len() + tail.len();
    head.truncate(KEPT_BYTES_MAX);
    tail.drain(..tail.len().saturating_sub(KEPT_BYTES_MAX));
    summary.omitted_bytes = summary
        .omitted_bytes
        .saturating_add((kept - head.len() - tail.len()) as u64);
}

fn fits(field: &'static str, bytes: usize, max: usize) -> Result<(), Rejection> {
    if bytes > max {
        Err(Rejection::TooLarge { field, bytes, max })
    } else {
        Ok(())
    }
}
