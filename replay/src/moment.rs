//! From a time to a position.

use std::sync::Arc;

use cocoonbox_events::{LogId, Store};

use crate::error::Error;

/// Returns the last position recorded at or before `at_us` (microseconds since the epoch); 0 if there
/// is none.
///
/// Times never go back within a log, so this looks at a few dozen events, however long the log is. A
/// log that was tampered with may have them in another order; then the answer is some position.
pub async fn position_at(store: &Arc<dyn Store>, log: LogId, at_us: i64) -> Result<u64, Error> {
    let (mut before, mut behind) = (0, store.tail(log).map_err(Error::read(log))?.pos + 1);
    // Everything up to `before` is early enough, everything from `behind` on is too late.
    while behind - before > 1 {
        let middle = before + (behind - before) / 2;
        let page = store
            .read(log, middle - 1, 1)
            .await
            .map_err(Error::read(log))?;
        match page.events.first() {
            Some(event) if event.recorded_us <= at_us => before = middle,
            _ => behind = middle,
        }
    }
    Ok(before)
}
