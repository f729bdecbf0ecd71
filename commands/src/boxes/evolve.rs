//! From events to state.

use cocoonbox_events::{BoxEvent, ChainHash, IllegalTransition, LogId, Parent};

use super::{Origin, Phase, State};

type Evolved = Result<State, IllegalTransition>;

pub(super) fn evolve(mut state: State, event: &BoxEvent) -> Evolved {
    match event {
        BoxEvent::Created(created) => {
            let box_log = LogId::from_slice(&created.box_log);
            let origin = created.origin.as_ref().map(|origin| {
                let at = parent(&origin.log, origin.pos, &origin.chain)?;
                let snapshot_id = Some(origin.snapshot_id.clone());
                Some(Origin {
                    box_id: origin.box_id.clone(),
                    at,
                    snapshot_id: snapshot_id.filter(|id| !id.is_empty()),
                })
            });
            let unusable = box_log.is_none() || origin == Some(None);
            if state.exists() || created.box_id.is_empty() || unusable {
                return illegal(&state, event);
            }
            let origin = origin.flatten();
            return Ok(State {
                box_id: created.box_id.clone(),
                flavor: created.flavor,
                name: created.name.clone(),
                box_log,
                user_id: created.user_id.clone(),
                parent: origin.as_ref().map(|origin| origin.at),
                origin,
                ..State::default()
            });
        }
        BoxEvent::Renamed(renamed) => {
            if !state.exists() || state.phase == Phase::Deleted {
                return illegal(&state, event);
            }
            state.name.clone_from(&renamed.name);
            return Ok(state);
        }
        BoxEvent::ModelsSet(set) => {
            let is_over = matches!(state.phase, Phase::Deleting { .. } | Phase::Deleted);
            if !state.exists() || is_over {
                return illegal(&state, event);
            }
            state.models = set.models.clone().unwrap_or_default();
            return Ok(state);
        }
        BoxEvent::KeptAwake(kept) => {
            let is_over = matches!(state.phase, Phase::Deleting { .. } | Phase::Deleted);
            if !state.exists() || is_over || kept.until_ms < 0 {
                return illegal(&state, event);
            }
            state.awake_until_ms = kept.until_ms;
            return Ok(state);
        }
        BoxEvent::MemoryExhausted(exhausted) => {
            let wake = exhausted.wake_id.clone();
            if state.phase != (Phase::Running { wake }) || exhausted.killed <= state.memory_kills {
                return illegal(&state, event);
            }
            state.memory_kills = exhausted.killed;
            return Ok(state);
        }
        BoxEvent::LogAnchored(anchored) => {
            let ours = LogId::from_slice(&anchored.box_log) == state.box_log;
            let chain = ChainHash::from_slice(&anchored.chain);
            let fits = state.exists() && state.phase != Phase::Deleted && ours;
            if !fits || anchored.pos <= state.anchored || chain.is_none() {
                return illegal(&state, event);
            }
            state.anchored = anchored.pos;
            state.anchored_chain = chain;
            return Ok(state);
        }
        BoxEvent::LogRewound(rewound) => {
            let new_log = LogId::from_slice(&rewound.new_log);
            let parent = parent(&rewound.old_log, rewound.common, &rewound.chain);
            let ours = parent.is_some_and(|parent| state.box_log == Some(parent.log));
            let fits = state.exists() && state.phase != Phase::Deleted && ours;
            if !fits || new_log.is_none() || new_log == state.box_log {
                return illegal(&state, event);
            }
            state.box_log = new_log;
            state.parent = parent;
            state.anchored = state.anchored.min(rewound.common);
            state.anchored_chain = None;
            return Ok(state);
        }
        BoxEvent::EnsureRequested(_)
        | BoxEvent::WakeRequested(_)
        | BoxEvent::Starting(_)
        | BoxEvent::Running(_)
        | BoxEvent::HibernateRequested(_)
        | BoxEvent::Hibernated(_)
        | BoxEvent::MachineLost(_)
        | BoxEvent::Failed(_)
        | BoxEvent::DeleteRequested(_)
        | BoxEvent::Deleted(_) => {}
    }
    let Some(phase) = phase_after(&state, event) else {
        return illegal(&state, event);
    };
    if let BoxEvent::Starting(starting) = event {
        state.image.clone_from(&starting.image);
        state.last_wake = Some(starting.wake_id.clone());
        state.memory_kills = 0;
    }
    if let BoxEvent::Running(_) = event {
        state.quiesced = false;
    }
    if let BoxEvent::Running(running) = event {
        state.agent_version.clone_from(&running.agent_version);
    }
    if let BoxEvent::Hibernated(hibernated) = event {
        state.memory_kept = hibernated.memory_kept;
        state.quiesced = hibernated.quiesced;
    }
    if let BoxEvent::MachineLost(_) = event {
        state.memory_kept = false;
    }
    state.phase = phase;
    Ok(state)
}

