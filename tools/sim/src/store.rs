//! A store on a simulated disk.
//!
//! What a log is and what may be written is decided by the real [`MemoryStore`]: twice, once for the
//! writer (`front`, ahead of the disk) and once for the readers (`durable`, what is synced). In between
//! lies a group commit as the real stores do it. A crash throws both away and reads the disk.

mod ask;
mod serve;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex},
    task::Waker,
};

use async_trait::async_trait;
use cocoonbox_events::{
    Append, AppendError, Appended, ChainHash, Clock, CommandId, Happened, LogId, LogInfo,
    ManualClock, MemoryStore, NewLog, Page, ReadError, Recorded, ReplicaError, Store, StreamName,
    Tail, store::Checkpoint,
};
use futures::FutureExt;
use tokio::sync::{oneshot, watch};

use crate::{
    broken::Broken,
    clock::SeededIds,
    disk::{self, Damaged, Disk, Frame},
    scheduler::{Sim, lock},
};

use ask::{Answer, Ask};

/// A store that belongs to one process; see [`SimStore::serve`].
#[derive(Clone)]
pub struct SimStore(Arc<Inner>);

struct Inner {
    sim: Sim,
    /// For the trace.
    name: String,
    broken: Broken,
    disk: Disk,
    clock: Arc<dyn Clock>,
    /// What the two stores below take for the time: that of who asks.
    time: Arc<ManualClock>,
    front: MemoryStore,
    durable: MemoryStore,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Job>,
    arrived: Option<Waker>,
    digests: BTreeMap<(LogId, CommandId), [u8; 32]>,
    incarnation: u64,
    /// Why nothing is written any more.
    is_stopped: bool,
}

struct Job {
    ask: Ask,
    now_us: i64,
    answer: oneshot::Sender<Answer>,
}

impl SimStore {
    /// Reads a disk.
    pub fn open(
        sim: Sim,
        name: &str,
        disk: Disk,
        clock: Arc<dyn Clock>,
        ids: Arc<SeededIds>,
        broken: Broken,
    ) -> Result<Self, Damaged> {
        let time = Arc::new(ManualClock::at(clock.now_us()));
        let store = Inner {
            sim,
            name: name.to_owned(),
            broken,
            front: MemoryStore::new(time.clone(), ids.clone()),
            durable: MemoryStore::new(time.clone(), ids),
            disk,
            clock,
            time,
            state: Mutex::default(),
        };
        for (record, frame) in store.disk.load()?.into_iter().enumerate() {
            let damaged = Damaged { record };
            Inner::take(&store.front, &frame).ok_or(damaged)?;
            Inner::take(&store.durable, &frame).ok_or(damaged)?;
            let mut state = lock(&store.state);
            match frame {
                Frame::Events {
                    log,
                    command: Some((command, digest)),
                    ..
                } => drop(state.digests.insert((log, command), digest)),
                Frame::Incarnation(incarnation) => state.incarnation = incarnation,
                _ => {}
            }
        }
        Ok(Self(Arc::new(store)))
    }

    pub fn disk(&self) -> &Disk {
        &self.0.disk
    }

    /// Whether the store has met an error after which only a restart helps.
    pub fn is_stopped(&self) -> bool {
        lock(&self.0.state).is_stopped
    }

    /// The life of the machine that this store was released to last.
    pub fn incarnation(&self) -> u64 {
        lock(&self.0.state).incarnation
    }

    pub async fn set_incarnation(&self, incarnation: u64) -> Result<(), AppendError> {
        match self.ask(Ask::Incarnation(incarnation)).await {
            Some(Answer::Done(done)) => done,
            _ => Err(AppendError::Unknown),
        }
    }

    /// Appends at the time of the caller, who may be another machine with another clock.
    pub async fn append_at(
        &self,
        log: LogId,
        append: Append,
        now_us: i64,
    ) -> Result<Appended, AppendError> {
        match self.ask_at(Ask::Append(log, append), now_us).await {
            Some(Answer::Appended(appended)) => appended,
            _ => Err(AppendError::Unknown),
        }
    }

    /// What readers see, for the laws.
    pub fn durable(&self) -> &MemoryStore {
        &self.0.durable
    }

    async fn ask(&self, ask: Ask) -> Option<Answer> {
        self.ask_at(ask, self.0.clock.now_us()).await
    }

    async fn ask_at(&self, ask: Ask, now_us: i64) -> Option<Answer> {
        let (answer, answered) = oneshot::channel();
        {
            let mut state = lock(&self.0.state);
            if state.is_stopped {
                return Some(ask.refuse(|| AppendError::Stopped));
            }
            state.queue.push_back(Job {
                ask,
                now_us,
                answer,
            });
            if let Some(waker) = state.arrived.take() {
                waker.wake();
            }
        }
        // Dropped unanswered: the process ended, and nobody knows what came of it.
        answered.await.ok()
    }
}

