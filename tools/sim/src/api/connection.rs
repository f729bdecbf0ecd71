//! An api replica's connection to the database: slow, and now and then without an answer.

use std::sync::Arc;

use async_trait::async_trait;
use cocoonbox_events::{
    Append, AppendError, Appended, ChainHash, Clock, CommandId, Happened, LogId, LogInfo, NewLog,
    Page, ReadError, Recorded, ReplicaError, Store, StreamName, Tail, store::Checkpoint,
};
use tokio::sync::watch;

use crate::{
    clock::SkewedClock,
    control::Control,
    net::{Net, Place},
    scheduler::Sim,
    store::SimStore,
};

/// A [`Store`] somewhere else.
#[derive(Clone)]
pub struct Connection {
    pub sim: Sim,
    pub net: Net,
    pub control: Arc<Control>,
    pub from: Place,
    pub clock: Arc<SkewedClock>,
}

#[derive(Debug)]
struct Unreachable;

impl std::fmt::Display for Unreachable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the database does not answer")
    }
}

impl std::error::Error for Unreachable {}

fn unreachable() -> ReadError {
    ReadError::Io(Box::new(Unreachable))
}

impl Connection {
    fn reach(&self) -> Option<SimStore> {
        if self.net.is_cut(self.from, Place::Control) {
            return None;
        }
        self.control.store()
    }

    async fn travel(&self) {
        let us = self.sim.draw(|chance| {
            if chance.happens(980) {
                chance.between(50, 1_000)
            } else {
                chance.between(1_000, 200_000)
            }
        });
        self.sim.sleep_us(us).await;
    }

    async fn reading(&self) -> Result<SimStore, ReadError> {
        self.travel().await;
        self.reach().ok_or_else(unreachable)
    }

    /// Whether the answer to something that was done is lost on its way.
    fn loses_answer(&self) -> bool {
        let lost = self.net.weather().lost;
        self.net.is_cut(self.from, Place::Control) || self.sim.draw(|c| c.happens(lost))
    }
}

#[async_trait]
impl Store for Connection {
    async fn open(&self, log: NewLog) -> Result<Tail, AppendError> {
        self.travel().await;
        let store = self.reach().ok_or(AppendError::Unknown)?;
        store.open(log).await
    }

    async fn rewind(&self, new: NewLog) -> Result<Tail, AppendError> {
        self.travel().await;
        let store = self.reach().ok_or(AppendError::Unknown)?;
        let tail = store.rewind(new).await;
        if self.loses_answer() {
            return Err(AppendError::Unknown);
        }
        tail
    }

    async fn append(&self, log: LogId, append: Append) -> Result<Appended, AppendError> {
        self.travel().await;
        let store = self.reach().ok_or(AppendError::Unknown)?;
        let appended = store.append_at(log, append, self.clock.now_us()).await;
        if self.loses_answer() {
            return Err(AppendError::Unknown);
        }
        appended
    }

    async fn replicate(&self, log: LogId, events: Vec<Recorded>) -> Result<Tail, ReplicaError> {
        self.travel().await;
        let unknown = || ReplicaError::Store(AppendError::Unknown);
        let store = self.reach().ok_or_else(unknown)?;
        let tail = store.replicate(log, events).await;
        if self.loses_answer() {
            return Err(unknown());
        }
        tail
    }

    async fn keep_checkpoint(&self, log: LogId, checkpoint: Checkpoint) -> Result<(), AppendError> {
        self.travel().await;
        let store = self.reach().ok_or(AppendError::Unknown)?;
        store.keep_checkpoint(log, checkpoint).await
    }

    async fn checkpoints(
        &self,
        log: LogId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Checkpoint>, ReadError> {
        self.reading().await?.checkpoints(log, after, limit).await
    }

    async fn read(&self, log: LogId, after: u64, limit: usize) -> Result<Page, ReadError> {
        self.reading().await?.read(log, after, limit).await
    }

    async fn read_stream(
        &self,
        log: LogId,
        stream: &StreamName,
        after: u64,
        limit: usize,
    ) -> Result<Page, ReadError> {
        let store = self.reading().await?;
        store.read_stream(log, stream, after, limit).await
    }

    async fn erase(&self, log: LogId, positions: &[u64]) -> Result<(), AppendError> {
        self.travel().await;
        let store = self.reach().ok_or(AppendError::Unknown)?;
        store.erase(log, positions).await
    }

    async fn happened(
        &self,
        log: LogId,
        command: CommandId,
    ) -> Result<Option<Happened>, ReadError> {
        self.reading().await?.happened(log, command).await
    }

    fn tail(&self, log: LogId) -> Result<Tail, ReadError> {
        self.reach().ok_or_else(unreachable)?.tail(log)
    }

    async fn chain_at(&self, log: LogId, pos: u64) -> Result<ChainHash, ReadError> {
        self.reading().await?.chain_at(log, pos).await
    }

    fn logs(&self) -> Vec<LogInfo> {
        self.reach().map(|store| store.logs()).unwrap_or_default()
    }

    fn info(&self, log: LogId) -> Result<LogInfo, ReadError> {
        self.reach().ok_or_else(unreachable)?.info(log)
    }

    fn doorbell(&self, log: LogId) -> Result<watch::Receiver<u64>, ReadError> {
        self.reach().ok_or_else(unreachable)?.doorbell(log)
    }

    fn any_doorbell(&self) -> watch::Receiver<u64> {
        match self.reach() {
            Some(store) => store.any_doorbell(),
            None => watch::channel(0).1,
        }
    }
}
