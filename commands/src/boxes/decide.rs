//! From commands to events.

use cocoonbox_events::{BoxEvent, ChainHash, LogId};
use cocoonbox_proto::log::v1 as log;

use super::{Command, Origin, Phase, Rejection, State};
use crate::{bounded, models, name::check_label};

type Decision = Result<Vec<BoxEvent>, Rejection>;

pub(super) fn decide(state: &State, command: &Command) -> Decision {
    match command {
        Command::Ensure {
            box_id,
            flavor,
            name,
            box_log,
            user_id,
            operation_id,
        } => {
            not_empty("box_id", box_id)?;
            not_empty("operation_id", operation_id)?;
            if state.exists() {
                if state.box_id != *box_id {
                    let (actual, asked) = (state.box_id.clone(), box_id.clone());
                    return Err(Rejection::OtherBox { actual, asked });
                }
                return ensure(state, operation_id);
            }
            let created = log::BoxCreated {
                box_id: box_id.clone(),
                flavor: *flavor,
                name: name.clone(),
                box_log: box_log.as_bytes().to_vec(),
                user_id: user_id.clone(),
                origin: None,
            };
            create(created, operation_id)
        }
        Command::Fork {
            box_id,
            flavor,
            name,
            box_log,
            user_id,
            origin,
            models,
            operation_id,
        } => {
            not_empty("box_id", box_id)?;
            not_empty("operation_id", operation_id)?;
            if state.exists() {
                return Err(Rejection::Exists);
            }
            let created = log::BoxCreated {
                box_id: box_id.clone(),
                flavor: *flavor,
                name: name.clone(),
                box_log: box_log.as_bytes().to_vec(),
                user_id: user_id.clone(),
                origin: Some(written(origin)),
            };
            let mut events = create(created, operation_id)?;
            if *models != log::ModelRoles::default() {
                events.insert(1, models_set(models)?);
            }
            Ok(events)
        }
        Command::Hibernate {
            operation_id,
            reason,
        } => {
            not_empty("operation_id", operation_id)?;
            hibernate(state, operation_id, reason)
        }
        Command::Delete { operation_id } => {
            not_empty("operation_id", operation_id)?;
            match existing(state)? {
                Phase::Deleting { .. } | Phase::Deleted => Ok(Vec::new()),
                _ => Ok(vec![BoxEvent::DeleteRequested(log::BoxDeleteRequested {
                    operation_id: operation_id.clone(),
                })]),
            }
        }
        Command::Rename { name } => {
            check_label(name)?;
            match existing(state)? {
                Phase::Deleted => Err(Rejection::Deleted),
                _ if state.name == *name => Ok(Vec::new()),
                _ => Ok(vec![BoxEvent::Renamed(log::BoxRenamed {
                    name: name.clone(),
                })]),
            }
        }
        Command::SetModels { models } => match existing(state)? {
            Phase::Deleting { .. } => Err(Rejection::BeingDeleted),
            Phase::Deleted => Err(Rejection::Deleted),
            _ if state.models == *models => Ok(Vec::new()),
            _ => Ok(vec![models_set(models)?]),
        },
        Command::KeepAwake { until_ms } => match existing(state)? {
            Phase::Deleting { .. } => Err(Rejection::BeingDeleted),
            Phase::Deleted => Err(Rejection::Deleted),
            _ if *until_ms < 0 => Err(Rejection::BadTime {
                until_ms: *until_ms,
            }),
            _ if state.awake_until_ms == *until_ms => Ok(Vec::new()),
            _ => Ok(vec![BoxEvent::KeptAwake(log::BoxKeptAwake {
                until_ms: *until_ms,
            })]),
        },
        Command::Starting { wake_id, image } => starting(state, wake_id, image),
        Command::Running {
            wake_id,
            agent_version,
        } => running(state, wake_id, agent_version),
        Command::Hibernated {
            memory_kept,
            quiesced,
        } => match &state.phase {
            Phase::Hibernating { operation, .. } => {
                Ok(vec![BoxEvent::Hibernated(log::BoxHibernated {
                    operation_id: operation.clone(),
                    memory_kept: *memory_kept,
                    quiesced: *quiesced,
                })])
            }
            phase => stale("hibernated", phase),
        },
        Command::MachineLost { wake_id, detail } => match &state.phase {
            Phase::Running { wake } if wake == wake_id => {
                Ok(vec![BoxEvent::MachineLost(log::BoxMachineLost {
                    wake_id: wake_id.clone(),
                    detail: bounded::detail(detail),
                })])
            }
            phase => stale("machine_lost", phase),
        },
        Command::MemoryExhausted { wake_id, killed } => match &state.phase {
            Phase::Running { wake } if wake == wake_id && *killed <= state.memory_kills => {
                Ok(Vec::new())
            }
            Phase::Running { wake } if wake == wake_id => {
                Ok(vec![BoxEvent::MemoryExhausted(log::BoxMemoryExhausted {
                    wake_id: wake_id.clone(),
                    killed: *killed,
                })])
            }
            phase => stale("memory_exhausted", phase),
        },
        Command::Failed { reason, detail } => failed(state, reason, detail),
        Command::Deleted => match &state.phase {
            Phase::Deleting { operation, .. } => Ok(vec![BoxEvent::Deleted(log::BoxDeleted {
                operation_id: operation.clone(),
            })]),
            Phase::Deleted => Ok(Vec::new()),
            phase => stale("deleted", phase),
        },
        Command::Anchor {
            box_log,
            pos,
            chain,
        } => anchor(state, *box_log, *pos, *chain),
        Command::LogRewound {
            new_log,
            parent,
            left_pos,
            reason,
        } => {
            match existing(state)? {
                Phase::Deleting { .. } => return Err(Rejection::BeingDeleted),
                Phase::Deleted => return Err(Rejection::Deleted),
                // Told twice.
                _ if state.box_log == Some(*new_log) && state.parent == Some(*parent) => {
                    return Ok(Vec::new());
                }
                _ if state.box_log != Some(parent.log) => {
                    return Err(Rejection::OtherLog { asked: parent.log });
                }
                _ => {}
            }
            Ok(vec![BoxEvent::LogRewound(log::BoxLogRewound {
                old_log: parent.log.as_bytes().to_vec(),
                new_log: new_log.as_bytes().to_vec(),
                common: parent.pos,
                chain: parent.chain.0.to_vec(),
                left_pos: *left_pos,
                reason: reason.clone(),
            })])
        }
    }
}

