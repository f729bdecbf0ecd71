//! Any aggregate of the house, by the name of its stream.

use std::fmt::Debug;

use cocoonbox_commands::{
    agent, boxes, capsule, control, desktop, directory, exec, routine, share, snapshot, user,
};
use cocoonbox_events::{Aggregate, Payload, Recorded, StreamName};
use serde_json::{Value, json};

use crate::error::Error;

/// One aggregate, folded.
#[derive(Clone, Debug, PartialEq)]
pub enum Known {
    Directory(directory::State),
    User(user::State),
    Box(Box<boxes::State>),
    Control(control::State),
    Exec(exec::State),
    Desktop(desktop::State),
    Routine(Box<routine::State>),
    Share(share::State),
    Snapshot(snapshot::State),
    Capsule(capsule::State),
    Agent(Box<agent::State>),
}

impl Known {
    /// Returns the empty aggregate whose events this stream holds; `None` if it holds another's.
    pub fn of(stream: &StreamName) -> Option<Self> {
        let noun = stream.as_str().split('/').next().unwrap_or_default();
        Some(match noun {
            "directory" => Self::Directory(directory::State::default()),
            "user" => Self::User(user::State::default()),
            "box" => Self::Box(Box::default()),
            "control" => Self::Control(control::State::default()),
            "exec" => Self::Exec(exec::State::default()),
            "desktop" => Self::Desktop(desktop::State::default()),
            "routine" => Self::Routine(Box::default()),
            "share" => Self::Share(share::State::default()),
            "snapshot" => Self::Snapshot(snapshot::State::default()),
            "capsule" => Self::Capsule(capsule::State::default()),
            "agent" => Self::Agent(Box::default()),
            _ => return None,
        })
    }

    /// Takes one event in. An erased payload leaves the state as it is.
    pub fn take(&mut self, event: &Recorded) -> Result<(), Error> {
        let payload = event.payload().map_err(|source| Error::Decode {
            log: event.log,
            pos: event.pos,
            source,
        })?;
        match payload {
            Some(payload) => self.apply(event, payload),
            None => Ok(()),
        }
    }

    /// Takes one event in with the payload that it has, or with what is left of it.
    pub fn apply(&mut self, event: &Recorded, payload: Payload) -> Result<(), Error> {
        match self {
            Self::Directory(state) => take(state, event, payload),
            Self::User(state) => take(state, event, payload),
            Self::Box(state) => take(state.as_mut(), event, payload),
            Self::Control(state) => take(state, event, payload),
            Self::Exec(state) => take(state, event, payload),
            Self::Desktop(state) => take(state, event, payload),
            Self::Routine(state) => take(state.as_mut(), event, payload),
            Self::Share(state) => take(state, event, payload),
            Self::Snapshot(state) => take(state, event, payload),
            Self::Capsule(state) => take(state, event, payload),
            Self::Agent(state) => take(state.as_mut(), event, payload),
        }
    }

    /// Whether nothing can follow any more, so that the state need not be kept.
    pub fn has_ended(&self) -> bool {
        match self {
            Self::Exec(state) => state.exited.is_some(),
            Self::Directory(_)
            | Self::User(_)
            | Self::Box(_)
            | Self::Control(_)
            | Self::Desktop(_)
            | Self::Routine(_)
            | Self::Share(_)
            | Self::Snapshot(_)
            | Self::Capsule(_)
            | Self::Agent(_) => false,
        }
    }

    /// Returns everything that is known, for people.
    pub fn text(&self) -> String {
        match self {
            Self::Directory(state) => format!("{state:#?}"),
            Self::User(state) => format!("{state:#?}"),
            Self::Box(state) => format!("{state:#?}"),
            Self::Control(state) => format!("{state:#?}"),
            Self::Exec(state) => format!("{state:#?}"),
            Self::Desktop(state) => format!("{state:#?}"),
            Self::Routine(state) => format!("{state:#?}"),
            Self::Share(state) => format!("{state:#?}"),
            Self::Snapshot(state) => format!("{state:#?}"),
            Self::Capsule(state) => format!("{state:#?}"),
            Self::Agent(state) => format!("{state:#?}"),
        }
    }

