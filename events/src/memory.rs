//! A store in memory: for tests, and as the plainest statement of what a store does.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use tokio::sync::watch;

use crate::{
    chain::{ChainHash, Link},
    clock::{Clock, Ids},
    id::{CommandId, LogId, StreamName},
    limits,
    record::{Append, Prepared, Recorded},
    replica::{self, End},
    store::{
        AppendError, Appended, Happened, LogInfo, NewLog, Page, Range, ReadError, ReplicaError,
        Store, Tail,
    },
};

/// Keeps every log in memory, unsealed. Gone with the value.
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    logs: Mutex<BTreeMap<LogId, Log>>,
    any: watch::Sender<u64>,
}

struct Log {
    opened: NewLog,
    genesis: ChainHash,
    end: End,
    events: Vec<Recorded>,
    /// Positions of each stream's events, in order: the length is the head.
    streams: HashMap<StreamName, Vec<u64>>,
    commands: HashMap<CommandId, Command>,
    bell: watch::Sender<u64>,
}

#[derive(Clone, Copy)]
struct Command {
    /// `None`: seen in a replicated event, which does not carry it.
    digest: Option<[u8; 32]>,
    first: u64,
    last: u64,
}

impl MemoryStore {
    pub fn new(clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> Self {
        let (any, _) = watch::channel(0);
        Self {
            clock,
            ids,
            logs: Mutex::new(BTreeMap::new()),
            any,
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<LogId, Log>> {
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
        if let Some(log) = logs.get(&new.id) {
            return if log.opened.is_same(&new) {
                Ok(log.tail())
            } else {
                Err(AppendError::OtherLog { log: new.id })
            };
        }
        let log = Log::new(new);
        let tail = log.tail();
        self.ring(&log);
        logs.insert(tail.log, log);
        Ok(tail)
    }

    async fn append(&self, id: LogId, append: Append) -> Result<Appended, AppendError> {
        let prepared = append.prepare(&*self.ids)?;
        let mut logs = self.lock();
        let log = logs
            .get_mut(&id)
            .ok_or(AppendError::NoSuchLog { log: id })?;
        if let Some(known) = log.commands.get(&append.command) {
            return if known.digest.is_none_or(|digest| digest == append.digest) {
                Ok(Appended::Replayed(log.range(known.first, known.last)))
            } else {
                Err(AppendError::CommandReused)
            };
        }
        for (stream, expected) in &append.expect {
            let actual = log.head(stream);
            if !expected.holds(actual) {
                let (stream, expected) = (stream.clone(), *expected);
                return Err(AppendError::Conflict {
                    stream,
                    expected,
                    actual,
                });
            }
        }
        let first = log.end.pos + 1;
        let recorded_us = self.clock.now_us().max(log.end.recorded_us);
        for event in prepared {
            log.push(event, recorded_us);
        }
        let last = log.end.pos;
        let digest = Some(append.digest);
        log.commands.insert(
            append.command,
            Command {
                digest,
                first,
                last,
            },
        );
        self.ring(log);
        Ok(Appended::Committed(log.range(first, last)))
    }

    async fn replicate(&self, id: LogId, events: Vec<Recorded>) -> Result<Tail, ReplicaError> {
        let mut logs = self.lock();
        let log = logs
            .get_mut(&id)
            .ok_or(ReplicaError::NoSuchLog { log: id })?;
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
        let heads = |stream: &StreamName| Ok::<_, std::convert::Infallible>(log.head(stream));
        match replica::check_continues(log.end, &events[held..], heads) {
            Ok(checked) => checked?,
            Err(never) => match never {},
        }
        if held < events.len() {
            for event in events.into_iter().skip(held) {
                log.remember(&event);
                log.take(event);
            }
            self.ring(log);
        }
        Ok(log.tail())
    }

    async fn read(&self, id: LogId, after: u64, limit: usize) -> Result<Page, ReadError> {
        let logs = self.lock();
        let log = logs.get(&id).ok_or(ReadError::NoSuchLog { log: id })?;
        let start = usize::try_from(after)
            .unwrap_or(usize::MAX)
            .min(log.events.len());
        Ok(page(log.events[start..].iter(), limit))
    }

    async fn read_stream(
        &self,
        id: LogId,
        stream: &StreamName,
        after: u64,
        limit: usize,
    ) -> Result<Page, ReadError> {
        let logs = self.lock();
        let log = logs.get(&id).ok_or(ReadError::NoSuchLog { log: id })?;
        let positions = log.streams.get(stream).map_or(&[][..], Vec::as_slice);
        let start = usize::try_from(after)
            .unwrap_or(usize::MAX)
            .min(positions.len());
        Ok(page(
            positions[start..].iter().filter_map(|pos| log.event(*pos)),
            limit,
        ))
    }

    async fn erase(&self, id: LogId, positions: &[u64]) -> Result<(), AppendError> {
        let mut logs = self.lock();
        let log = logs
            .get_mut(&id)
            .ok_or(AppendError::NoSuchLog { log: id })?;
        for pos in positions {
            if let Some(index) = index(*pos)
                && let Some(event) = log.events.get_mut(index)
            {
                event.body = None;
            }
        }
        Ok(())
    }

    async fn happened(&self, id: LogId, command: CommandId) -> Result<Option<Happened>, ReadError> {
        let logs = self.lock();
        let log = logs.get(&id).ok_or(ReadError::NoSuchLog { log: id })?;
        let known = log.commands.get(&command);
        Ok(known.map(|known| Happened {
            digest: known.digest,
            range: log.range(known.first, known.last),
        }))
    }

    fn tail(&self, id: LogId) -> Result<Tail, ReadError> {
        self.lock()
            .get(&id)
            .map(Log::tail)
            .ok_or(ReadError::NoSuchLog { log: id })
    }

    async fn chain_at(&self, id: LogId, pos: u64) -> Result<ChainHash, ReadError> {
        let logs = self.lock();
        let log = logs.get(&id).ok_or(ReadError::NoSuchLog { log: id })?;
        if pos == 0 {
            return Ok(log.genesis);
        }
        let ahead = ReadError::AheadOfTail {
            pos,
            tail: log.end.pos,
        };
        log.event(pos).map(|event| event.chain).ok_or(ahead)
    }

    fn logs(&self) -> Vec<LogInfo> {
        let info = |log: &Log| LogInfo {
            id: log.opened.id,
            kind: log.opened.kind,
            owner: log.opened.owner.clone(),
            tail: log.tail(),
        };
        self.lock().values().map(info).collect()
    }

    fn doorbell(&self, id: LogId) -> Result<watch::Receiver<u64>, ReadError> {
        let logs = self.lock();
        logs.get(&id)
            .map(|log| log.bell.subscribe())
            .ok_or(ReadError::NoSuchLog { log: id })
    }

    fn any_doorbell(&self) -> watch::Receiver<u64> {
        self.any.subscribe()
    }
}

impl Log {
    fn new(opened: NewLog) -> Self {
        let end = End::genesis(opened.id, opened.parent);
        let (bell, _) = watch::channel(0);
        Self {
            opened,
            genesis: end.chain,
            end,
            events: Vec::new(),
            streams: HashMap::new(),
            commands: HashMap::new(),
            bell,
        }
    }

    fn tail(&self) -> Tail {
        Tail {
            log: self.opened.id,
            pos: self.end.pos,
            chain: self.end.chain,
        }
    }

    fn event(&self, pos: u64) -> Option<&Recorded> {
        self.events.get(index(pos)?)
    }

    fn head(&self, stream: &StreamName) -> u64 {
        self.streams
            .get(stream)
            .map_or(0, |positions| positions.len() as u64)
    }

    fn range(&self, first: u64, last: u64) -> Range {
        let chain = self.event(last).map_or(self.genesis, |event| event.chain);
        Range { first, last, chain }
    }

    fn push(&mut self, event: Prepared, recorded_us: i64) {
        let pos = self.end.pos + 1;
        let seq = self.head(&event.stream) + 1;
        let chain = self.end.chain.next(&Link {
            pos,
            stream: event.stream.as_str(),
            seq,
            kind: event.kind,
            version: event.version,
            recorded_us,
            header: &event.header,
            payload_hash: event.payload_hash,
        });
        self.take(Recorded {
            log: self.opened.id,
            pos,
            stream: event.stream,
            seq,
            kind: event.kind,
            version: event.version,
            recorded_us,
            header: event.header,
            body: Some(event.body),
            payload_hash: event.payload_hash,
            chain,
        });
    }

    fn take(&mut self, event: Recorded) {
        self.end = End {
            pos: event.pos,
            chain: event.chain,
            recorded_us: event.recorded_us,
        };
        match self.streams.get_mut(&event.stream) {
            Some(positions) => positions.push(event.pos),
            None => {
                self.streams.insert(event.stream.clone(), vec![event.pos]);
            }
        }
        self.events.push(event);
    }

    fn remember(&mut self, event: &Recorded) {
        let Some(command) = replica::command_of(event) else {
            return;
        };
        let pos = event.pos;
        let known = Command {
            digest: None,
            first: pos,
            last: pos,
        };
        let known = self.commands.entry(command).or_insert(known);
        if known.digest.is_none() && known.last + 1 == pos {
            known.last = pos;
        }
    }
}

fn index(pos: u64) -> Option<usize> {
    usize::try_from(pos.checked_sub(1)?).ok()
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
