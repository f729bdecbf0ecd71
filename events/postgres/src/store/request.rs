//! What can be asked of a log's writer.

use cocoonbox_events::{
    AppendError, Appended, CommandId, EventId, Expect, Recorded, ReplicaError, StreamName, Tail,
    chain::Link, replica, sealing::Sealed, store::Range,
};
use tokio::sync::oneshot;

use super::batch::{Batch, Place, Questions};

/// A request with the place for its answer.
pub(crate) enum Job {
    Append(Asked<Append, Appended, AppendError>),
    Replicate(Asked<Replicate, Tail, ReplicaError>),
}

pub(crate) struct Asked<R, T, E> {
    pub(crate) request: R,
    pub(crate) outcome: Option<Result<T, E>>,
    pub(crate) reply: oneshot::Sender<Result<T, E>>,
}

pub(crate) struct Append {
    pub(crate) command: CommandId,
    pub(crate) digest: [u8; 32],
    pub(crate) expect: Vec<(StreamName, Expect)>,
    pub(crate) events: Vec<Sealed>,
    pub(crate) last_event: Option<EventId>,
}

pub(crate) struct Replicate {
    /// Bodies taken out: they are checked and sealed.
    pub(crate) events: Vec<Recorded>,
    pub(crate) bodies: Vec<Option<Vec<u8>>>,
    /// What the log holds at the positions of the batch, read under the lock.
    pub(crate) held: Vec<Recorded>,
}

impl Questions {
    /// What a batch of these jobs has to know.
    pub(crate) fn of(jobs: &[Job]) -> Self {
        let mut questions = Self::default();
        for job in jobs {
            job.ask(&mut questions);
        }
        questions
    }
}

impl Job {
    /// Events and bytes, by which batches are bounded.
    pub(crate) fn weight(&self) -> (usize, usize) {
        match self {
            Self::Append(asked) => (
                asked.request.events.len(),
                asked.request.events.iter().map(Sealed::bytes).sum(),
            ),
            Self::Replicate(asked) => {
                let bodies: usize = asked.request.bodies.iter().flatten().map(Vec::len).sum();
                let events = &asked.request.events;
                let rest: usize = events.iter().map(Recorded::bytes).sum();
                (events.len(), bodies + rest)
            }
        }
    }

    /// Whether it has to be alone in its batch: what it compares with must be in the table.
    pub(crate) fn is_alone(&self) -> bool {
        matches!(self, Self::Replicate(_))
    }

    /// Adds what this job has to know.
    fn ask(&self, questions: &mut Questions) {
        match self {
            Self::Append(asked) => {
                let request = &asked.request;
                let expected = request.expect.iter().map(|(stream, _)| stream);
                let written = request.events.iter().map(|event| &event.stream);
                let streams = expected.chain(written).map(|name| name.as_str().to_owned());
                questions.streams.extend(streams);
                questions.commands.push(request.command.0);
            }
            Self::Replicate(asked) => {
                for event in &asked.request.events {
                    questions.streams.push(event.stream.as_str().to_owned());
                    let command = replica::command_of(event).map(|command| command.0);
                    questions.commands.extend(command);
                }
            }
        }
    }

    /// Decides, and puts what is to be written into the batch: everything or nothing.
    pub(crate) fn apply(&mut self, batch: &mut Batch<'_>) {
        match self {
            Self::Append(asked) => asked.outcome = Some(asked.request.apply(batch)),
            Self::Replicate(asked) => asked.outcome = Some(asked.request.apply(batch)),
        }
    }

    /// Answers what was decided.
    pub(crate) fn answer(self) {
        self.end(None, || AppendError::Unknown);
    }

    /// Answers that nothing of it was written, or that this is not known.
    pub(crate) fn refuse(self, fate: impl Fn() -> AppendError) {
        self.end(Some(()), fate);
    }