    /// Returns what matters of it, for scripts and for comparing two moments.
    pub fn json(&self) -> Value {
        match self {
            Self::Directory(state) => {
                let users = state.users().map(|user| {
                    let log = user.account_log.to_string();
                    let of = json!({"name": user.name, "account_log": log, "admin": user.admin});
                    (user.user_id.clone(), of)
                });
                json!({ "users": Value::Object(users.collect()) })
            }
            Self::User(state) => {
                let tokens = state.tokens.iter().map(|(id, token)| {
                    (
                        id.clone(),
                        json!({"label": token.label, "revoked": token.revoked}),
                    )
                });
                json!({
                    "user_id": state.user_id,
                    "name": state.name,
                    "admin": state.admin,
                    "deleted": state.deleted,
                    "tokens": Value::Object(tokens.collect()),
                })
            }
            Self::Box(state) => box_json(state),
            Self::Control(state) => json!({
                "fence": state.fence,
                "user_id": state.lease.as_ref().map(|lease| &lease.user_id),
                "label": state.lease.as_ref().map(|lease| &lease.label),
                "until_us": state.lease.as_ref().map(|lease| lease.until_us),
            }),
            Self::Desktop(state) => json!({
                "wake_id": state.wake_id,
                "ready": state.is_ready(),
                "handed_back": state.handed_back.values().map(|back| json!({
                    "display": back.display,
                    "fence": back.fence,
                })).collect::<Vec<_>>(),
                "displays": &state.displays,
                "pictured": state.pictured.as_ref().and_then(|one| one.image.as_ref()).map(|image| &image.blob),
                "down": state.parts.iter().filter(|part| !part.up).map(|part| &part.name).collect::<Vec<_>>(),
            }),
            Self::Routine(state) => json!({
                "routine_id": state.routine_id,
                "name": state.definition.name,
                "box_id": state.definition.box_id,
                "agent_id": state.agent_id,
                "life": format!("{:?}", state.life).to_lowercase(),
                "paused": state.paused.map(|reason| reason.as_str_name()),
                "next_us": state.next_us,
                "run_id": state.run.as_ref().map(|run| &run.run_id),
                "failures": state.failures,
                "runs": state.runs,
            }),
            Self::Share(state) => {
                let shares = state.shares().map(|(id, share)| {
                    let of = json!({
                        "label": share.label,
                        "for_user": share.for_user,
                        "expires_us": share.expires_us,
                        "end": share.end.map(|end| format!("{end:?}").to_lowercase()),
                        "opened": share.opened,
                    });
                    (id.to_owned(), of)
                });
                json!({ "shares": Value::Object(shares.collect()) })
            }
            Self::Snapshot(state) => json!({
                "snapshots": state.kept.keys().collect::<Vec<_>>(),
                "pinned": state.pinned().collect::<Vec<_>>(),
                "saves_owed": state.saves.iter().map(|save| &save.id).collect::<Vec<_>>(),
                "restores_owed": state.restores.iter().map(|one| &one.id).collect::<Vec<_>>(),
            }),
            Self::Capsule(state) => json!({
                "rule": {
                    "all_hours": state.rule.all_hours,
                    "hourly_days": state.rule.hourly_days,
                    "daily_days": state.rule.daily_days,
                    "weekly_days": state.rule.weekly_days,
                },
                "sweep_owed": state.owed.as_ref().map(|sweep| &sweep.id),
                "bytes": state.bytes,
                "swept_ms": state.swept_ms,
                "checked_ms": state.checked_ms,
                "damaged": state.damaged,
            }),
            Self::Exec(state) => json!({
                "exec_id": state.started.as_ref().map(|started| &started.exec_id),
                "argv": state.started.as_ref().map(|started| &started.argv),
                "running": state.is_running(),
                "stdout_bytes": state.stdout_bytes,
                "stderr_bytes": state.stderr_bytes,
                "reason": state.exited.as_ref().map(|exited| exited.reason().as_str_name()),
                "code": state.exited.as_ref().map(|exited| exited.code),
            }),
            Self::Agent(state) => agent_json(state),
        }
    }
}

fn box_json(state: &boxes::State) -> Value {
    let (reason, detail) = match &state.phase {
        boxes::Phase::Failed { reason, detail, .. } => (Some(reason), Some(detail)),
        _ => (None, None),
    };
    json!({
        "box_id": state.box_id,
        "name": state.name,
        "flavor": state.flavor,
        "user_id": state.user_id,
        "box_log": state.box_log.map(|log| log.to_string()),
        "phase": state.phase.name(),
        "operation": state.current_operation(),
        "wake": state.wake(),
        "reason": reason,
        "detail": detail,
        "image": state.image,
        "agent_version": state.agent_version,
        "memory_kept": state.memory_kept,
        "anchored": state.anchored,
    })
}

fn agent_json(state: &agent::State) -> Value {
    let uses = state
        .turn
        .as_ref()
        .map(agent::Turn::uses)
        .unwrap_or_default();
    let tools = uses.iter().map(|tool| {
        json!({"tool_call_id": tool.tool_call_id, "name": tool.name, "state": format!("{:?}", tool.state)})
    });
    json!({
        "agent_id": state.agent_id,
        "name": state.name,
        "model": state.model().model,
        "approval": state.rules.text(),
        "steps_max": state.steps_max,
        "mood": state.mood().name(),
        "queued": state.queued.iter().map(|prompt| &prompt.prompt_id).collect::<Vec<_>>(),
        "turn": state.turn_id(),
        "stage": state.turn.as_ref().map(|turn| turn.stage.name()),
        "steps": state.turn.as_ref().map(|turn| turn.steps),
        "cancelling": state.is_cancelling(),
        "tools": tools.collect::<Vec<_>>(),
        "conversation_entries": state.conversation_len(),
        "branch": state.branch_id(),
        "branches": state.branch_ids(),
        "tokens_used": state.tokens_used,
        "parent": state.parent.as_ref().map(|parent| &parent.agent_id),
    })
}

fn take<A: Aggregate + Debug>(
    state: &mut A,
    event: &Recorded,
    payload: Payload,
) -> Result<(), Error> {
    let Some(event_of) = A::pick(payload) else {
        return Ok(());
    };
    let before = std::mem::take(state);
    *state = before.evolve(&event_of).map_err(|illegal| Error::Illegal {
        stream: event.stream.clone(),
        pos: event.pos,
        event: illegal.event,
        state: illegal.state,
    })?;
    Ok(())
}
