//! From commands to events.

use cocoonbox_events::AgentEvent;
use cocoonbox_proto::log::v1::{
    self as log, AgentModelFailed, AgentModelReplied, agent_tool_finished::Outcome,
};

use super::{
    command::{Command, PROMPT_BYTES_MAX, QUEUE_PROMPTS_MAX, Rejection},
    next::Due,
    report::{self, finished},
    state::{Life, STEPS_DEFAULT, State},
    tools,
    turn::{ToolUse, UseState},
};
use crate::{bounded, name::check_label};

/// Events in one step: an append takes 256.
const STEP_EVENTS_MAX: usize = 100;

/// Ids that clients choose: all that wait are named in one event.
const ID_BYTES_MAX: usize = 128;
/// The name of a model is in every call.
const MODEL_BYTES_MAX: usize = 256;

const CANCELLED: &str = "not run: the turn was cancelled";
const DENIED: &str = "not run: a person denied this call";

pub(super) type Decision = Result<Vec<AgentEvent>, Rejection>;

pub(super) fn decide(state: &State, command: &Command) -> Decision {
    if let Command::Create {
        agent_id,
        name,
        model,
        approval,
        steps_max,
    } = command
    {
        return create(state, agent_id, name, model, *approval, *steps_max);
    }
    if state.life == Life::Absent {
        return Err(Rejection::NotFound);
    }
    match command {
        // Handled above.
        Command::Create { .. } => Ok(Vec::new()),
        Command::Rename { name } => {
            open(state)?;
            check_label(name)?;
            if state.name == *name {
                return Ok(Vec::new());
            }
            Ok(vec![AgentEvent::Renamed(log::AgentRenamed {
                name: name.clone(),
            })])
        }
        Command::Close => match state.life {
            Life::Absent => Err(Rejection::NotFound),
            Life::Closed => Ok(Vec::new()),
            Life::Open if state.turn.is_some() || !state.queued.is_empty() => Err(Rejection::Busy),
            Life::Open => Ok(vec![AgentEvent::Closed(log::AgentClosed {})]),
        },
        Command::Prompt { prompt_id, text } => prompt(state, prompt_id, text),
        Command::Advance {
            turn_id,
            call_id,
            approval_id,
        } => advance(state, turn_id, call_id, approval_id),
        Command::Streamed { call_id, chunks } => report::streamed(state, call_id, chunks),
        Command::Replied {
            call_id,
            blocks,
            stop,
            vendor_stop,
            usage,
            vendor_request_id,
        } => {
            let of = AgentModelReplied {
                call_id: call_id.clone(),
                blocks: blocks.clone(),
                stop: (*stop).into(),
                vendor_stop: vendor_stop.clone(),
                usage: Some(*usage),
                vendor_request_id: vendor_request_id.clone(),
            };
            report::replied(state, of)
        }
        Command::ModelFailed {
            call_id,
            reason,
            detail,
            retryable,
            retry_after_ms,
        } => {
            let of = AgentModelFailed {
                call_id: call_id.clone(),
                reason: (*reason).into(),
                detail: detail.clone(),
                retryable: *retryable,
                retry_after_ms: *retry_after_ms,
            };
            report::model_failed(state, of)
        }
        Command::ToolFinished {
            tool_call_id,
            outcome,
            content,
            exec_id,
        } => report::tool_finished(state, tool_call_id, *outcome, content, exec_id),
        Command::Approve {
            approval_id,
            allowed,
            comment,
        } => approve(state, approval_id, *allowed, comment),
        Command::Cancel { turn_id } => cancel(state, turn_id),
        Command::Restarted => Ok(report::restarted(state)),
    }
}

fn create(
    state: &State,
    agent_id: &str,
    name: &str,
    model: &log::ModelChoice,
    approval: log::ApprovalPolicy,
    steps_max: u32,
) -> Decision {
    not_empty("agent_id", agent_id)?;
    if state.life != Life::Absent {
        if state.agent_id == agent_id {
            return Ok(Vec::new());
        }
        let (actual, asked) = (state.agent_id.clone(), agent_id.to_owned());
        return Err(Rejection::OtherAgent { actual, asked });
    }
    check_label(name)?;
    not_empty("model", &model.model)?;
    fits("model", model.model.len(), MODEL_BYTES_MAX)?;
    if model.wire() == log::Wire::Unspecified {
        return Err(Rejection::Empty {
            field: "model.wire",
        });
    }
    Ok(vec![AgentEvent::Created(log::AgentCreated {
        agent_id: agent_id.to_owned(),
        name: name.to_owned(),
        model: Some(model.clone()),
        approval: approval.into(),
        steps_max: if steps_max == 0 {
            STEPS_DEFAULT
        } else {
            steps_max
        },
    })])
}

fn prompt(state: &State, prompt_id: &str, text: &str) -> Decision {
    open(state)?;
    not_empty("prompt_id", prompt_id)?;
    fits("prompt_id", prompt_id.len(), ID_BYTES_MAX)?;
    not_empty("text", text.trim())?;
    fits("text", text.len(), PROMPT_BYTES_MAX)?;
    if state.prompt_ids.contains(prompt_id) {
        return Ok(Vec::new());
    }
    if state.queued.len() >= QUEUE_PROMPTS_MAX {
        return Err(Rejection::QueueFull);
    }
    Ok(vec![AgentEvent::PromptReceived(log::AgentPromptReceived {
        prompt_id: prompt_id.to_owned(),
        text: text.to_owned(),
    })])
}