    fn end(self, failed: Option<()>, fate: impl Fn() -> AppendError) {
        // Nobody waits any more: they repeat it with the same command id if they care.
        match self {
            Self::Append(asked) => {
                let outcome = asked.outcome.filter(|_| failed.is_none());
                let _sent = asked.reply.send(outcome.unwrap_or_else(|| Err(fate())));
            }
            Self::Replicate(asked) => {
                let outcome = asked.outcome.filter(|_| failed.is_none());
                let fate = || Err(ReplicaError::Store(fate()));
                let _sent = asked.reply.send(outcome.unwrap_or_else(fate));
            }
        }
    }
}

impl Append {
    fn apply(&mut self, batch: &mut Batch<'_>) -> Result<Appended, AppendError> {
        if let Some(known) = batch.happened(self.command) {
            return if known.digest.is_none_or(|digest| digest == self.digest) {
                Ok(Appended::Replayed(known.range))
            } else {
                Err(AppendError::CommandReused)
            };
        }
        if let Some(to) = batch.moved_to {
            let log = batch.log.id();
            return Err(AppendError::Moved { log, to });
        }
        for (stream, expected) in &self.expect {
            let actual = batch.head(stream);
            if !expected.holds(actual) {
                let (stream, expected) = (stream.clone(), *expected);
                return Err(AppendError::Conflict {
                    stream,
                    expected,
                    actual,
                });
            }
        }
        let first = batch.end.pos + 1;
        let recorded_us = batch.now_us.max(batch.end.recorded_us);
        for (pos, event) in (first..).zip(&self.events) {
            let seq = batch.head(&event.stream) + 1;
            let chain = batch.end.chain.next(&Link {
                pos,
                stream: event.stream.as_str(),
                seq,
                kind: event.kind,
                version: event.version,
                recorded_us,
                header: &event.header,
                payload_hash: event.payload_hash,
            });
            let place = Place {
                pos,
                seq,
                recorded_us,
                chain,
            };
            batch.insert(event, place);
        }
        let (last, chain) = (batch.end.pos, batch.end.chain);
        let range = Range { first, last, chain };
        let digest = (first <= last).then_some(self.digest);
        batch.claim(self.command, digest, range);
        Ok(Appended::Committed(range, self.last_event))
    }
}

impl Replicate {
    /// First and last position of the batch.
    pub(crate) fn positions(&self) -> Option<(u64, u64)> {
        Some((self.events.first()?.pos, self.events.last()?.pos))
    }

    fn apply(&mut self, batch: &mut Batch<'_>) -> Result<Tail, ReplicaError> {
        let log = batch.log.id();
        let held = replica::split(batch.end, &self.events)?;
        let mut rows = self.held.iter();
        for sent in &self.events[..held] {
            let row = rows.find(|row| row.pos == sent.pos);
            if !row.is_some_and(|row| replica::is_same(row, sent)) {
                return Err(ReplicaError::Diverged { pos: sent.pos });
            }
        }
        if let Some(to) = batch.moved_to.filter(|_| held < self.events.len()) {
            return Err(ReplicaError::Store(AppendError::Moved { log, to }));
        }
        let heads = |stream: &StreamName| Ok::<_, std::convert::Infallible>(batch.head(stream));
        match replica::check_continues(batch.end, &self.events[held..], heads) {
            Ok(checked) => checked?,
            Err(never) => match never {},
        }
        let fresh = self.events.iter().zip(self.bodies.iter_mut()).skip(held);
        for (event, body) in fresh {
            let sealed = Sealed {
                stream: event.stream.clone(),
                kind: event.kind,
                version: event.version,
                header: event.header.clone(),
                payload_hash: event.payload_hash,
                body: body.take(),
            };
            let place = Place {
                pos: event.pos,
                seq: event.seq,
                recorded_us: event.recorded_us,
                chain: event.chain,
            };
            batch.insert(&sealed, place);
            if let Some(command) = replica::command_of(event) {
                batch.remember(command, event);
            }
        }
        Ok(Tail {
            log,
            pos: batch.end.pos,
            chain: batch.end.chain,
        })
    }
}
