//! From events to what is known.

use cocoonbox_events::{CapsuleEvent, IllegalTransition};

use super::{State, Sweep};
use crate::snapshot::Rule;

pub(super) fn evolve(mut state: State, event: &CapsuleEvent) -> Result<State, IllegalTransition> {
    let illegal = |what: &str| IllegalTransition {
        state: what.to_owned(),
        event: event.kind().name(),
    };
    match event {
        CapsuleEvent::RuleSet(set) => {
            state.rule = Rule {
                all_hours: set.all_hours,
                hourly_days: set.hourly_days,
                daily_days: set.daily_days,
                weekly_days: set.weekly_days,
            };
        }
        CapsuleEvent::SweepRequested(asked) => {
            if state.owed.is_some() {
                return Err(illegal("a sweep is owed"));
            }
            state.owed = Some(Sweep {
                id: asked.sweep_id.clone(),
                reason: asked.reason.clone(),
                is_planned: false,
            });
        }
        CapsuleEvent::SweepPlanned(planned) => {
            let owed = state.owed.as_mut();
            let owed = owed.filter(|owed| owed.id == planned.sweep_id);
            owed.ok_or_else(|| illegal("not owed"))?.is_planned = true;
        }
        CapsuleEvent::Swept(swept) => {
            let owed = state.owed.take_if(|owed| owed.id == swept.sweep_id);
            owed.ok_or_else(|| illegal("not owed"))?;
            state.swept_ms = swept.ended_ms;
            state.bytes = swept.bytes;
            state.objects = swept.objects;
        }
        CapsuleEvent::SweepFailed(failed) => {
            let owed = state.owed.take_if(|owed| owed.id == failed.sweep_id);
            owed.ok_or_else(|| illegal("not owed"))?;
            state.swept_ms = failed.ended_ms;
        }
        // Nothing is decided by it.
        CapsuleEvent::KeyExported(_) => {}
        CapsuleEvent::Checked(checked) => {
            let at = usize::try_from(checked.slice).unwrap_or(usize::MAX);
            let of = usize::try_from(checked.of).unwrap_or(usize::MAX);
            if at >= of || of > SLICES_KNOWN {
                return Err(illegal("no such part"));
            }
            state.damaged.resize(of, 0);
            state.damaged[at] = checked.damaged;
            state.next_slice = (checked.slice + 1) % checked.of;
            state.checked_ms = checked.ended_ms;
        }
    }
    Ok(state)
}

/// Parts that a history may speak of; the number of today is smaller.
const SLICES_KNOWN: usize = 1_000;
