//! Logs of one store into another, position for position and hash for hash.

use std::sync::Arc;

use cocoonbox_events::{
    AppendError, LogId, LogInfo, NewLog, ReplicaError, Store, limits::PAGE_EVENTS_MAX,
};

use crate::{
    error::Error,
    export::Plan,
    pages::Pages,
    verify::{VerifyReport, verify},
};

/// What was brought over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    pub logs: u64,
    pub events: u64,
    pub checkpoints: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error(transparent)]
    Read(#[from] Error),
    /// Nothing was written.
    #[error("log {log} does not verify at {pos}: {what}")]
    Broken { log: LogId, pos: u64, what: String },
    #[error("log {log} branches off log {parent}, which is not among those to be imported")]
    NoParent { log: LogId, parent: LogId },
    #[error("opening log {log}")]
    Open {
        log: LogId,
        #[source]
        source: AppendError,
    },
    #[error("writing log {log} behind {pos}")]
    Write {
        log: LogId,
        pos: u64,
        #[source]
        source: ReplicaError,
    },
    #[error("keeping the checkpoint of log {log} at {size}")]
    Checkpoint {
        log: LogId,
        size: u64,
        #[source]
        source: AppendError,
    },
}

/// Checks every log before anything is written; the first that is not whole refuses all.
pub async fn check(
    store: &Arc<dyn Store>,
    see: &mut (dyn FnMut(u64) + Send),
) -> Result<(), ImportError> {
    let logs = store.logs();
    let mut events = 0;
    for info in &logs {
        let log = info.id;
        if let Some(parent) = info.parent.map(|parent| parent.log)
            && !logs.iter().any(|other| other.id == parent)
        {
            return Err(ImportError::NoParent { log, parent });
        }
        let report: VerifyReport = verify(store, log).await?;
        if let Some(found) = report.first_break {
            let (pos, what) = (found.pos, found.what);
            return Err(ImportError::Broken { log, pos, what });
        }
        events += report.events;
        see(events);
    }
    Ok(())
}

/// Copies every log with its checkpoints into `target`, which may have some of it already: an import
/// that was broken off goes on when it is begun again. A page at a time is in memory.
pub async fn import(
    store: &Arc<dyn Store>,
    target: &dyn Store,
    see: &mut (dyn FnMut(u64) + Send),
) -> Result<Imported, ImportError> {
    let plan = Plan::new(store.logs(), false);
    let mut done = Imported::default();
    for info in plan.logs() {
        open(store, info, target).await?;
        copy(store, info, target, &mut done, see).await?;
        done.logs += 1;
    }
    Ok(done)
}

/// A branch that its parent moved to is opened as it was then: the parent is closed.
async fn open(
    store: &Arc<dyn Store>,
    info: &LogInfo,
    target: &dyn Store,
) -> Result<(), ImportError> {
    let new = NewLog {
        id: info.id,
        kind: info.kind,
        owner: info.owner.clone(),
        parent: info.parent,
    };
    let is_rewind = info
        .parent
        .and_then(|parent| store.info(parent.log).ok())
        .is_some_and(|parent| parent.moved_to == Some(info.id));
    let opened = if is_rewind {
        target.rewind(new).await
    } else {
        target.open(new).await
    };
    let log = info.id;
    opened
        .map(|_| ())
        .map_err(|source| ImportError::Open { log, source })
}

async fn copy(
    store: &Arc<dyn Store>,
    info: &LogInfo,
    target: &dyn Store,
    done: &mut Imported,
    see: &mut (dyn FnMut(u64) + Send),
) -> Result<(), ImportError> {
    let log = info.id;
    let held = target.tail(log).map_err(Error::read(log))?.pos;
    let mut pages = Pages::of_log(store, log, held)?;
    while let Some(events) = pages.next().await? {
        let pos = events.first().map_or(0, |event| event.pos - 1);
        let count = events.len() as u64;
        target
            .replicate(log, events)
            .await
            .map_err(|source| ImportError::Write { log, pos, source })?;
        done.events += count;
        see(done.events);
    }
    let mut after = 0;
    loop {
        let kept = store
            .checkpoints(log, after, PAGE_EVENTS_MAX)
            .await
            .map_err(Error::read(log))?;
        let Some(last) = kept.last() else {
            return Ok(());
        };
        after = last.size;
        for checkpoint in kept {
            let size = checkpoint.size;
            target
                .keep_checkpoint(log, checkpoint)
                .await
                .map_err(|source| ImportError::Checkpoint { log, size, source })?;
            done.checkpoints += 1;
        }
    }
}