fn create(created: log::BoxCreated, operation_id: &str) -> Decision {
    not_empty("user_id", &created.user_id)?;
    check_label(&created.name)?;
    Ok(vec![
        BoxEvent::Created(created),
        ensure_requested(operation_id),
    ])
}

fn models_set(models: &log::ModelRoles) -> Result<BoxEvent, Rejection> {
    models::check(models)?;
    Ok(BoxEvent::ModelsSet(log::BoxModelsSet {
        models: Some(models.clone()),
    }))
}

fn written(origin: &Origin) -> log::BoxOrigin {
    log::BoxOrigin {
        box_id: origin.box_id.clone(),
        log: origin.at.log.as_bytes().to_vec(),
        pos: origin.at.pos,
        chain: origin.at.chain.0.to_vec(),
        snapshot_id: origin.snapshot_id.clone().unwrap_or_default(),
    }
}

fn ensure(state: &State, operation: &str) -> Decision {
    let wake_requested = || {
        vec![BoxEvent::WakeRequested(log::BoxWakeRequested {
            operation_id: operation.to_owned(),
        })]
    };
    match &state.phase {
        Phase::Absent | Phase::Failed { .. } => Ok(vec![ensure_requested(operation)]),
        Phase::Hibernated
        | Phase::Hibernating {
            then_wake: None, ..
        } => Ok(wake_requested()),
        Phase::Starting { .. }
        | Phase::Running { .. }
        | Phase::Hibernating {
            then_wake: Some(_), ..
        } => Ok(Vec::new()),
        Phase::Deleting { .. } => Err(Rejection::BeingDeleted),
        Phase::Deleted => Err(Rejection::Deleted),
    }
}

