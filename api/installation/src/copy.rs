//! Moving an installation: everything that one holds into another, position for position.
//!
//! Keys come first, so that what is sealed opens; then logs, each after the one that it branched off, with their
//! checkpoints; then tokens. Everything is compared with what is there already, so a copy that was broken off goes
//! on when it is repeated, and one into something else is refused.
//!
//! Commands keep their ids, which events name, and those without events are copied as what they are. All lose the
//! digests of what they asked for: a command that is repeated after the move is still done once, but no longer
//! refused when it asks for something else. A replica knows none either, no database lets one be set later, and
//! what a copy does not have needs no erasing.

mod compare;
mod order;

use std::collections::HashSet;

use cocoonbox_events::{
    Append, AppendError, CommandId, LogId, LogInfo, NewLog, ReadError, ReplicaError, Store,
    limits::PAGE_EVENTS_MAX, tables::CommandRow,
};
use cocoonbox_proto::log::v1::Actor;

use crate::{Installation, KeysError, TokensError};
pub use compare::compare;

/// Keys and tokens at a time.
const PAGE: usize = 500;

/// How far a copy is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub logs: usize,
    pub logs_done: usize,
    /// In all logs of the source.
    pub events: u64,
    /// Held by the destination, from this run or another.
    pub events_done: u64,
}

/// What was copied or compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    pub logs: usize,
    pub events: u64,
    /// Written by this run; the others were there.
    pub events_new: u64,
    pub checkpoints: u64,
    pub owners: usize,
    pub signing_keys: usize,
    pub tokens: usize,
}

#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error(
        "the destination holds log {log}, which the source does not have: it is another installation"
    )]
    OtherInstallation { log: LogId },
    #[error("log {log} of the destination has another history at position {pos}")]
    OtherHistory { log: LogId, pos: u64 },
    #[error(
        "log {log} of the destination ends at {to}, after the source at {from}: it was written there since"
    )]
    Ahead { log: LogId, from: u64, to: u64 },
    #[error("log {log} of the destination is not of the same kind, owner and parent")]
    OtherLog { log: LogId },
    #[error("the destination has another key for `{owner}`")]
    OtherKey { owner: String },
    #[error("the destination has tokens that the source does not have: `{token_id}`")]
    OtherToken { token_id: String },
    #[error("{what} differs between source and destination")]
    Differs { what: String },
    #[error("reading log {log} of the source")]
    Read {
        log: LogId,
        #[source]
        source: ReadError,
    },
    #[error("reading log {log} of the destination")]
    ReadBack {
        log: LogId,
        #[source]
        source: ReadError,
    },
    #[error("log {log} cannot be opened in the destination")]
    Open {
        log: LogId,
        #[source]
        source: AppendError,
    },
    #[error("log {log} cannot be written in the destination")]
    Write {
        log: LogId,
        #[source]
        source: ReplicaError,
    },
    #[error("a command of log {log} cannot be remembered in the destination")]
    Remember {
        log: LogId,
        #[source]
        source: AppendError,
    },
    #[error("log {log} of the source does not verify")]
    Broken {
        log: LogId,
        #[source]
        source: cocoonbox_events::chain::Break,
    },
    #[error(transparent)]
    Keys(#[from] KeysError),
    #[error(transparent)]
    Tokens(#[from] TokensError),
}

/// Copies everything. Nobody else may write either of them meanwhile.
pub async fn copy(
    from: &Installation,
    to: &Installation,
    mut progress: impl FnMut(Progress),
) -> Result<Copied, CopyError> {
    let logs = order::parents_first(from.store.logs());
    refuse_another(&logs, &*to.store)?;
    let mut copied = Copied {
        signing_keys: signing_keys(from, to).await?,
        owners: owners(from, to).await?,
        ..Copied::default()
    };
    let mut now = Progress {
        logs: logs.len(),
        events: logs.iter().map(own_events).sum(),
        ..Progress::default()
    };
    for info in &logs {
        let before = now.events_done;
        let log = Log { from, to, info };
        copied.events_new += log
            .copy(|done| {
                now.events_done = before + done;
                progress(now);
            })
            .await?;
        copied.checkpoints += log.checkpoints().await?;
        now.events_done = before + own_events(info);
        now.logs_done += 1;
        progress(now);
    }
    // A rewound log is closed by the opening of the next: that was done above, in order.
    copied.logs = logs.len();
    copied.events = now.events;
    copied.tokens = tokens(from, to).await?;
    Ok(copied)
}

/// Events that lie in this log itself.
fn own_events(info: &LogInfo) -> u64 {
    info.tail.pos - info.parent.map_or(0, |parent| parent.pos)
}

fn refuse_another(logs: &[LogInfo], to: &dyn Store) -> Result<(), CopyError> {
    let known: HashSet<LogId> = logs.iter().map(|log| log.id).collect();
    match to.logs().iter().find(|log| !known.contains(&log.id)) {
        Some(log) => Err(CopyError::OtherInstallation { log: log.id }),
        None => Ok(()),
    }
}

/// One log on its way.
struct Log<'a> {
    from: &'a Installation,
    to: &'a Installation,
    info: &'a LogInfo,
}