/// The table of phases: what follows on this event, `None` where it cannot follow.
fn phase_after(state: &State, event: &BoxEvent) -> Option<Phase> {
    if !state.exists() {
        return None;
    }
    match (&state.phase, event) {
        (Phase::Absent | Phase::Failed { .. }, BoxEvent::EnsureRequested(e)) => {
            Some(Phase::Starting { operation: e.operation_id.clone(), wake: None })
        }
        (Phase::Hibernated, BoxEvent::WakeRequested(e)) => {
            Some(Phase::Starting { operation: e.operation_id.clone(), wake: None })
        }
        (
            Phase::Hibernating { operation, wake, then_wake: None },
            BoxEvent::WakeRequested(e),
        ) => Some(Phase::Hibernating {
            operation: operation.clone(),
            wake: wake.clone(),
            then_wake: Some(e.operation_id.clone()),
        }),
        (Phase::Starting { operation, .. }, BoxEvent::Starting(e))
            if *operation == e.operation_id
                && state.last_wake.as_ref() != Some(&e.wake_id)
                && !e.wake_id.is_empty() =>
        {
            Some(Phase::Starting { operation: operation.clone(), wake: Some(e.wake_id.clone()) })
        }
        (Phase::Starting { operation, wake: Some(wake) }, BoxEvent::Running(e))
            if *operation == e.operation_id && *wake == e.wake_id =>
        {
            Some(Phase::Running { wake: wake.clone() })
        }
        (
            Phase::Running { .. }
            | Phase::Starting { .. }
            | Phase::Hibernating { then_wake: Some(_), .. },
            BoxEvent::HibernateRequested(e),
        ) => Some(Phase::Hibernating {
            operation: e.operation_id.clone(),
            wake: state.wake().map(str::to_owned),
            then_wake: None,
        }),
        (Phase::Hibernating { operation, then_wake, .. }, BoxEvent::Hibernated(e))
            if *operation == e.operation_id =>
        {
            Some(match then_wake {
                Some(operation) => Phase::Starting { operation: operation.clone(), wake: None },
                None => Phase::Hibernated,
            })
        }
        (Phase::Running { wake }, BoxEvent::MachineLost(e)) if *wake == e.wake_id => {
            Some(Phase::Hibernated)
        }
        (
            Phase::Hibernating { operation, wake, then_wake: Some(then_wake) },
            BoxEvent::Failed(e),
        ) if *then_wake == e.operation_id => Some(Phase::Hibernating {
            operation: operation.clone(),
            wake: wake.clone(),
            then_wake: None,
        }),
        (
            Phase::Starting { operation, .. }
            | Phase::Hibernating { operation, then_wake: None, .. },
            BoxEvent::Failed(e),
        ) if *operation == e.operation_id => Some(Phase::Failed {
            operation: operation.clone(),
            reason: e.reason.clone(),
            detail: e.detail.clone(),
        }),
        (
            Phase::Starting { .. }
            | Phase::Running { .. }
            | Phase::Hibernating { .. }
            | Phase::Hibernated
            | Phase::Failed { .. }
            // Only between `box.created` and the request that is written with it.
            | Phase::Absent,
            BoxEvent::DeleteRequested(e),
        ) => Some(Phase::Deleting {
            operation: e.operation_id.clone(),
            wake: state.wake().map(str::to_owned),
        }),
        (Phase::Deleting { operation, .. }, BoxEvent::Deleted(e))
            if *operation == e.operation_id =>
        {
            Some(Phase::Deleted)
        }
        _ => None,
    }
}

fn parent(log: &[u8], pos: u64, chain: &[u8]) -> Option<Parent> {
    Some(Parent {
        log: LogId::from_slice(log)?,
        pos,
        chain: ChainHash::from_slice(chain)?,
    })
}

fn illegal(state: &State, event: &BoxEvent) -> Evolved {
    Err(IllegalTransition {
        state: state.phase.name().to_owned(),
        event: event.kind().name(),
    })
}
