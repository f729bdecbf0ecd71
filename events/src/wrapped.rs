//! A store in front of another one.

use async_trait::async_trait;
use tokio::sync::watch;

use crate::{
    chain::ChainHash,
    id::{CommandId, LogId, StreamName},
    offset_key::OffsetKey,
    record::{Append, Recorded},
    store::{
        AppendError, Appended, Checkpoint, Happened, LogInfo, NewLog, Page, ReadError,
        ReplicaError, Store, Tail,
    },
    tables::Tables,
};

/// Does some things on the way to a store, and leaves the rest to it. Whoever is one is a [`Store`].
///
/// What can be done on the way is what writes and what reads events; all else is passed on as it is.
#[async_trait]
pub trait Wrapped: Send + Sync + 'static {
    /// Returns the store behind this one.
    fn inner(&self) -> &dyn Store;

    async fn open(&self, log: NewLog) -> Result<Tail, AppendError> {
        self.inner().open(log).await
    }

    async fn rewind(&self, new: NewLog) -> Result<Tail, AppendError> {
        self.inner().rewind(new).await
    }

    async fn append(&self, log: LogId, append: Append) -> Result<Appended, AppendError> {
        self.inner().append(log, append).await
    }

    async fn replicate(&self, log: LogId, events: Vec<Recorded>) -> Result<Tail, ReplicaError> {
        self.inner().replicate(log, events).await
    }

    async fn read(&self, log: LogId, after: u64, limit: usize) -> Result<Page, ReadError> {
        self.inner().read(log, after, limit).await
    }
}

#[async_trait]
impl<T: Wrapped> Store for T {
    async fn open(&self, log: NewLog) -> Result<Tail, AppendError> {
        Wrapped::open(self, log).await
    }

    async fn rewind(&self, new: NewLog) -> Result<Tail, AppendError> {
        Wrapped::rewind(self, new).await
    }

    async fn append(&self, log: LogId, append: Append) -> Result<Appended, AppendError> {
        Wrapped::append(self, log, append).await
    }

    async fn replicate(&self, log: LogId, events: Vec<Recorded>) -> Result<Tail, ReplicaError> {
        Wrapped::replicate(self, log, events).await
    }

    async fn keep_checkpoint(&self, log: LogId, checkpoint: Checkpoint) -> Result<(), AppendError> {
        self.inner().keep_checkpoint(log, checkpoint).await
    }

    async fn checkpoints(
        &self,
        log: LogId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Checkpoint>, ReadError> {
        self.inner().checkpoints(log, after, limit).await
    }

    async fn read(&self, log: LogId, after: u64, limit: usize) -> Result<Page, ReadError> {
        Wrapped::read(self, log, after, limit).await
    }

    async fn read_stream(
        &self,
        log: LogId,
        stream: &StreamName,
        after: u64,
        limit: usize,
    ) -> Result<Page, ReadError> {
        self.inner().read_stream(log, stream, after, limit).await
    }

    async fn erase(&self, log: LogId, positions: &[u64]) -> Result<(), AppendError> {
        self.inner().erase(log, positions).await
    }

    fn tail(&self, log: LogId) -> Result<Tail, ReadError> {
        self.inner().tail(log)
    }

    fn ends_at(&self, log: LogId, pos: u64) -> bool {
        self.inner().ends_at(log, pos)
    }

    async fn chain_at(&self, log: LogId, pos: u64) -> Result<ChainHash, ReadError> {
        self.inner().chain_at(log, pos).await
    }

    fn logs(&self) -> Vec<LogInfo> {
        self.inner().logs()
    }

    fn info(&self, log: LogId) -> Result<LogInfo, ReadError> {
        self.inner().info(log)
    }

    fn doorbell(&self, log: LogId) -> Result<watch::Receiver<u64>, ReadError> {
        self.inner().doorbell(log)
    }

    fn any_doorbell(&self) -> watch::Receiver<u64> {
        self.inner().any_doorbell()
    }

    fn tables(&self) -> Option<&dyn Tables> {
        self.inner().tables()
    }

    async fn happened(
        &self,
        log: LogId,
        command: CommandId,
    ) -> Result<Option<Happened>, ReadError> {
        self.inner().happened(log, command).await
    }

    async fn resume(&self, log: LogId, key: &OffsetKey) -> Result<u64, ReadError> {
        self.inner().resume(log, key).await
    }

    fn current(&self, log: LogId) -> Result<LogId, ReadError> {
        self.inner().current(log)
    }
}