impl Log<'_> {
    /// Copies what the destination does not have, and returns how many events that were.
    async fn copy(&self, mut done: impl FnMut(u64)) -> Result<u64, CopyError> {
        let LogInfo {
            id, parent, tail, ..
        } = *self.info;
        let mut end = self.open().await?;
        let base = parent.map_or(0, |parent| parent.pos);
        if end > tail.pos {
            return Err(CopyError::Ahead {
                log: id,
                from: tail.pos,
                to: end,
            });
        }
        self.same_history(end).await?;
        self.erase_again(base, end).await?;
        let mut copied = 0;
        let mut remembered = self.without_events().await?.into_iter().peekable();
        loop {
            // Each where it was: the next events are read up to there.
            while let Some(row) = remembered.next_if(|row| row.last <= end) {
                self.remember(row.command).await?;
            }
            if end >= tail.pos {
                break;
            }
            let to = remembered.peek().map_or(tail.pos, |row| row.last);
            let limit = usize::try_from(to - end).unwrap_or(usize::MAX);
            let page = self.from.store.read(id, end, limit.min(PAGE_EVENTS_MAX));
            let page = page
                .await
                .map_err(|source| CopyError::Read { log: id, source })?;
            let Some(last) = page.events.last() else {
                break;
            };
            (end, copied) = (last.pos, copied + page.events.len() as u64);
            let written = self.to.store.replicate(id, page.events).await;
            written.map_err(|source| CopyError::Write { log: id, source })?;
            done(end - base);
        }
        Ok(copied)
    }

    /// The commands that led to nothing, by where the log ended then.
    async fn without_events(&self) -> Result<Vec<CommandRow>, CopyError> {
        let (id, mut after, mut found) = (self.info.id, None, Vec::new());
        let Some(tables) = self.from.store.tables() else {
            return Ok(found);
        };
        loop {
            let page = tables.commands(id, after, PAGE_EVENTS_MAX).await;
            let page = page.map_err(|source| CopyError::Read { log: id, source })?;
            let Some(last) = page.last() else { break };
            after = Some(last.command);
            found.extend(page.into_iter().filter(CommandRow::is_without_events));
        }
        found.sort_unstable_by_key(|row| row.last);
        Ok(found)
    }

    async fn remember(&self, command: CommandId) -> Result<(), CopyError> {
        let append = Append {
            command,
            digest: [0; 32],
            expect: Vec::new(),
            events: Vec::new(),
            actor: Actor::default(),
            cause: None,
        };
        let log = self.info.id;
        match self.to.store.append(log, append).await {
            Ok(_) => Ok(()),
            Err(source) => Err(CopyError::Remember { log, source }),
        }
    }

    /// Opens the log as the source has it, and returns where it ends.
    async fn open(&self) -> Result<u64, CopyError> {
        let info = self.info;
        let new = NewLog {
            id: info.id,
            kind: info.kind,
            owner: info.owner.clone(),
            parent: info.parent,
        };
        let parent = info.parent.map(|parent| self.from.store.info(parent.log));
        let closes_parent = match parent {
            Some(parent) => {
                let parent = parent.map_err(|source| CopyError::Read {
                    log: info.id,
                    source,
                })?;
                parent.moved_to == Some(info.id)
            }
            None => false,
        };
        let opened = if closes_parent {
            self.to.store.rewind(new).await
        } else {
            self.to.store.open(new).await
        };
        match opened {
            Ok(tail) => Ok(tail.pos),
            Err(AppendError::OtherLog { log }) => Err(CopyError::OtherLog { log }),
            Err(source) => Err(CopyError::Open {
                log: info.id,
                source,
            }),
        }
    }

    /// Checks that what the destination has is what the source had there.
    async fn same_history(&self, end: u64) -> Result<(), CopyError> {
        let id = self.info.id;
        let ours = self.from.store.chain_at(id, end).await;
        let ours = ours.map_err(|source| CopyError::Read { log: id, source })?;
        let theirs = self.to.store.chain_at(id, end).await;
        let theirs = theirs.map_err(|source| CopyError::ReadBack { log: id, source })?;
        if ours == theirs {
            Ok(())
        } else {
            Err(CopyError::OtherHistory { log: id, pos: end })
        }
    }

    /// Erases what was erased in the source since an earlier run had copied it.
    async fn erase_again(&self, base: u64, end: u64) -> Result<(), CopyError> {
        let id = self.info.id;
        let mut after = base;
        while after < end {
            let page = self.from.store.read(id, after, PAGE_EVENTS_MAX).await;
            let page = page.map_err(|source| CopyError::Read { log: id, source })?;
            let Some(last) = page.events.last() else {
                break;
            };
            after = last.pos;
            let erased = page.events.iter().filter(|event| event.body.is_none());
            let erased: Vec<u64> = erased
                .map(|event| event.pos)
                .filter(|pos| *pos <= end)
                .collect();
            if !erased.is_empty() {
                let erasing = self.to.store.erase(id, &erased).await;
                erasing.map_err(|source| CopyError::Open { log: id, source })?;
            }
        }
        Ok(())
    }

    async fn checkpoints(&self) -> Result<u64, CopyError> {
        let id = self.info.id;
        let (mut after, mut copied) = (0, 0);
        loop {
            let page = self.from.store.checkpoints(id, after, PAGE).await;
            let page = page.map_err(|source| CopyError::Read { log: id, source })?;
            let Some(last) = page.last() else {
                return Ok(copied);
            };
            (after, copied) = (last.size, copied + page.len() as u64);
            for checkpoint in page {
                let kept = self.to.store.keep_checkpoint(id, checkpoint).await;
                kept.map_err(|source| CopyError::Open { log: id, source })?;
            }
        }
    }
}

