//! The events of the step that is due.

use cocoonbox_events::AgentEvent;
use cocoonbox_proto::log::v1::{
    self as log, AgentToolCalled, ModelRole, agent_tool_finished::Outcome,
};

use super::{
    asked,
    decide::{Decision, fresh},
    due::Due,
    rejection::Rejection,
    report::finished,
    state::State,
    tools,
    turn::{ToolUse, Turn, UseState},
};

/// Events in one step: an append takes 256.
const STEP_EVENTS_MAX: usize = 100;

pub(super) fn advance(
    state: &State,
    turn_id: &str,
    call_id: &str,
    approval_id: &str,
    now_us: i64,
) -> Decision {
    let Some(due) = state.due() else {
        return Ok(Vec::new());
    };
    let Some(turn) = &state.turn else {
        return Ok(vec![turn_started(state, turn_id)?]);
    };
    let uses = turn.uses();
    Ok(match due {
        Due::StartTurn => vec![turn_started(state, turn_id)?],
        Due::CallModel {
            role,
            model,
            attempt,
        } => {
            fresh(state, "call_id", call_id)?;
            let prompt_ids = match role {
                ModelRole::Summarize => Vec::new(),
                ModelRole::Main | ModelRole::Computer => state
                    .steering()
                    .map(|prompt| prompt.prompt_id.clone())
                    .collect(),
            };
            vec![AgentEvent::ModelCalled(log::AgentModelCalled {
                turn_id: turn.turn_id.clone(),
                call_id: call_id.to_owned(),
                model: Some(model),
                attempt,
                role: role.into(),
                prompt_ids,
            })]
        }
        Due::Compact {
            call_id,
            summary,
            entries,
        } => vec![AgentEvent::Compacted(log::AgentCompacted {
            turn_id: turn.turn_id.clone(),
            call_id,
            summary,
            entries: u32::try_from(entries).unwrap_or(u32::MAX),
        })],
        Due::CallTools(indices) => step(&indices, uses, |tool| called(turn, tool)),
        Due::Ask(index) => {
            fresh(state, "approval_id", approval_id)?;
            let expires_at_us = state.rules.expires_at_us(now_us);
            step(&[index], uses, |tool| {
                AgentEvent::ApprovalRequested(log::AgentApprovalRequested {
                    approval_id: approval_id.to_owned(),
                    tool_call_id: tool.tool_call_id.clone(),
                    args_hash: tools::args_hash(&tool.name, &tool.args_json).to_vec(),
                    risk: tool.risk.into(),
                    expires_at_us,
                })
            })
        }
        Due::Question(index, question) => {
            fresh(state, "approval_id", approval_id)?;
            step(&[index], uses, |tool| {
                AgentEvent::QuestionAsked(log::AgentQuestionAsked {
                    question_id: approval_id.to_owned(),
                    tool_call_id: tool.tool_call_id.clone(),
                    question: question.question.clone(),
                    choices: question.choices.clone(),
                })
            })
        }
        Due::Todo(index, todo) => uses.get(index).map_or_else(Vec::new, |tool| {
            let told = finished(tool, Outcome::Ok, asked::todo_told(&todo));
            let call = (tool.state != UseState::Called).then(|| called(turn, tool));
            let events = [AgentEvent::TodoSet(todo), told];
            call.into_iter().chain(events).collect()
        }),
        Due::Finish(indices, outcome, content) => step(&indices, uses, |tool| {
            finished(tool, outcome, content.clone())
        }),
        Due::EndTurn { outcome, detail } => vec![AgentEvent::TurnEnded(log::AgentTurnEnded {
            turn_id: turn.turn_id.clone(),
            outcome: outcome.into(),
            detail,
        })],
    })
}

fn called(turn: &Turn, tool: &ToolUse) -> AgentEvent {
    let approval_id = match &tool.state {
        UseState::Allowed { approval_id } => approval_id.clone(),
        _ => String::new(),
    };
    AgentEvent::ToolCalled(AgentToolCalled {
        turn_id: turn.turn_id.clone(),
        tool_call_id: tool.tool_call_id.clone(),
        name: tool.name.clone(),
        args_json: tool.args_json.clone(),
        effect: tool.effect.into(),
        risk: tool.risk.into(),
        approval_id,
    })
}

pub(super) fn turn_started(state: &State, turn_id: &str) -> Result<AgentEvent, Rejection> {
    fresh(state, "turn_id", turn_id)?;
    let prompts = state.queued.iter();
    Ok(AgentEvent::TurnStarted(log::AgentTurnStarted {
        turn_id: turn_id.to_owned(),
        prompt_ids: prompts.map(|prompt| prompt.prompt_id.clone()).collect(),
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
