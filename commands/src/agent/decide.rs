//! From commands to events.

use std::collections::BTreeMap;

use cocoonbox_events::AgentEvent;
use cocoonbox_proto::log::v1::{
    self as log, AgentModelFailed, AgentModelReplied, Effect, agent_model_failed::Reason,
    agent_output_streamed::Part, agent_tool_finished::Outcome,
};

use super::{
    command::{
        CHUNK_BYTES_MAX, CHUNKS_MAX, CONTENT_BYTES_MAX, Chunk, Command, PROMPT_BYTES_MAX,
        QUEUE_PROMPTS_MAX, REPLY_BYTES_MAX, Rejection,
    },
    next::Due,
    reply,
    state::{Life, STEPS_DEFAULT, State},
    tools,
    turn::{Partial, Stage, ToolUse, Turn, UseState},
};
use crate::name::check_label;

/// Events in one step: an append takes 256.
const STEP_EVENTS_MAX: usize = 100;
/// Details are for people; a vendor's error page is not.
const DETAIL_BYTES_MAX: usize = 4 * 1024;

const CANCELLED: &str = "not run: the turn was cancelled";
const INTERRUPTED: &str = "the agent was restarted while this ran: whether it took effect is not \
                           known. Look at the state of things before doing it again.";
const DENIED: &str = "not run: a person denied this call";

