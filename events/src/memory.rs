//! A store in memory: for tests, and as the plainest statement of what a store does.

mod log;
mod logs;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tokio::sync::watch;

use self::{
    log::{Command, Log},
    logs::Logs,
};
use crate::{
    chain::ChainHash,
    clock::{Clock, Ids},
    id::{CommandId, LogId, StreamName},
    limits,
    record::{Append, Recorded},
    replica,
    store::{
        AppendError, Appended, Checkpoint, Happened, LogInfo, NewLog, Page, ReadError,
        ReplicaError, Store, Tail,
    },
};

/// Keeps every log in memory, unsealed. Gone with the value.
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    logs: Mutex<Logs>,
    any: watch::Sender<u64>,
}

impl MemoryStore {
    pub fn new(clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> Self {
        let (any, _) = watch::channel(0);
        Self {
            clock,
            ids,
            logs: Mutex::default(),
            any,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Logs> {
        // Every change is made after its checks and cannot fail half-way, so a panic elsewhere leaves
        // nothing torn.
        self.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self, log: &Log) {
        log.bell.send_replace(log.end.pos);
        self.any.send_modify(|count| *count = count.wrapping_add(1));
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn open(&self, new: NewLog) -> Result<Tail, AppendError> {
        let mut logs = self.lock();
        let (tail, is_new) = logs.open(new)?;
        if is_new {
            self.ring(logs.get(tail.log)?);
        }
        Ok(tail)
    }

    async fn rewind(&self, new: NewLog) -> Result<Tail, AppendError> {
        let mut logs = self.lock();
        let parent = new.parent.ok_or(AppendError::NoParent)?.log;
        if let Some(to) = logs.get(parent)?.moved_to.filter(|to| *to != new.id) {
            return Err(AppendError::Moved { log: parent, to });
        }
        let (tail, _) = logs.open(new)?;
        logs.get_mut(parent)?.moved_to = Some(tail.log);
        self.ring(logs.get(tail.log)?);
        Ok(tail)
    }

    async fn append(&self, id: LogId, append: Append) -> Result<Appended, AppendError> {
        let prepared = append.prepare(&*self.ids)?;
        let last_event = prepared.last().map(|event| event.event_id);
        let mut logs = self.lock();
        let moved_to = logs.get(id)?.moved_to;
        if let Some(known) = logs.happened(id, append.command) {
            return if known.digest.is_none_or(|digest| digest == append.digest) {
                Ok(Appended::Replayed(known.range))
            } else {
                Err(AppendError::CommandReused)
            };
        }
        if let Some(to) = moved_to {
            return Err(AppendError::Moved { log: id, to });
        }
        for (stream, expected) in &append.expect {
            let actual = logs.head(id, stream, u64::MAX);
            if !expected.holds(actual) {
                let (stream, expected) = (stream.clone(), *expected);
                return Err(AppendError::Conflict {
                    stream,
                    expected,
                    actual,
                });
            }
        }
        let heads = prepared
            .iter()
            .map(|event| logs.head(id, &event.stream, u64::MAX))
            .collect::<Vec<_>>();
        let log = logs.get_mut(id)?;
        let first = log.end.pos + 1;
        let recorded_us = self.clock.now_us().max(log.end.recorded_us);
        for (event, head) in prepared.into_iter().zip(heads) {
            log.push(event, recorded_us, head);
        }
        let last = log.end.pos;
        let digest = (first <= last).then_some(append.digest);
        log.commands.insert(
            append.command,
            Command {
                digest,
                first,
                last,
            },
        );
        self.ring(log);
        Ok(Appended::Committed(log.range(first, last), last_event))
    }

    async fn replicate(&self, id: LogId, events: Vec<Recorded>) -> Result<Tail, ReplicaError> {
        let mut logs = self.lock();
        let none = ReplicaError::NoSuchLog { log: id };
        let log = logs.0.get(&id).ok_or(none)?;
        replica::check_alone(id, &events)?;
        let held = replica::split(log.end, &events)?;
        for sent in &events[..held] {
            if !log
                .event(sent.pos)
                .is_some_and(|held| replica::is_same(held, sent))
            {
                return Err(ReplicaError::Diverged { pos: sent.pos });
            }
        }
        if let Some(to) = log.moved_to.filter(|_| held < events.len()) {
            return Err(ReplicaError::Store(AppendError::Moved { log: id, to }));
        }
        let heads = |stream: &StreamName| {
            Ok::<_, std::convert::Infallible>(logs.head(id, stream, u64::MAX))
        };
        match replica::check_continues(log.end, &events[held..], heads) {
            Ok(checked) => checked?,
            Err(never) => match never {},
        }
        let log = logs.get_mut(id).map_err(ReplicaError::Store)?;
        if held < events.len() {
            for event in events.into_iter().skip(held) {
                log.remember(&event);
                log.take(event);
            }
            self.ring(log);
        }
        Ok(log.tail())
    }

    async fn keep_checkpoint(&self, id: LogId, checkpoint: Checkpoint) -> Result<(), AppendError> {
        let mut logs = self.lock();
        let link = logs.chain_at(id, checkpoint.size);
        if logs.get(id)?.base() > checkpoint.size || link != Some(checkpoint.chain) {
            let pos = checkpoint.size;
            return Err(AppendError::OtherHistory { log: id, pos });
        }
        let kept = &mut logs.get_mut(id)?.checkpoints;
        kept.entry(checkpoint.size).or_insert(checkpoint);
        Ok(())
    }

    async fn checkpoints(
        &self,
        id: LogId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Checkpoint>, ReadError> {
        let logs = self.lock();
        let log = logs.read(id)?;
        let behind = log.checkpoints.range(after.saturating_add(1)..);
        let limit = limit.min(limits::PAGE_EVENTS_MAX);
        Ok(behind.map(|(_, kept)| kept.clone()).take(limit).collect())
    }

    async fn read(&self, id: LogId, after: u64, limit: usize) -> Result<Page, ReadError> {
        let logs = self.lock();
        let (log, to) = logs.holder(logs.read(id)?, after);
        let start = usize::try_from(after - log.base()).unwrap_or(usize::MAX);
        let events = log.events.iter().skip(start);
        Ok(page(events.take_while(|event| event.pos <= to), limit))
    }

    async fn read_stream(
        &self,
        id: LogId,
        stream: &StreamName,
        after: u64,
        limit: usize,
    ) -> Result<Page, ReadError> {
        let logs = self.lock();
        for (log, to) in logs.line(logs.read(id)?) {
            let Some(held) = log.streams.get(stream) else {
                continue;
            };
            let start = usize::try_from(after.saturating_sub(held.before)).unwrap_or(usize::MAX);
            let positions = held.positions.iter().skip(start);
            let positions = positions.take_while(|pos| **pos <= to);
            let page = page(positions.filter_map(|pos| log.event(*pos)), limit);
            if !page.events.is_empty() {
                return Ok(page);
            }
        }
        Ok(Page::default())
    }

    async fn erase(&self, id: LogId, positions: &[u64]) -> Result<(), AppendError> {
        let mut logs = self.lock();
        let log = logs.get_mut(id)?;
        for pos in positions {
            if let Some(index) = log.index(*pos)
                && let Some(event) = log.events.get_mut(index)
            {
                event.body = None;
                if let Some(command) = replica::command_of(event)
                    && let Some(told) = log.commands.get_mut(&command)
                {
                    told.digest = None;
                }
            }
        }
        Ok(())
    }

    async fn happened(&self, id: LogId, command: CommandId) -> Result<Option<Happened>, ReadError> {
        let logs = self.lock();
        logs.read(id)?;
        Ok(logs.happened(id, command))
    }

    fn tail(&self, id: LogId) -> Result<Tail, ReadError> {
        self.lock().read(id).map(Log::tail)
    }

    fn ends_at(&self, id: LogId, pos: u64) -> bool {
        self.lock().read(id).is_ok_and(|log| log.end.pos == pos)
    }

    async fn chain_at(&self, id: LogId, pos: u64) -> Result<ChainHash, ReadError> {
        let logs = self.lock();
        let tail = logs.read(id)?.end.pos;
        logs.chain_at(id, pos)
            .ok_or(ReadError::AheadOfTail { pos, tail })
    }

    fn logs(&self) -> Vec<LogInfo> {
        self.lock().0.values().map(Log::info).collect()
    }

    fn info(&self, id: LogId) -> Result<LogInfo, ReadError> {
        self.lock().read(id).map(Log::info)
    }

    fn doorbell(&self, id: LogId) -> Result<watch::Receiver<u64>, ReadError> {
        self.lock().read(id).map(|log| log.bell.subscribe())
    }

    fn any_doorbell(&self) -> watch::Receiver<u64> {
        self.any.subscribe()
    }
}

fn page<'a>(events: impl Iterator<Item = &'a Recorded>, limit: usize) -> Page {
    let mut page = Page::default();
    let mut bytes = 0;
    for event in events.take(limit.clamp(1, limits::PAGE_EVENTS_MAX)) {
        bytes += event.bytes();
        if bytes > limits::PAGE_BYTES_MAX && !page.events.is_empty() {
            break;
        }
        page.events.push(event.clone());
    }
    page
}
