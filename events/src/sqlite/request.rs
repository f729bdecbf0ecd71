//! What can be asked of the writer.

use std::sync::Arc;

use rusqlite::params;

use super::{
    batch::{Batch, Place},
    directory::Log,
    rows,
};
use crate::{
    chain::Link,
    id::{CommandId, EventId, StreamName},
    record::Recorded,
    replica,
    sealing::Sealed,
    store::{AppendError, Appended, Checkpoint, Expect, NewLog, Range, ReplicaError, Tail},
};

/// A request to the writer: applied in a transaction with others, answered after its commit.
pub(super) trait Request: Send + 'static {
    type Done: Send + 'static;
    type Refusal: Send + 'static;

    /// Events and bytes, by which batches are bounded.
    fn weight(&self) -> (usize, usize);

    /// Whether it takes something out that must not stay in the write-ahead log either.
    fn erases(&self) -> bool {
        false
    }

    /// Writes everything or nothing. The outer error is the database's and takes the batch with it.
    fn apply(
        &mut self,
        batch: &mut Batch<'_>,
    ) -> rusqlite::Result<Result<Self::Done, Self::Refusal>>;

    /// What the caller is told if the batch was not committed.
    fn refusal(fate: AppendError) -> Self::Refusal;
}

pub(super) struct AppendRequest {
    pub(super) log: Arc<Log>,
    pub(super) command: CommandId,
    pub(super) digest: [u8; 32],
    pub(super) expect: Vec<(StreamName, Expect)>,
    pub(super) events: Vec<Sealed>,
    pub(super) last_event: Option<EventId>,
}

pub(super) struct ReplicateRequest {
    pub(super) log: Arc<Log>,
    /// Bodies taken out: they are checked and sealed.
    pub(super) events: Vec<Recorded>,
    pub(super) bodies: Vec<Option<Vec<u8>>>,
}

pub(super) struct EraseRequest {
    pub(super) log: Arc<Log>,
    pub(super) positions: Vec<u64>,
}

pub(super) struct OpenRequest {
    pub(super) new: NewLog,
    pub(super) key_check: Option<[u8; 8]>,
    /// Close the parent as well.
    pub(super) is_rewind: bool,
}

pub(super) struct CheckpointRequest {
    pub(super) log: Arc<Log>,
    pub(super) checkpoint: Checkpoint,
}

impl AppendRequest {
    fn conflict(&self, batch: &mut Batch<'_>) -> rusqlite::Result<Option<AppendError>> {
        for (stream, expected) in &self.expect {
            let actual = batch.head(&self.log, stream)?.seq;
            if !expected.holds(actual) {
                let (stream, expected) = (stream.clone(), *expected);
                return Ok(Some(AppendError::Conflict {
                    stream,
                    expected,
                    actual,
                }));
            }
        }
        Ok(None)
    }

    fn replay(&self, batch: &Batch<'_>) -> rusqlite::Result<Option<Result<Appended, AppendError>>> {
        let mut done = None;
        for (log, to) in batch.line(&self.log) {
            let known = rows::happened(batch.conn, &log, self.command)?;
            done = known.filter(|known| known.range.last <= to);
            if done.is_some() {
                break;
            }
        }
        Ok(done.map(|done| {
            if done.digest.is_none_or(|digest| digest == self.digest) {
                Ok(Appended::Replayed(done.range))
            } else {
                Err(AppendError::CommandReused)
            }
        }))
    }
}

impl Request for AppendRequest {
    type Done = Appended;
    type Refusal = AppendError;

    fn weight(&self) -> (usize, usize) {
        (
            self.events.len(),
            self.events.iter().map(Sealed::bytes).sum(),
        )
    }

