//! Rows of a branch: what it inherited lies in the logs before it.

use crate::{
    id::LogId,
    store::{AppendError, ReadError, Store},
};

#[derive(Debug, thiserror::Error)]
pub enum RowsError {
    #[error("finding the logs before it")]
    Line(#[from] ReadError),
    #[error("erasing rows")]
    Rows(#[from] AppendError),
}

/// Erases the payloads at these positions of a log's history, in whichever log holds them. What a log
/// may speak for was found out by the plan; see [`super::plan()`].
pub async fn rows(store: &dyn Store, log: LogId, positions: &[u64]) -> Result<(), RowsError> {
    let (mut log, mut rest) = (log, positions.to_vec());
    while !rest.is_empty() {
        let parent = store.info(log)?.parent;
        let base = parent.map_or(0, |parent| parent.pos);
        let (own, inherited): (Vec<_>, Vec<_>) = rest.into_iter().partition(|pos| *pos > base);
        if !own.is_empty() {
            store.erase(log, &own).await?;
        }
        let Some(parent) = parent else { break };
        (log, rest) = (parent.log, inherited);
    }
    Ok(())
}