type Decision = Result<Vec<AgentEvent>, Rejection>;

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
        Command::Streamed { call_id, chunks } => streamed(state, call_id, chunks),
        Command::Replied {
            call_id,
            blocks,
            stop,
            vendor_stop,
            usage,
            vendor_request_id,
        } => {
            calling(state, call_id)?;
            fits("reply", reply::bytes(blocks), REPLY_BYTES_MAX)?;
            Ok(vec![AgentEvent::ModelReplied(AgentModelReplied {
                call_id: call_id.clone(),
                blocks: reply::with_unique_ids(&state.tool_ids, call_id, blocks),
                stop: (*stop).into(),
                vendor_stop: bounded(vendor_stop),
                usage: Some(*usage),
                vendor_request_id: bounded(vendor_request_id),
            })])
        }
        Command::ModelFailed {
            call_id,
            reason,
            detail,
            retryable,
            retry_after_ms,
        } => {
            calling(state, call_id)?;
            Ok(vec![AgentEvent::ModelFailed(AgentModelFailed {
                call_id: call_id.clone(),
                reason: (*reason).into(),
                detail: bounded(detail),
                retryable: *retryable,
                retry_after_ms: *retry_after_ms,
            })])
        }
        Command::ToolFinished {
            tool_call_id,
            outcome,
            content,
            exec_id,
        } => tool_finished(state, tool_call_id, *outcome, content, exec_id),
        Command::Approve {
            approval_id,
            allowed,
            comment,
        } => approve(state, approval_id, *allowed, comment),
        Command::Cancel { turn_id } => cancel(state, turn_id),
        Command::Restarted => Ok(restarted(state)),
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
    not_empty("text", text.trim())?;
    fits("text", text.len(), PROMPT_BYTES_MAX)?;
    if state.ids.contains(prompt_id) {
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

fn streamed(state: &State, call_id: &str, chunks: &[Chunk]) -> Decision {
    let partial = calling(state, call_id)?;
    fits("chunks", chunks.len(), CHUNKS_MAX)?;
    let mut seen: BTreeMap<u32, (Part, u64)> = BTreeMap::new();
    let mut events = Vec::new();
    for chunk in chunks {
        fits("text", chunk.text.len(), CHUNK_BYTES_MAX)?;
        if chunk.part == Part::Unspecified {
            return Err(Rejection::Empty { field: "part" });
        }
        let before = partial
            .blocks
            .get(&chunk.block)
            .map(|block| (block.part, block.bytes));
        let known = seen.get(&chunk.block).copied().or(before);
        let (part, bytes) = known.unwrap_or((chunk.part, 0));
        if part != chunk.part {
            return Err(Rejection::ChunkPart { block: chunk.block });
        }
        if chunk.offset != bytes {
            let (block, expected, found) = (chunk.block, bytes, chunk.offset);
            return Err(Rejection::ChunkOffset {
                block,
                expected,
                found,
            });
        }
        if chunk.text.is_empty() {
            continue;
        }
        seen.insert(chunk.block, (part, bytes + chunk.text.len() as u64));
        events.push(AgentEvent::OutputStreamed(log::AgentOutputStreamed {
            call_id: call_id.to_owned(),
            block: chunk.block,
            part: chunk.part.into(),
            offset: chunk.offset,
            text: chunk.text.clone(),
        }));
    }
    Ok(events)
}

fn tool_finished(
    state: &State,
    tool_call_id: &str,
    outcome: Outcome,
    content: &str,
    exec_id: &str,
) -> Decision {
    match outcome {
        Outcome::Ok | Outcome::Error | Outcome::Interrupted | Outcome::Cancelled => {}
        Outcome::Unspecified | Outcome::Denied => return Err(Rejection::BadOutcome),
    }
    fits("content", content.len(), CONTENT_BYTES_MAX)?;
    let uses = state.turn.as_ref().map(Turn::uses).unwrap_or_default();
    let tool_call_id = tool_call_id.to_owned();
    let Some(tool) = uses.iter().find(|tool| tool.tool_call_id == tool_call_id) else {
        return Err(if state.tool_ids.contains(&tool_call_id) {
            Rejection::ToolFinished { tool_call_id }
        } else {
            Rejection::UnknownTool { tool_call_id }
        });
    };
    match &tool.state {
        UseState::Called => Ok(vec![AgentEvent::ToolFinished(log::AgentToolFinished {
            tool_call_id,
            outcome: outcome.into(),
            content: content.to_owned(),
            exec_id: exec_id.to_owned(),
        })]),
        UseState::Finished {
            outcome: before,
            content: told,
        } if *before == outcome && told == content => Ok(Vec::new()),
        UseState::Finished { .. } => Err(Rejection::ToolFinished { tool_call_id }),
        UseState::Waiting
        | UseState::Asked { .. }
        | UseState::Allowed
        | UseState::Denied { .. } => Err(Rejection::ToolNotStarted { tool_call_id }),
    }
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
    let comment = bounded(comment);
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

fn restarted(state: &State) -> Vec<AgentEvent> {
    let Some(turn) = &state.turn else {
        return Vec::new();
    };
    match &turn.stage {
        Stage::Calling { call_id, .. } => vec![AgentEvent::ModelFailed(AgentModelFailed {
            call_id: call_id.clone(),
            reason: Reason::AgentRestarted.into(),
            detail: String::new(),
            retryable: true,
            retry_after_ms: 0,
        })],
        Stage::Tools { uses, .. } => uses
            .iter()
            .filter(|tool| tool.state == UseState::Called && tool.effect != Effect::ReadOnly)
            .map(|tool| finished(tool, Outcome::Interrupted, INTERRUPTED.to_owned()))
            .collect(),
        Stage::CallDue { .. } | Stage::EndDue { .. } => Vec::new(),
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

fn finished(tool: &ToolUse, outcome: Outcome, content: String) -> AgentEvent {
    AgentEvent::ToolFinished(log::AgentToolFinished {
        tool_call_id: tool.tool_call_id.clone(),
        outcome: outcome.into(),
        content,
        exec_id: String::new(),
    })
}

fn denied(tool: &ToolUse, comment: &str) -> AgentEvent {
    let content = if comment.is_empty() {
        DENIED.to_owned()
    } else {
        format!("{DENIED}: {comment}")
    };
    finished(tool, Outcome::Denied, content)
}

fn calling<'a>(state: &'a State, call_id: &str) -> Result<&'a Partial, Rejection> {
    match state.partial() {
        Some((under_way, partial)) if under_way == call_id => Ok(partial),
        _ => Err(Rejection::CallNotOut {
            call_id: call_id.to_owned(),
        }),
    }
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

fn not_empty(field: &'static str, value: &str) -> Result<(), Rejection> {
    if value.is_empty() {
        Err(Rejection::Empty { field })
    } else {
        Ok(())
    }
}

fn fits(field: &'static str, size: usize, max: usize) -> Result<(), Rejection> {
    if size > max {
        Err(Rejection::TooLarge { field, size, max })
    } else {
        Ok(())
    }
}

fn bounded(detail: &str) -> String {
    let mut end = detail.len().min(DETAIL_BYTES_MAX);
    while !detail.is_char_boundary(end) {
        end -= 1;
    }
    detail[..end].to_owned()
}