impl Inner {
    /// Takes a frame of the disk into one of the stores.
    fn take(store: &MemoryStore, frame: &Frame) -> Option<()> {
        match frame {
            Frame::Open(new) => done(store.open(new.clone())).ok().map(drop),
            Frame::Rewind(new) => done(store.rewind(new.clone())).ok().map(drop),
            Frame::Events { log, batch, .. } => {
                let events = disk::decode(*log, batch)?;
                done(store.replicate(*log, events)).ok().map(drop)
            }
            Frame::Erase { log, positions } => done(store.erase(*log, positions)).ok(),
            Frame::Checkpoint(log, checkpoint) => {
                done(store.keep_checkpoint(*log, checkpoint.clone())).ok()
            }
            Frame::Incarnation(_) => Some(()),
        }
    }
}

/// The result of a future of the memory store, which never waits.
fn done<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("the memory store never waits")
}

#[async_trait]
impl Store for SimStore {
    async fn open(&self, log: NewLog) -> Result<Tail, AppendError> {
        match self.ask(Ask::Open(log)).await {
            Some(Answer::Tail(tail)) => tail,
            _ => Err(AppendError::Unknown),
        }
    }

    async fn rewind(&self, new: NewLog) -> Result<Tail, AppendError> {
        match self.ask(Ask::Rewind(new)).await {
            Some(Answer::Tail(tail)) => tail,
            _ => Err(AppendError::Unknown),
        }
    }

    async fn append(&self, log: LogId, append: Append) -> Result<Appended, AppendError> {
        let now_us = self.0.clock.now_us();
        self.append_at(log, append, now_us).await
    }

    async fn replicate(&self, log: LogId, events: Vec<Recorded>) -> Result<Tail, ReplicaError> {
        match self.ask(Ask::Replicate(log, events)).await {
            Some(Answer::Replica(tail)) => tail,
            _ => Err(ReplicaError::Store(AppendError::Unknown)),
        }
    }

    async fn keep_checkpoint(&self, log: LogId, checkpoint: Checkpoint) -> Result<(), AppendError> {
        match self.ask(Ask::Checkpoint(log, checkpoint)).await {
            Some(Answer::Done(done)) => done,
            _ => Err(AppendError::Unknown),
        }
    }

    async fn checkpoints(
        &self,
        log: LogId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Checkpoint>, ReadError> {
        self.0.durable.checkpoints(log, after, limit).await
    }

    async fn read(&self, log: LogId, after: u64, limit: usize) -> Result<Page, ReadError> {
        self.0.durable.read(log, after, limit).await
    }

    async fn read_stream(
        &self,
        log: LogId,
        stream: &StreamName,
        after: u64,
        limit: usize,
    ) -> Result<Page, ReadError> {
        self.0.durable.read_stream(log, stream, after, limit).await
    }

    async fn erase(&self, log: LogId, positions: &[u64]) -> Result<(), AppendError> {
        match self.ask(Ask::Erase(log, positions.to_vec())).await {
            Some(Answer::Done(done)) => done,
            _ => Err(AppendError::Unknown),
        }
    }

    async fn happened(
        &self,
        log: LogId,
        command: CommandId,
    ) -> Result<Option<Happened>, ReadError> {
        let found = self.0.durable.happened(log, command).await?;
        Ok(found.map(|happened| Happened {
            digest: self.0.digest(log, command),
            ..happened
        }))
    }

    fn tail(&self, log: LogId) -> Result<Tail, ReadError> {
        self.0.durable.tail(log)
    }

    async fn chain_at(&self, log: LogId, pos: u64) -> Result<ChainHash, ReadError> {
        self.0.durable.chain_at(log, pos).await
    }

    fn logs(&self) -> Vec<LogInfo> {
        self.0.durable.logs()
    }

    fn info(&self, log: LogId) -> Result<LogInfo, ReadError> {
        self.0.durable.info(log)
    }

    fn doorbell(&self, log: LogId) -> Result<watch::Receiver<u64>, ReadError> {
        self.0.durable.doorbell(log)
    }

    fn any_doorbell(&self) -> watch::Receiver<u64> {
        self.0.durable.any_doorbell()
    }
}

impl Inner {
    /// The digest that a command was used with, in this log or one that it branched off.
    fn digest(&self, log: LogId, command: CommandId) -> Option<[u8; 32]> {
        let state = lock(&self.state);
        let mut at = Some(log);
        while let Some(log) = at {
            if let Some(digest) = state.digests.get(&(log, command)) {
                return Some(*digest);
            }
            let info = self.front.info(log).ok()?;
            at = info.parent.map(|parent| parent.log);
        }
        None
    }
}
