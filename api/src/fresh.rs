//! Reading what another api process has just written.
//!
//! What a store says of tails without being asked is as of its last doorbell: with several processes a moment
//! old, and up to a second where there are no doorbells.

use cocoonbox_events::{LogId, OffsetKey, ReadError, Store};

/// Returns the key of a log's last event as of this moment.
pub async fn tail(store: &dyn Store, log: LogId) -> Result<OffsetKey, ReadError> {
    // Before a store calls a position ahead of its tail, it looks where the tail is.
    match store.chain_at(log, u64::MAX).await {
        Ok(_) | Err(ReadError::AheadOfTail { .. }) => {}
        Err(error) => return Err(error),
    }
    let tail = store.tail(log)?;
    Ok(OffsetKey::new(tail.log, tail.pos, tail.chain))
}