async fn owners(from: &Installation, to: &Installation) -> Result<usize, CopyError> {
    let (mut after, mut copied) = (None, 0);
    loop {
        let page = from.keys.sealed_owners(after.as_deref(), PAGE).await?;
        let Some(last) = page.last() else {
            return Ok(copied);
        };
        after = Some(last.owner.clone());
        for key in &page {
            if !to.keys.put_sealed_owner(key).await? {
                return Err(CopyError::OtherKey {
                    owner: key.owner.clone(),
                });
            }
        }
        copied += page.len();
    }
}

async fn signing_keys(from: &Installation, to: &Installation) -> Result<usize, CopyError> {
    let keys = from.keys.sealed_signers().await?;
    for key in &keys {
        to.keys.put_sealed_signer(key).await?;
    }
    Ok(keys.len())
}

async fn tokens(from: &Installation, to: &Installation) -> Result<usize, CopyError> {
    let (mut after, mut copied) = (String::new(), 0);
    let mut kept = HashSet::new();
    loop {
        let page = from.tokens.list(&after, PAGE).await?;
        let Some(last) = page.last() else {
            break;
        };
        after.clone_from(&last.owner.token_id);
        copied += page.len();
        for token in page {
            to.tokens.put(&token).await?;
            kept.insert(token.owner.token_id);
        }
    }
    let mut after = String::new();
    loop {
        let page = to.tokens.list(&after, PAGE).await?;
        let Some(last) = page.last() else {
            return Ok(copied);
        };
        after.clone_from(&last.owner.token_id);
        if let Some(other) = page.iter().find(|t| !kept.contains(&t.owner.token_id)) {
            return Err(CopyError::OtherToken {
                token_id: other.owner.token_id.clone(),
            });
        }
    }
}
