//! What the loop tells of model calls and tools.
//!
//! A report of something that has happened is never refused for its size: a refused report would leave
//! the call or the tool owed, and the loop would make it again.

use std::collections::BTreeMap;

use cocoonbox_events::AgentEvent;
use cocoonbox_proto::log::v1::{
    self as log, AgentModelFailed, AgentModelReplied, AgentToolFinished, Effect,
    agent_model_failed::Reason, agent_output_streamed::Part, agent_tool_finished::Outcome,
};

use super::{
    command::{CHUNK_BYTES_MAX, CHUNKS_MAX, CONTENT_BYTES_MAX, Chunk, IMAGES_MAX, REPLY_BYTES_MAX},
    decide::{Decision, fits},
    entry::Entry,
    rejection::Rejection,
    repeats, reply,
    state::State,
    turn::{Partial, Stage, ToolUse, Turn, UseState},
};
use crate::bounded;

/// Room for the line that says what was cut from a tool's content.
const CUT_LINE_BYTES: usize = 100;

const INTERRUPTED: &str = "the agent was restarted while this ran: whether it took effect is not \
                           known. Look at the state of things before doing it again.";

pub(super) fn streamed(state: &State, call_id: &str, chunks: &[Chunk]) -> Decision {
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

/// Takes a reply. One that is larger than an event is a failed call, and no other attempt would help.
pub(super) fn replied(state: &State, mut of: AgentModelReplied) -> Decision {
    calling(state, &of.call_id)?;
    let bytes = reply::bytes(&of.blocks);
    if bytes > REPLY_BYTES_MAX {
        return Ok(vec![AgentEvent::ModelFailed(AgentModelFailed {
            call_id: of.call_id,
            reason: Reason::Garbled.into(),
            detail: format!("the reply has {bytes} bytes; {REPLY_BYTES_MAX} fit"),
            retryable: false,
            retry_after_ms: 0,
        })]);
    }
    of.blocks = reply::with_unique_ids(&state.tool_ids, &of.call_id, &of.blocks);
    of.vendor_stop = bounded::detail(&of.vendor_stop);
    of.vendor_request_id = bounded::detail(&of.vendor_request_id);
    Ok(vec![AgentEvent::ModelReplied(of)])
}

pub(super) fn model_failed(state: &State, mut of: AgentModelFailed) -> Decision {
    calling(state, &of.call_id)?;
    of.detail = bounded::detail(&of.detail);
    Ok(vec![AgentEvent::ModelFailed(of)])
}

pub(super) fn tool_finished(state: &State, mut of: AgentToolFinished) -> Decision {
    match of.outcome() {
        Outcome::Ok | Outcome::Error | Outcome::Interrupted | Outcome::Cancelled => {}
        Outcome::Unspecified | Outcome::Denied => return Err(Rejection::BadOutcome),
    }
    of.content = fitting(&of.content);
    of.images.truncate(IMAGES_MAX);
    let uses = state.turn.as_ref().map(Turn::uses).unwrap_or_default();
    let tool_call_id = of.tool_call_id.clone();
    let Some(tool) = uses.iter().find(|tool| tool.tool_call_id == tool_call_id) else {
        let told = state.history.kept().rev().find_map(|entry| match &**entry {
            Entry::ToolResults(results) => results
                .iter()
                .find(|result| result.tool_call_id == tool_call_id),
            Entry::User { .. } | Entry::Assistant { .. } => None,
        });
        return match told {
            None => Err(Rejection::UnknownTool { tool_call_id }),
            Some(told)
                if told.outcome == of.outcome()
                    && repeats::same_but_note(&told.content, &of.content) =>
            {
                Ok(Vec::new())
            }
            Some(_) => Err(Rejection::ToolFinished { tool_call_id }),
        };
    };
    match &tool.state {
        UseState::Called => {
            of.content = repeats::noted(&state.history, uses, tool, of.content, &of.images);
            Ok(vec![AgentEvent::ToolFinished(of)])
        }
        UseState::Finished {
            outcome: before,
            content: told,
            ..
        } if *before == of.outcome() && repeats::same_but_note(told, &of.content) => Ok(Vec::new()),
        UseState::Finished { .. } => Err(Rejection::ToolFinished { tool_call_id }),
        UseState::Waiting
        | UseState::Asked { .. }
        | UseState::Allowed { .. }
        | UseState::Denied { .. }
        | UseState::Questioned { .. }
        | UseState::Answered { .. } => Err(Rejection::ToolNotStarted { tool_call_id }),
    }
}

pub(super) fn not_run(state: &State, tool_call_id: &str, content: &str) -> Vec<AgentEvent> {
    let due = state
        .calls_due()
        .find(|tool| tool.tool_call_id == tool_call_id);
    let told = due.map(|tool| finished(tool, Outcome::Error, fitting(content)));
    told.into_iter().collect()
}

pub(super) fn restarted(state: &State) -> Vec<AgentEvent> {
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
        Stage::CallDue { .. } | Stage::Compacting { .. } | Stage::EndDue { .. } => Vec::new(),
    }
}

pub(super) fn finished(tool: &ToolUse, outcome: Outcome, content: String) -> AgentEvent {
    AgentEvent::ToolFinished(AgentToolFinished {
        tool_call_id: tool.tool_call_id.clone(),
        outcome: outcome.into(),
        content,
        ..AgentToolFinished::default()
    })
}

fn calling<'a>(state: &'a State, call_id: &str) -> Result<&'a Partial, Rejection> {
    match state.partial() {
        Some((under_way, partial)) if under_way == call_id => Ok(partial),
        _ => Err(Rejection::CallNotOut {
            call_id: call_id.to_owned(),
        }),
    }
}

/// Cuts the end off a content that no event holds, and says so where it is cut.
fn fitting(content: &str) -> String {
    if content.len() <= CONTENT_BYTES_MAX {
        return content.to_owned();
    }
    let kept = bounded::prefix(content, CONTENT_BYTES_MAX - CUT_LINE_BYTES);
    format!(
        "{kept}\n[cut: {} of {} bytes are shown]",
        kept.len(),
        content.len()
    )
}
