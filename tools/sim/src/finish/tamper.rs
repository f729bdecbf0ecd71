//! Whether verification finds what somebody did to a log.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use cocoonbox_events::{
    Append, AppendError, Appended, ChainHash, LogId, LogInfo, NewLog, Page, ReadError, Recorded,
    ReplicaError, Store, StreamName, Tail, store::Checkpoint,
};
use tokio::sync::watch;

use super::{at_once, read_all};
use crate::{law::Law, ledger::short, store::SimStore, world::World};

/// One log that cannot be written, as somebody left it.
struct Frozen {
    info: LogInfo,
    genesis: ChainHash,
    events: Vec<Recorded>,
}

/// What is done to a log.
#[derive(Clone, Copy, Debug)]
enum Tampering {
    Payload,
    Salt,
    Header,
    Stream,
    Seq,
    Kind,
    Time,
    PayloadHash,
    Chain,
    Dropped,
    Swapped,
    Truncated,
}

const ALL: [Tampering; 12] = [
    Tampering::Payload,
    Tampering::Salt,
    Tampering::Header,
    Tampering::Stream,
    Tampering::Seq,
    Tampering::Kind,
    Tampering::Time,
    Tampering::PayloadHash,
    Tampering::Chain,
    Tampering::Dropped,
    Tampering::Swapped,
    Tampering::Truncated,
];

impl World {
    /// Does one of everything to a log that is whole, and expects the first bad position to be told.
    pub(super) fn check_tampered(&self, store: &SimStore) {
        let mut logs = store.logs();
        logs.retain(|log| log.parent.is_none() && log.tail.pos >= 3);
        let Some(info) = self.sim.draw(|chance| chance.pick(&logs).cloned()) else {
            return;
        };
        let (Ok(events), Ok(genesis)) = (
            read_all(store, info.id),
            at_once(store.chain_at(info.id, 0)),
        ) else {
            return;
        };
        for tampering in ALL {
            let at = self.sim.draw(|chance| chance.index(events.len() - 1));
            let mut frozen = Frozen {
                info: info.clone(),
                genesis,
                events: events.clone(),
            };
            let Some(pos) = frozen.tamper(tampering, at) else {
                continue;
            };
            let shared: Arc<dyn Store> = Arc::new(frozen);
            let found = at_once(cocoonbox_replay::verify(&shared, info.id));
            let told = match &found {
                Ok(report) => report.first_break.as_ref().map(|found| found.pos),
                Err(_) => None,
            };
            if told != Some(pos) {
                let what = format!("{tampering:?} at {pos}: told of {told:?}");
                self.sim.fail(Law::Verify, &short(info.id), what);
            }
        }
    }
}

impl Frozen {
    /// Returns the first position that is not what it was; `None` if this cannot be done here.
    fn tamper(&mut self, tampering: Tampering, at: usize) -> Option<u64> {
        let event = &mut self.events[at];
        let pos = event.pos;
        match tampering {
            Tampering::Payload => {
                let body = event.body.as_mut()?;
                let mut payload = body.payload.to_vec();
                *payload.last_mut()? ^= 1;
                body.payload = payload.into();
            }
            Tampering::Salt => event.body.as_mut()?.salt[0] ^= 1,
            Tampering::Header => {
                let mut header = event.header.to_vec();
                *header.last_mut()? ^= 1;
                event.header = Bytes::from(header);
            }
            Tampering::Stream => event.stream = StreamName::new("agent/other").ok()?,
            Tampering::Seq => event.seq += 1,
            Tampering::Kind => event.kind += 1,
            Tampering::Time => event.recorded_us += 1,
            Tampering::PayloadHash => event.payload_hash.0[0] ^= 1,
            Tampering::Chain => event.chain.0[0] ^= 1,
            Tampering::Dropped => {
                self.events.remove(at);
            }
            Tampering::Swapped => self.events.swap(at, at + 1),
            Tampering::Truncated => {
                self.events.truncate(at + 1);
                return Some(pos + 1);
            }
        }
        Some(pos)
    }
}

fn frozen<T>() -> Result<T, AppendError> {
    Err(AppendError::Stopped)
}

#[async_trait]
impl Store for Frozen {
    async fn open(&self, _: NewLog) -> Result<Tail, AppendError> {
        frozen()
    }

    async fn rewind(&self, _: NewLog) -> Result<Tail, AppendError> {
        frozen()
    }

    async fn append(&self, _: LogId, _: Append) -> Result<Appended, AppendError> {
        frozen()
    }

    async fn replicate(&self, _: LogId, _: Vec<Recorded>) -> Result<Tail, ReplicaError> {
        frozen().map_err(ReplicaError::Store)
    }

    async fn keep_checkpoint(&self, _: LogId, _: Checkpoint) -> Result<(), AppendError> {
        frozen()
    }

    async fn checkpoints(&self, _: LogId, _: u64, _: usize) -> Result<Vec<Checkpoint>, ReadError> {
        Ok(Vec::new())
    }

    async fn read(&self, _: LogId, after: u64, limit: usize) -> Result<Page, ReadError> {
        let start = usize::try_from(after).unwrap_or(usize::MAX);
        let events = self.events.iter().skip(start).take(limit.min(1_000));
        Ok(Page {
            events: events.cloned().collect(),
        })
    }

    async fn read_stream(
        &self,
        _: LogId,
        stream: &StreamName,
        after: u64,
        limit: usize,
    ) -> Result<Page, ReadError> {
        let events = self.events.iter();
        let events = events.filter(|event| event.stream == *stream && event.seq > after);
        Ok(Page {
            events: events.take(limit.min(1_000)).cloned().collect(),
        })
    }

    async fn erase(&self, _: LogId, _: &[u64]) -> Result<(), AppendError> {
        frozen()
    }

    fn tail(&self, _: LogId) -> Result<Tail, ReadError> {
        Ok(self.info.tail)
    }

    async fn chain_at(&self, _: LogId, pos: u64) -> Result<ChainHash, ReadError> {
        if pos == 0 {
            return Ok(self.genesis);
        }
        let found = self.events.iter().find(|event| event.pos == pos);
        found
            .map(|event| event.chain)
            .ok_or(ReadError::AheadOfTail {
                pos,
                tail: self.info.tail.pos,
            })
    }

    fn logs(&self) -> Vec<LogInfo> {
        vec![self.info.clone()]
    }

    fn info(&self, _: LogId) -> Result<LogInfo, ReadError> {
        Ok(self.info.clone())
    }

    fn doorbell(&self, _: LogId) -> Result<watch::Receiver<u64>, ReadError> {
        Ok(watch::channel(0).1)
    }

    fn any_doorbell(&self) -> watch::Receiver<u64> {
        watch::channel(0).1
    }
}