fn advance(state: &State, turn_id: &str, call_id: &str, approval_id: &str) -> Decision {
    let Some(due) = state.due() else {
        return Ok(Vec::new());
    };
    let Some(turn) = &state.turn else {
        return Ok(vec![turn_started(state, turn_id)?]);
    };
    let uses = turn.uses();
    Ok(match due {
        Due::StartTurn => vec![turn_started(state, turn_id)?],
        Due::CallModel { attempt } => {
            fresh(state, "call_id", call_id)?;
            vec![AgentEvent::ModelCalled(log::AgentModelCalled {
                turn_id: turn.turn_id.clone(),
                call_id: call_id.to_owned(),
                model: Some(state.model.clone()),
                attempt,
            })]
        }
        Due::CallTools(indices) => step(&indices, uses, |tool| {
            AgentEvent::ToolCalled(log::AgentToolCalled {
                turn_id: turn.turn_id.clone(),
                tool_call_id: tool.tool_call_id.clone(),
                name: tool.name.clone(),
                args_json: tool.args_json.clone(),
                effect: tool.effect.into(),
            })
        }),
        Due::Ask(index) => {
            fresh(state, "approval_id", approval_id)?;
            step(&[index], uses, |tool| {
                AgentEvent::ApprovalRequested(log::AgentApprovalRequested {
                    approval_id: approval_id.to_owned(),
                    tool_call_id: tool.tool_call_id.clone(),
                    args_hash: tools::args_hash(&tool.name, &tool.args_json).to_vec(),
                })
            })
        }
        Due::CancelTools(indices) => step(&indices, uses, |tool| {
            finished(tool, Outcome::Cancelled, CANCELLED.to_owned())
        }),
        Due::FinishDenied(index) => step(&[index], uses, |tool| {
            let comment = match &tool.state {
                UseState::Denied { comment } => comment.as_str(),
                _ => "",
            };
            denied(tool, comment)
        }),
        Due::EndTurn { outcome, detail } => vec![AgentEvent::TurnEnded(log::AgentTurnEnded {
            turn_id: turn.turn_id.clone(),
            outcome: outcome.into(),
            detail,
        })],
    })
}

fn approve(state: &State, approval_id: &str, allowed: bool, comment: &str) -> Decision {
    let approval_id = approval_id.to_owned();
    let Some(turn) = &state.turn else {
        return Err(Rejection::UnknownApproval { approval_id });
    };
    if let Some(before) = turn.decided.get(&approval_id) {
        return if *before == allowed {
            Ok(Vec::new())
        } else {
            Err(Rejection::AlreadyDecided { approval_id })
        };
    }
    let asked = UseState::Asked {
        approval_id: approval_id.clone(),
    };
    let Some(tool) = turn.uses().iter().find(|tool| tool.state == asked) else {
        return Err(Rejection::UnknownApproval { approval_id });
    };
    let comment = bounded::detail(comment);
    let decided = AgentEvent::ApprovalDecided(log::AgentApprovalDecided {
        approval_id,
        allowed,
        comment: comment.clone(),
    });
    Ok(if allowed {
        vec![decided]
    } else {
        vec![decided, denied(tool, &comment)]
    })
}

fn cancel(state: &State, turn_id: &str) -> Decision {
    let requested = |turn_id: &str| {
        AgentEvent::CancelRequested(log::AgentCancelRequested {
            turn_id: turn_id.to_owned(),
        })
    };
    match &state.turn {
        Some(turn) if turn.cancelling => Ok(Vec::new()),
        Some(turn) => Ok(vec![requested(&turn.turn_id)]),
        None if state.queued.is_empty() => Ok(Vec::new()),
        None => Ok(vec![turn_started(state, turn_id)?, requested(turn_id)]),
    }
}

fn turn_started(state: &State, turn_id: &str) -> Result<AgentEvent, Rejection> {
    fresh(state, "turn_id", turn_id)?;
    Ok(AgentEvent::TurnStarted(log::AgentTurnStarted {
        turn_id: turn_id.to_owned(),
        prompt_ids: state
            .queued
            .iter()
            .map(|prompt| prompt.prompt_id.clone())
            .collect(),
    }))
}

fn step(
    indices: &[usize],
    uses: &[ToolUse],
    event: impl Fn(&ToolUse) -> AgentEvent,
) -> Vec<AgentEvent> {
    indices
        .iter()
        .take(STEP_EVENTS_MAX)
        .filter_map(|index| uses.get(*index))
        .map(event)
        .collect()
}

fn open(state: &State) -> Result<(), Rejection> {
    match state.life {
        Life::Absent => Err(Rejection::NotFound),
        Life::Open => Ok(()),
        Life::Closed => Err(Rejection::Closed),
    }
}

fn fresh(state: &State, field: &'static str, id: &str) -> Result<(), Rejection> {
    not_empty(field, id)?;
    if state.ids.contains(id) {
        Err(Rejection::IdReused { id: id.to_owned() })
    } else {
        Ok(())
    }
}

fn denied(tool: &ToolUse, comment: &str) -> AgentEvent {
    let content = if comment.is_empty() {
        DENIED.to_owned()
    } else {
        format!("{DENIED}: {comment}")
    };
    finished(tool, Outcome::Denied, content)
}

pub(super) fn not_empty(field: &'static str, value: &str) -> Result<(), Rejection> {
    if value.is_empty() {
        Err(Rejection::Empty { field })
    } else {
        Ok(())
    }
}

pub(super) fn fits(field: &'static str, size: usize, max: usize) -> Result<(), Rejection> {
    if size > max {
        Err(Rejection::TooLarge { field, size, max })
    } else {
        Ok(())
    }
}
