//! A copy of a log erases what the log says was erased.

use std::collections::BTreeSet;

use super::{Erasable, POSITIONS_MAX, PlanError, RowsError, plan, rows};
use crate::{
    id::LogId,
    record::Recorded,
    registry::{Kind, LogEvent, Payload},
    store::Store,
};

#[derive(Debug, thiserror::Error)]
pub enum HonourError {
    #[error("looking at what was erased")]
    Plan(#[from] PlanError),
    #[error("erasing rows of the copy")]
    Rows(#[from] RowsError),
}

/// Returns how many of these events stand before the first one that says something was erased.
///
/// They are taken in before [`honour`] is called for the rest: the request is among them, and rows that
/// are gone without an event that says why pass for damage. The copy may never get that far, if the box
/// ends here and its disk goes back.
pub fn before_done(events: &[Recorded]) -> usize {
    let done = Kind::LogErasureDone.number();
    let found = events.iter().position(|event| event.kind == done);
    found.unwrap_or(events.len())
}

/// Erases what these events, which are about to be taken into the copy, say was erased: before they are,
/// so that whoever reads that it was erased does not find it. Structure stays, whatever they say.
pub async fn honour(
    store: &dyn Store,
    log: LogId,
    events: &mut [Recorded],
) -> Result<(), HonourError> {
    let mut erased = BTreeSet::new();
    for event in events.iter() {
        if event.kind == Kind::LogErasureDone.number()
            && let Ok(Some(Payload::Log(LogEvent::ErasureDone(done)))) = event.payload()
        {
            erased.extend(done.positions);
        }
    }
    if erased.is_empty() {
        return Ok(());
    }
    for event in events.iter_mut() {
        let goes = Kind::from_number(event.kind)
            .is_some_and(|kind| !matches!(kind.erasable(), Erasable::Structure { .. }));
        if goes && erased.remove(&event.pos) {
            event.body = None;
        }
    }
    let erased: Vec<u64> = erased.into_iter().collect();
    for positions in erased.chunks(POSITIONS_MAX) {
        let held = plan(store, log, positions.to_vec()).await?.positions();
        if !held.is_empty() {
            rows(store, log, &held).await?;
        }
    }
    Ok(())
}
