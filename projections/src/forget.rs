//! Forgetting: rows of an owner whose payloads were erased or whose key was destroyed.

use std::sync::Arc;

use cocoonbox_events::{ChainHash, LogId, LogInfo, ReadError, Store};
use rusqlite::{Connection, TransactionBehavior};

use crate::{
    database::{Checkpoint, Edition, Moved, State, Stop},
    projection::Projection,
    runner::fold::{Fresh, Pages, refold},
    views::{Views, ViewsError},
};

/// What was folded again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// The owner's logs.
    pub logs: usize,
    /// Rows of projections that were cleared and folded again, counted per log.
    pub folded: usize,
}

#[derive(Debug, thiserror::Error)]
pub enum ForgetError {
    #[error("reading log {log}")]
    Read {
        log: LogId,
        #[source]
        source: ReadError,
    },
    /// Nothing was forgotten, or it was and may still lie in the file: ask again.
    #[error("changing the views")]
    Views(#[from] ViewsError),
}

impl ForgetError {
    /// Whether asking again may help.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Read { .. } => true,
            Self::Views(error) => error.is_retryable(),
        }
    }
}

/// Clears every row that came from the logs of `owner` and folds those logs again from what can still be
/// read, in one transaction; then writes the file anew, so that it holds nothing of what was cleared.
///
/// Call it **after** the payloads were erased or the key was destroyed: what can be read is taken in
/// again. Pages that the runner read before are not taken in (checkpoints have epochs). Logs with more
/// than 100,000 events are cleared at once and folded again by the runner. Repeating it is fine; after an
/// error or a crash it has to be repeated.
pub async fn forget(
    store: &Arc<dyn Store>,
    views: &Views,
    owner: &str,
) -> Result<Forgotten, ForgetError> {
    let mut logs = Vec::new();
    for log in store.logs().into_iter().filter(|log| log.owner == owner) {
        let chain = store.chain_at(log.id, 0).await;
        let chain = chain.map_err(|source| ForgetError::Read {
            log: log.id,
            source,
        })?;
        logs.push((log.id, chain));
    }
    let (of, pages) = (views.clone(), Pages::of(store.clone()));
    let forgotten = views
        .blocking(move |database| {
            database.write(|connection| clear(connection, of.projections(), &logs, &pages))
        })
        .await;
    // Whatever came of it: the runner must not go on from where it was.
    views.order();
    let forgotten = forgotten?;
    views.scrub().await?;
    Ok(forgotten)
}

/// Forgets an owner whose key was destroyed, and remembers it once it was done.
///
/// The key must be gone for this process too: what it can read is taken in again.
pub async fn forget_for_good(
    store: &Arc<dyn Store>,
    views: &Views,
    owner: &str,
) -> Result<(), ForgetError> {
    forget(store, views, owner).await?;
    let name = owner.to_owned();
    let remembering = views.blocking(move |database| {
        database.write(|connection| {
            let remember = "INSERT INTO forgotten (owner) VALUES (?1) ON CONFLICT DO NOTHING";
            connection.execute(remember, [&name])?;
            Ok(())
        })
    });
    Ok(remembering.await?)
}

/// Whether this file has forgotten an owner for good.
pub async fn is_forgotten(views: &Views, owner: &str) -> Result<bool, ForgetError> {
    let name = owner.to_owned();
    let looking = views.blocking(move |database| {
        database.read(|connection| {
            let known = "SELECT EXISTS (SELECT 1 FROM forgotten WHERE owner = ?1)";
            Ok(connection.query_row(known, [&name], |row| row.get(0))?)
        })
    });
    Ok(looking.await?)
}

fn clear(
    connection: &mut Connection,
    projections: &[Box<dyn Projection>],
    logs: &[(LogId, ChainHash)],
    pages: &Pages,
) -> Result<Forgotten, ViewsError> {
    let mut forgotten = Forgotten {
        logs: logs.len(),
        folded: 0,
    };
    let mut tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Looked at with the file in hand: the rows are never less far afterwards than they were said to be.
    let logs: Vec<(LogInfo, Fresh)> = logs
        .iter()
        .filter_map(|(log, chain)| {
            let (log, chain) = (pages.info(*log)?, *chain);
            let erased_to = log.tail.pos;
            Some((log, Fresh { chain, erased_to }))
        })
        .collect();
    for edition in Edition::load_all(&tx)? {
        let own = projections
            .iter()
            .find(|p| p.name() == edition.projection && p.version() == edition.version);
        for (log, fresh) in &logs {
            let Some(from) = Checkpoint::load(&tx, edition.id, log.id)? else {
                continue;
            };
            let Some(projection) = own.filter(|_| edition.state != State::Dropped) else {
                // Rows of another build: it cannot be told which are this owner's.
                Edition::give_up(&tx, edition.id)?;
                continue;
            };
            let mut savepoint = tx.savepoint()?;
            let (to, poison) = refold(&mut savepoint, &**projection, log, &from, *fresh, pages)?;
            if from.advance(&savepoint, &to)? == Moved::Contended {
                unreachable!("the transaction has been the only writer since it read this");
            }
            match poison {
                Some(poison) => poison.stop(&to).put(&savepoint)?,
                None => Stop::remove(&savepoint, edition.id, log.id)?,
            }
            savepoint.commit()?;
            forgotten.folded += 1;
        }
    }
    tx.commit()?;
    Ok(forgotten)
}
