//! Reports and the step that follows them, in one append: each append is a wait for the disk.

use super::{
    command::Command,
    decide::{Decision, decide},
    due::Due,
    rejection::Rejection,
    state::State,
};

/// Decides each on what those before it leave. Where one of them is refused, nothing is written.
pub(super) fn series(state: &State, reports: &[Command], step: &Command, calls: bool) -> Decision {
    let mut after = state.clone();
    let mut all = Vec::new();
    for report in reports {
        let events = decide(&after, report)?;
        for event in &events {
            after = super::evolve::evolve(after, event).map_err(|_| Rejection::OutOfOrder)?;
        }
        all.extend(events);
    }
    let is_call = matches!(after.due(), Some(Due::CallModel { .. }));
    // Files are saved before a call that may destroy them, and the call is not in the log before that.
    let is_prepared = (calls || !is_call) && after.destroys_next().is_none();
    if is_prepared {
        all.extend(decide(&after, step)?);
    }
    Ok(all)
}