    fn apply(&mut self, batch: &mut Batch<'_>) -> rusqlite::Result<Result<Appended, AppendError>> {
        let end = batch.end(&self.log);
        let (first, last) = (end.pos + 1, end.pos + self.events.len() as u64);
        // The usual case pays one look-up for both questions: claiming finds out whether the command is
        // known. Only a conflict has to ask, since a repeated command rarely meets its expectation again.
        let closed = batch.moved_to(&self.log).map(|to| AppendError::Moved {
            log: self.log.id(),
            to,
        });
        if let Some(refusal) = closed {
            return Ok(self.replay(batch)?.unwrap_or(Err(refusal)));
        }
        if let Some(conflict) = self.conflict(batch)? {
            return Ok(self.replay(batch)?.unwrap_or(Err(conflict)));
        }
        // A branch does not look up its ancestors' commands by claiming.
        if self.log.opened.parent.is_some()
            && let Some(replayed) = self.replay(batch)?
        {
            return Ok(replayed);
        }
        let digest = (first <= last).then_some(&self.digest);
        if !batch.claim(&self.log, self.command, digest, (first, last))? {
            return Ok(self.replay(batch)?.unwrap_or(Err(AppendError::Unknown)));
        }
        let recorded_us = batch.now_us.max(end.recorded_us);
        let mut chain = end.chain;
        for (pos, event) in (first..).zip(&self.events) {
            let seq = batch.head(&self.log, &event.stream)?.seq + 1;
            chain = chain.next(&Link {
                pos,
                stream: event.stream.as_str(),
                seq,
                kind: event.kind,
                version: event.version,
                recorded_us,
                header: &event.header,
                payload_hash: event.payload_hash,
            });
            batch.insert(
                &self.log,
                event,
                &Place {
                    pos,
                    seq,
                    recorded_us,
                    chain,
                },
            )?;
        }
        let range = Range { first, last, chain };
        Ok(Ok(Appended::Committed(range, self.last_event)))
    }

    fn refusal(fate: AppendError) -> AppendError {
        fate
    }
}

impl Request for ReplicateRequest {
    type Done = Tail;
    type Refusal = ReplicaError;

    fn weight(&self) -> (usize, usize) {
        let bodies: usize = self.bodies.iter().flatten().map(Vec::len).sum();
        (
            self.events.len(),
            bodies + self.events.iter().map(Recorded::bytes).sum::<usize>(),
        )
    }

    fn apply(&mut self, batch: &mut Batch<'_>) -> rusqlite::Result<Result<Tail, ReplicaError>> {
        let end = batch.end(&self.log);
        let held = match replica::split(end, &self.events) {
            Ok(held) => held,
            Err(refusal) => return Ok(Err(refusal)),
        };
        for sent in &self.events[..held] {
            let held = match rows::event_at(batch.conn, sent.log, self.log.no, sent.pos) {
                Ok(held) => held,
                Err(rows::RowError::Sqlite(error)) => return Err(error),
                Err(rows::RowError::Damaged { .. }) => None,
            };
            if !held.is_some_and(|held| replica::is_same(&held, sent)) {
                return Ok(Err(ReplicaError::Diverged { pos: sent.pos }));
            }
        }
        let fresh = held < self.events.len();
        if let Some(to) = batch.moved_to(&self.log).filter(|_| fresh) {
            let log = self.log.id();
            return Ok(Err(ReplicaError::Store(AppendError::Moved { log, to })));
        }
        let head = |stream: &StreamName| batch.head(&self.log, stream).map(|head| head.seq);
        if let Err(refusal) = replica::check_continues(end, &self.events[held..], head)? {
            return Ok(Err(refusal));
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
            let (pos, seq) = (event.pos, event.seq);
            let (recorded_us, chain) = (event.recorded_us, event.chain);
            batch.insert(
                &self.log,
                &sealed,
                &Place {
                    pos,
                    seq,
                    recorded_us,
                    chain,
                },
            )?;
            if let Some(command) = replica::command_of(event) {
                batch.remember(&self.log, command, pos)?;
            }
        }
        let end = batch.end(&self.log);
        Ok(Ok(Tail {
            log: self.log.id(),
            pos: end.pos,
            chain: end.chain,
        }))
    }

    fn refusal(fate: AppendError) -> ReplicaError {
        ReplicaError::Store(fate)
    }
}

impl Request for EraseRequest {
    type Done = ();
    type Refusal = AppendError;

    fn weight(&self) -> (usize, usize) {
        (self.positions.len(), 0)
    }

    fn erases(&self) -> bool {
        true
    }

    fn apply(&mut self, batch: &mut Batch<'_>) -> rusqlite::Result<Result<(), AppendError>> {
        let mut erase = batch.conn.prepare_cached(
            "UPDATE event SET body = NULL WHERE event_no = ?1 AND body IS NOT NULL",
        )?;
        let mut forget = batch.conn.prepare_cached(
            "UPDATE command SET digest = NULL WHERE log_no = ?1 AND command_id = ?2",
        )?;
        let tail = batch.end(&self.log).pos;
        // A position outside of the log could come out as another log's row.
        for pos in self
            .positions
            .iter()
            .filter(|pos| (self.log.base() + 1..=tail).contains(*pos))
        {
            erase.execute([rows::event_no(self.log.no, *pos)])?;
            // What a command asked for, hashed without a salt, is enough to find short words out.
            match rows::event_at(batch.conn, self.log.id(), self.log.no, *pos) {
                Ok(Some(event)) => {
                    if let Some(command) = replica::command_of(&event) {
                        forget.execute(params![self.log.no, command.as_bytes()])?;
                    }
                }
                Ok(None) | Err(rows::RowError::Damaged { .. }) => {}
                Err(rows::RowError::Sqlite(error)) => return Err(error),
            }
        }
        Ok(Ok(()))
    }

