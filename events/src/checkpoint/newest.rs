//! The newest checkpoint of a log.

use crate::{
    limits::PAGE_EVENTS_MAX,
    store::{Checkpoint, LogInfo, ReadError, Store},
};

/// Checkpoints are about this far apart, so the newest one is usually found with one question.
const STEP: u64 = 2_048;

/// Returns the newest checkpoint that a store keeps of a log. Asks backwards from the tail in growing
/// steps, so that a log with many of them costs no more than one with few.
pub async fn newest(store: &dyn Store, log: &LogInfo) -> Result<Option<Checkpoint>, ReadError> {
    let mut step = STEP;
    loop {
        let mut after = log.tail.pos.saturating_sub(step);
        let mut found = None;
        loop {
            let mut page = store.checkpoints(log.id, after, PAGE_EVENTS_MAX).await?;
            let is_last = page.len() < PAGE_EVENTS_MAX;
            if let Some(last) = page.pop() {
                after = last.size;
                found = Some(last);
            }
            if is_last {
                break;
            }
        }
        if found.is_some() || step >= log.tail.pos {
            return Ok(found);
        }
        step = step.saturating_mul(8);
    }
}
