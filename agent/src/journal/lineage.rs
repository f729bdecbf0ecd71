//! The logs that a box has, and which of them it writes.

use std::{
    fs::{self, File},
    io,
    path::Path,
};

use cocoonbox_events::{
    AppendError, LogId, NewLog, Parent, ReadError, Recorded, ReplicaError, Store, Tail,
    store::LogKind,
};

use super::Journal;

/// Branches of one box. Each is a rewind or a fork of a fork; more is not a history but an attack.
pub const LINEAGE_MAX: usize = 1_000;

/// A log and where it branches off its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    pub log: LogId,
    pub parent: Option<Parent>,
}

#[derive(Debug, thiserror::Error)]
pub enum LineageError {
    #[error("a lineage has 1 to {LINEAGE_MAX} logs, not {logs}")]
    Length { logs: usize },
    #[error("log {log} does not branch off the one before it")]
    Torn { log: LogId },
    /// The disk has less than the branch stands on.
    #[error("the box has not got what log {log} branches off")]
    Lost { log: LogId },
    /// This process writes another log; the next one will do.
    #[error("the box writes log {released}")]
    Elsewhere { released: LogId },
    #[error("the log is written already; nothing is restored beneath it")]
    Released,
    #[error("opening log {log}")]
    Open {
        log: LogId,
        #[source]
        source: AppendError,
    },
    #[error("taking back what was lost")]
    Restore(#[source] ReplicaError),
    #[error("marking the log as incomplete")]
    Mark(#[source] io::Error),
    #[error("reading the log's end")]
    Tail(#[source] ReadError),
}

impl Branch {
    fn new_log(self) -> NewLog {
        NewLog {
            id: self.log,
            kind: LogKind::Box,
            owner: String::new(),
            parent: self.parent,
        }
    }
}

impl Journal {
    /// Opens these logs, each of which branches off the one before, and writes the last one from here
    /// on. Releasing again with the same log changes nothing.
    pub async fn release(&self, lineage: &[Branch]) -> Result<Tail, LineageError> {
        let Some(last) = lineage.last().filter(|_| lineage.len() <= LINEAGE_MAX) else {
            let logs = lineage.len();
            return Err(LineageError::Length { logs });
        };
        if let Some(released) = self.released()
            && released != last.log
        {
            return Err(LineageError::Elsewhere { released });
        }
        let mut before = None;
        for branch in lineage {
            if branch.parent.map(|parent| parent.log) != before {
                return Err(LineageError::Torn { log: branch.log });
            }
            open(&**self.store(), *branch).await?;
            before = Some(branch.log);
        }
        if let Err(source) = fs::remove_file(&self.restoring)
            && source.kind() != io::ErrorKind::NotFound
        {
            return Err(LineageError::Mark(source));
        }
        let released = *self.log.get_or_init(|| last.log);
        if released != last.log {
            return Err(LineageError::Elsewhere { released });
        }
        self.tail().map_err(LineageError::Tail)
    }

    /// Whether the box is being given back what it lost.
    pub fn is_restoring(&self) -> bool {
        self.restoring.exists()
    }

    /// Takes events of a log that the disk has lost.
    pub async fn restore(
        &self,
        branch: Branch,
        events: Vec<Recorded>,
    ) -> Result<Tail, LineageError> {
        if self.released().is_some() {
            return Err(LineageError::Released);
        }
        // What is half given back must not be taken for an older disk, whatever happens meanwhile.
        let marked = File::create(&self.restoring).and_then(|file| file.sync_all());
        let folder = self.restoring.parent().unwrap_or(Path::new("."));
        let marked = marked.and_then(|()| File::open(folder)?.sync_all());
        marked.map_err(LineageError::Mark)?;
        let tail = open(&**self.store(), branch).await?;
        if events.is_empty() {
            return Ok(tail);
        }
        let restored = self.store().replicate(branch.log, events).await;
        restored.map_err(LineageError::Restore)
    }
}

async fn open(store: &dyn Store, branch: Branch) -> Result<Tail, LineageError> {
    let log = branch.log;
    let new = branch.new_log();
    let opened = match branch.parent {
        None => store.open(new).await,
        Some(_) => match store.rewind(new.clone()).await {
            // The box went on in another branch that the api does not know of, or left this one: what is
            // written is decided by the release, and not by what the box's disk believes.
            Err(AppendError::Moved { .. }) => store.open(new).await,
            opened => opened,
        },
    };
    opened.map_err(|source| match source {
        AppendError::NoSuchLog { .. } | AppendError::OtherHistory { .. } => {
            LineageError::Lost { log }
        }
        source => LineageError::Open { log, source },
    })
}
