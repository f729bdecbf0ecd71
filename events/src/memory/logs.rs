//! All logs in memory, and what a branch inherits.

use std::collections::BTreeMap;

use super::log::Log;
use crate::{
    chain::ChainHash,
    id::{CommandId, LogId, StreamName},
    store::{AppendError, Happened, NewLog, ReadError, Tail},
};

#[derive(Default)]
pub(super) struct Logs(pub(super) BTreeMap<LogId, Log>);

impl Logs {
    pub(super) fn get(&self, id: LogId) -> Result<&Log, AppendError> {
        self.0.get(&id).ok_or(AppendError::NoSuchLog { log: id })
    }

    pub(super) fn get_mut(&mut self, id: LogId) -> Result<&mut Log, AppendError> {
        let none = AppendError::NoSuchLog { log: id };
        self.0.get_mut(&id).ok_or(none)
    }

    pub(super) fn read(&self, id: LogId) -> Result<&Log, ReadError> {
        self.0.get(&id).ok_or(ReadError::NoSuchLog { log: id })
    }

    pub(super) fn open(&mut self, new: NewLog) -> Result<(Tail, bool), AppendError> {
        if let Some(log) = self.0.get(&new.id) {
            return if log.opened.is_same(&new) {
                Ok((log.tail(), false))
            } else {
                Err(AppendError::OtherLog { log: new.id })
            };
        }
        if let Some(parent) = new.parent {
            let opened = &self.get(parent.log)?.opened;
            if opened.kind != new.kind || opened.owner != new.owner {
                return Err(AppendError::OtherLog { log: parent.log });
            }
            if self.chain_at(parent.log, parent.pos) != Some(parent.chain) {
                let (log, pos) = (parent.log, parent.pos);
                return Err(AppendError::OtherHistory { log, pos });
            }
        }
        let log = Log::new(new);
        let tail = log.tail();
        self.0.insert(tail.log, log);
        Ok((tail, true))
    }

    /// The log that holds what follows `after` in the history of `log`, and up to where.
    pub(super) fn holder<'a>(&'a self, mut log: &'a Log, after: u64) -> (&'a Log, u64) {
        let mut to = u64::MAX;
        while let Some(parent) = log.opened.parent
            && after < parent.pos
            && let Some(before) = self.0.get(&parent.log)
        {
            (log, to) = (before, to.min(parent.pos));
        }
        (log, to)
    }

    /// The logs that hold the history of `log`, oldest first, each with up to where.
    pub(super) fn line<'a>(&'a self, mut log: &'a Log) -> Vec<(&'a Log, u64)> {
        let mut line = vec![(log, u64::MAX)];
        let mut to = u64::MAX;
        while let Some(parent) = log.opened.parent
            && let Some(before) = self.0.get(&parent.log)
        {
            (log, to) = (before, to.min(parent.pos));
            line.push((log, to));
        }
        line.reverse();
        line
    }

    /// Sequence number of a stream's last event up to position `to`.
    pub(super) fn head(&self, id: LogId, stream: &StreamName, to: u64) -> u64 {
        let Some(log) = self.0.get(&id) else {
            return 0;
        };
        if let Some(held) = log.streams.get(stream) {
            let own = held.positions.partition_point(|pos| *pos <= to) as u64;
            if own > 0 {
                return held.before + own;
            }
        }
        let parent = log.opened.parent;
        parent.map_or(0, |parent| {
            self.head(parent.log, stream, to.min(parent.pos))
        })
    }

    pub(super) fn happened(&self, id: LogId, command: CommandId) -> Option<Happened> {
        let line = self.line(self.0.get(&id)?);
        line.into_iter().rev().find_map(|(log, to)| {
            let known = log.commands.get(&command)?;
            (known.last <= to).then(|| Happened {
                digest: known.digest,
                range: log.range(known.first, known.last),
            })
        })
    }

    pub(super) fn chain_at(&self, id: LogId, pos: u64) -> Option<ChainHash> {
        let (log, _) = self.holder(self.0.get(&id)?, pos);
        if pos == log.base() {
            return Some(log.genesis);
        }
        log.event(pos).map(|event| event.chain)
    }
}
