//! One log in memory.

use std::collections::{BTreeMap, HashMap};

use tokio::sync::watch;

use crate::{
    chain::{ChainHash, Link},
    id::{CommandId, LogId, StreamName},
    record::{Prepared, Recorded},
    replica::{self, End},
    store::{Checkpoint, LogInfo, NewLog, Range, Tail},
};

pub(super) struct Log {
    pub(super) opened: NewLog,
    pub(super) moved_to: Option<LogId>,
    pub(super) genesis: ChainHash,
    pub(super) end: End,
    /// From the position behind the parent's on.
    pub(super) events: Vec<Recorded>,
    pub(super) streams: HashMap<StreamName, Stream>,
    pub(super) commands: HashMap<CommandId, Command>,
    pub(super) checkpoints: BTreeMap<u64, Checkpoint>,
    pub(super) bell: watch::Sender<u64>,
}

/// A stream's events in one log.
pub(super) struct Stream {
    /// Sequence number that the stream had when this log began.
    pub(super) before: u64,
    /// Positions, in order.
    pub(super) positions: Vec<u64>,
}

#[derive(Clone, Copy)]
pub(super) struct Command {
    /// `None`: seen in a replicated event, which does not carry it; or erased.
    pub(super) digest: Option<[u8; 32]>,
    pub(super) first: u64,
    pub(super) last: u64,
}

impl Log {
    pub(super) fn new(opened: NewLog) -> Self {
        let end = End::genesis(opened.id, opened.parent);
        let (bell, _) = watch::channel(end.pos);
        Self {
            opened,
            moved_to: None,
            genesis: end.chain,
            end,
            events: Vec::new(),
            streams: HashMap::new(),
            commands: HashMap::new(),
            checkpoints: BTreeMap::new(),
            bell,
        }
    }

    /// The position behind which this log's own events begin.
    pub(super) fn base(&self) -> u64 {
        self.opened.parent.map_or(0, |parent| parent.pos)
    }

    pub(super) fn info(&self) -> LogInfo {
        LogInfo {
            id: self.opened.id,
            kind: self.opened.kind,
            owner: self.opened.owner.clone(),
            parent: self.opened.parent,
            moved_to: self.moved_to,
            tail: self.tail(),
        }
    }

    pub(super) fn tail(&self) -> Tail {
        Tail {
            log: self.opened.id,
            pos: self.end.pos,
            chain: self.end.chain,
        }
    }

    pub(super) fn index(&self, pos: u64) -> Option<usize> {
        let behind = pos.checked_sub(self.base())?;
        usize::try_from(behind.checked_sub(1)?).ok()
    }

    pub(super) fn event(&self, pos: u64) -> Option<&Recorded> {
        self.events.get(self.index(pos)?)
    }

    pub(super) fn range(&self, first: u64, last: u64) -> Range {
        let chain = self.event(last).map_or(self.genesis, |event| event.chain);
        Range { first, last, chain }
    }

    /// `head` is the stream's before this append; events of the append itself come on top.
    pub(super) fn push(&mut self, event: Prepared, recorded_us: i64, head: u64) {
        let pos = self.end.pos + 1;
        let held = self.streams.get(&event.stream);
        let seq = held.map_or(head, |held| held.before + held.positions.len() as u64) + 1;
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

    pub(super) fn take(&mut self, event: Recorded) {
        self.end = End {
            pos: event.pos,
            chain: event.chain,
            recorded_us: event.recorded_us,
        };
        match self.streams.get_mut(&event.stream) {
            Some(held) => held.positions.push(event.pos),
            None => {
                let held = Stream {
                    before: event.seq - 1,
                    positions: vec![event.pos],
                };
                self.streams.insert(event.stream.clone(), held);
            }
        }
        self.events.push(event);
    }

    pub(super) fn remember(&mut self, event: &Recorded) {
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
