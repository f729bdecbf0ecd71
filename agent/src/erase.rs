//! Erasing what the box's log holds: asked for by the api, said in the log, done in the rows.
//!
//! Written down before and after, so that a process that is killed in between is finished by the next
//! one. What this process holds in memory of it is folded again.

use cocoonbox_commands::erasure::own::{Command, Rejection, State};
use cocoonbox_events::{
    Fold, Husks, LogId, Tail,
    erasure::{self, PlanError, RowsError},
};

use crate::journal::{self, Journal};

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Journal(#[from] journal::Error<Rejection>),
    #[error("erasing rows of the log")]
    Rows(#[from] RowsError),
}

/// Erases what may be erased at these positions and returns the tail behind what was written about it.
pub(crate) async fn erase(
    journal: &Journal,
    positions: Vec<u64>,
    reason: String,
) -> Result<Tail, Error> {
    let plan = erasure::plan(&**journal.store(), journal.log(), positions).await?;
    plan.check_size()?;
    let mut fold = journal.fold::<State>(Husks::stream());
    let request = Command::Request {
        positions: plan.positions(),
        reason,
        husks: plan.husks,
    };
    if !plan.erased.is_empty() {
        journal
            .execute(&mut fold, &request, journal.own_actor())
            .await?;
    }
    pay(journal, &mut fold).await
}

/// Erases what this disk holds at these positions of a log that the box has left, if it holds any. That log
/// says nothing any more: that it was asked for stands in the account log.
pub(crate) async fn erase_left(
    journal: &Journal,
    log: LogId,
    positions: &[u64],
) -> Result<Tail, Error> {
    let store = journal.store();
    let held = store.logs().into_iter().find(|info| info.id == log);
    if held.is_some_and(|info| info.moved_to.is_some()) {
        store.erase(log, positions).await.map_err(RowsError::Rows)?;
        journal.note_erasure();
    }
    journal
        .tail()
        .map_err(|error| PlanError::Read(error).into())
}

/// Does what the log says is owed: what an earlier process did not get to, and what lies open again on a
/// disk that was put back to before it was erased.
pub(crate) async fn finish(journal: &Journal) -> Result<Tail, Error> {
    let mut fold = journal.fold::<State>(Husks::stream());
    let tail = pay(journal, &mut fold).await?;
    let requested = fold.state.requested();
    for positions in requested.chunks(erasure::POSITIONS_MAX) {
        let plan = erasure::plan(&**journal.store(), journal.log(), positions.to_vec()).await?;
        if !plan.erased.is_empty() {
            let positions = plan.positions();
            erasure::rows(&**journal.store(), journal.log(), &positions).await?;
            journal.note_erasure();
        }
    }
    Ok(tail)
}

async fn pay(journal: &Journal, fold: &mut Fold<State>) -> Result<Tail, Error> {
    let store = journal.store();
    let refreshed = fold.refresh(&**store).await;
    refreshed.map_err(journal::Error::Load)?;
    let owed = fold.state.owed();
    if !owed.is_empty() {
        erasure::rows(&**store, journal.log(), &owed).await?;
        journal.note_erasure();
        for positions in owed.chunks(erasure::POSITIONS_MAX) {
            let positions = positions.to_vec();
            let done = Command::Done { positions };
            journal.execute(fold, &done, journal.own_actor()).await?;
        }
    }
    journal
        .tail()
        .map_err(|error| PlanError::Read(error).into())
}