fn hibernate(state: &State, operation: &str, reason: &str) -> Decision {
    match existing(state)? {
        Phase::Running { .. }
        | Phase::Starting { .. }
        | Phase::Hibernating {
            then_wake: Some(_), ..
        } => Ok(vec![BoxEvent::HibernateRequested(
            log::BoxHibernateRequested {
                operation_id: operation.to_owned(),
                reason: reason.to_owned(),
            },
        )]),
        Phase::Hibernating {
            then_wake: None, ..
        }
        | Phase::Hibernated => Ok(Vec::new()),
        phase @ (Phase::Absent | Phase::Failed { .. }) => Err(Rejection::NotRunning {
            phase: phase.name(),
        }),
        Phase::Deleting { .. } => Err(Rejection::BeingDeleted),
        Phase::Deleted => Err(Rejection::Deleted),
    }
}

fn starting(state: &State, wake_id: &str, image: &str) -> Decision {
    not_empty("wake_id", wake_id)?;
    match &state.phase {
        Phase::Starting {
            wake: Some(wake), ..
        } if wake == wake_id => Ok(Vec::new()),
        Phase::Starting { operation, .. } if state.last_wake.as_deref() != Some(wake_id) => {
            Ok(vec![BoxEvent::Starting(log::BoxStarting {
                operation_id: operation.clone(),
                wake_id: wake_id.to_owned(),
                image: image.to_owned(),
            })])
        }
        phase => stale("starting", phase),
    }
}

fn running(state: &State, wake_id: &str, agent_version: &str) -> Decision {
    match &state.phase {
        Phase::Starting {
            operation,
            wake: Some(wake),
        } if wake == wake_id => Ok(vec![BoxEvent::Running(log::BoxRunning {
            operation_id: operation.clone(),
            wake_id: wake_id.to_owned(),
            agent_version: agent_version.to_owned(),
        })]),
        Phase::Running { wake } if wake == wake_id => Ok(Vec::new()),
        phase => stale("running", phase),
    }
}

fn failed(state: &State, reason: &str, detail: &str) -> Decision {
    let failed = |operation: &str| {
        BoxEvent::Failed(log::BoxFailed {
            operation_id: operation.to_owned(),
            reason: reason.to_owned(),
            detail: bounded::detail(detail),
        })
    };
    match &state.phase {
        Phase::Starting { operation, .. } => Ok(vec![failed(operation)]),
        // Each operation gets its own ending, the start that waits first.
        Phase::Hibernating {
            operation,
            then_wake,
            ..
        } => Ok(then_wake
            .iter()
            .chain([operation])
            .map(|operation| failed(operation))
            .collect()),
        phase => stale("failed", phase),
    }
}

fn anchor(state: &State, box_log: LogId, pos: u64, chain: ChainHash) -> Decision {
    match existing(state)? {
        Phase::Deleted => return stale("anchor", &state.phase),
        _ if state.box_log != Some(box_log) => return Err(Rejection::OtherLog { asked: box_log }),
        _ => {}
    }
    if pos == state.anchored && state.anchored_chain.is_some_and(|known| known != chain) {
        return Err(Rejection::AnchorDiverged { pos });
    }
    if pos <= state.anchored {
        return Ok(Vec::new());
    }
    Ok(vec![BoxEvent::LogAnchored(log::BoxLogAnchored {
        box_log: box_log.as_bytes().to_vec(),
        pos,
        chain: chain.0.to_vec(),
    })])
}

fn ensure_requested(operation: &str) -> BoxEvent {
    BoxEvent::EnsureRequested(log::BoxEnsureRequested {
        operation_id: operation.to_owned(),
    })
}

fn existing(state: &State) -> Result<&Phase, Rejection> {
    if state.exists() {
        Ok(&state.phase)
    } else {
        Err(Rejection::NotFound)
    }
}

fn not_empty(field: &'static str, value: &str) -> Result<(), Rejection> {
    if value.is_empty() {
        Err(Rejection::Empty { field })
    } else {
        Ok(())
    }
}

fn stale(report: &'static str, phase: &Phase) -> Decision {
    Err(Rejection::Stale {
        report,
        phase: phase.name(),
    })
}