    fn refusal(fate: AppendError) -> AppendError {
        fate
    }
}

impl OpenRequest {
    /// Checks that the new log continues what is there.
    fn check_parent(&self, batch: &Batch<'_>) -> rusqlite::Result<Result<(), AppendError>> {
        let Some(parent) = self.new.parent else {
            return Ok(Ok(()));
        };
        let Some(log) = batch.log(parent.log) else {
            return Ok(Err(AppendError::NoSuchLog { log: parent.log }));
        };
        if log.opened.kind != self.new.kind || log.opened.owner != self.new.owner {
            return Ok(Err(AppendError::OtherLog { log: parent.log }));
        }
        if batch.chain_at(&log, parent.pos)? != Some(parent.chain) {
            let (log, pos) = (parent.log, parent.pos);
            return Ok(Err(AppendError::OtherHistory { log, pos }));
        }
        Ok(Ok(()))
    }

    /// The parent that a rewind closes, unless it is closed in favour of this log already.
    fn to_close(&self, batch: &Batch<'_>) -> Result<Option<Arc<Log>>, AppendError> {
        if !self.is_rewind {
            return Ok(None);
        }
        let id = self.new.parent.ok_or(AppendError::NoParent)?.log;
        let log = batch.log(id).ok_or(AppendError::NoSuchLog { log: id })?;
        match batch.moved_to(&log) {
            None => Ok(Some(log)),
            Some(to) if to == self.new.id => Ok(None),
            Some(to) => Err(AppendError::Moved { log: id, to }),
        }
    }
}

impl Request for OpenRequest {
    type Done = Tail;
    type Refusal = AppendError;

    fn weight(&self) -> (usize, usize) {
        (1, 0)
    }

    fn apply(&mut self, batch: &mut Batch<'_>) -> rusqlite::Result<Result<Tail, AppendError>> {
        let closes = match self.to_close(batch) {
            Ok(closes) => closes,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let log = match batch.log(self.new.id) {
            Some(log) if log.opened.is_same(&self.new) => log,
            Some(log) => return Ok(Err(AppendError::OtherLog { log: log.id() })),
            None => {
                if let Err(refusal) = self.check_parent(batch)? {
                    return Ok(Err(refusal));
                }
                batch.open(&self.new, self.key_check)?
            }
        };
        if let Some(parent) = closes {
            batch.close(&parent, self.new.id)?;
        }
        let end = batch.end(&log);
        Ok(Ok(Tail {
            log: log.id(),
            pos: end.pos,
            chain: end.chain,
        }))
    }

    fn refusal(fate: AppendError) -> AppendError {
        fate
    }
}

impl Request for CheckpointRequest {
    type Done = ();
    type Refusal = AppendError;

    fn weight(&self) -> (usize, usize) {
        (1, self.checkpoint.note.len())
    }

    fn apply(&mut self, batch: &mut Batch<'_>) -> rusqlite::Result<Result<(), AppendError>> {
        let size = self.checkpoint.size;
        let is_own = size >= self.log.base();
        if !is_own || batch.chain_at(&self.log, size)? != Some(self.checkpoint.chain) {
            let log = self.log.id();
            return Ok(Err(AppendError::OtherHistory { log, pos: size }));
        }
        rows::keep_checkpoint(batch.conn, self.log.no, &self.checkpoint)?;
        Ok(Ok(()))
    }

    fn refusal(fate: AppendError) -> AppendError {
        fate
    }
}

/// The limit of the file's size; `None` lifts it.
pub(super) struct SizeRequest(pub(super) Option<u64>);

impl Request for SizeRequest {
    type Done = ();
    type Refusal = AppendError;

    fn weight(&self) -> (usize, usize) {
        (1, 0)
    }

    fn apply(&mut self, batch: &mut Batch<'_>) -> rusqlite::Result<Result<(), AppendError>> {
        batch.limit_size(self.0)?;
        Ok(Ok(()))
    }

    fn refusal(fate: AppendError) -> AppendError {
        fate
    }
}
