//! What a reply means: tool uses to run, or an ending.

use std::collections::BTreeSet;

use cocoonbox_proto::log::v1::{
    AgentModelReplied, Block, ModelRole, Risk, StopReason, ToolUseBlock,
    agent_model_failed::Reason, agent_turn_ended::Outcome, block,
};

use super::{
    command::SUMMARY_BYTES_MAX,
    entry::{Entry, block_bytes},
    ids::Ids,
    state::State,
    tools,
    turn::{Failure, Stage, ToolUse, UseState},
};
use crate::bounded;

/// Room for the fields around a block's text.
const BLOCK_OVERHEAD_BYTES: usize = 32;
/// Longest tool call id that is taken from a vendor. It has to fit our own events, and its prefix our
/// own ids.
const TOOL_CALL_ID_BYTES_MAX: usize = 128;

/// Returns about how many bytes the blocks take in an event.
pub(super) fn bytes(blocks: &[Block]) -> usize {
    let bytes = |block| BLOCK_OVERHEAD_BYTES + block_bytes(block);
    blocks.iter().map(bytes).sum()
}

/// Gives each tool use an id that no other one of the conversation has.
///
/// Vendors promise ids that are unique within a reply, and some not even that. An id that is taken or
/// cannot be used is replaced, here and thereby in everything that is told back to the vendor. Doing it
/// again changes nothing.
pub(super) fn with_unique_ids(taken: &Ids, call_id: &str, blocks: &[Block]) -> Vec<Block> {
    let mut ours = BTreeSet::new();
    let mut blocks = blocks.to_vec();
    for (index, block) in blocks.iter_mut().enumerate() {
        let Some(block::Block::ToolUse(tool)) = &mut block.block else {
            continue;
        };
        let free = |id: &str| !taken.contains(id) && !ours.contains(id);
        let usable = !tool.tool_call_id.is_empty()
            && tool.tool_call_id.len() <= TOOL_CALL_ID_BYTES_MAX
            && !tool.tool_call_id.chars().any(char::is_control);
        if !usable || !free(&tool.tool_call_id) {
            let mut id = format!("{call_id}-{index}");
            while !free(&id) {
                id.push('x');
            }
            tool.tool_call_id = id;
        }
        ours.insert(tool.tool_call_id.clone());
    }
    blocks
}

/// Takes a reply into the state: what stage the turn is in behind it, and what enters the
/// conversation at once.
pub(super) fn settle(reply: &AgentModelReplied) -> (Stage, Option<Entry>) {
    if reply.stop() == StopReason::Refusal {
        // A refused reply must not be told back: it would be refused again.
        let detail = "the model refused to answer".to_owned();
        return (
            Stage::EndDue {
                outcome: Outcome::Refused,
                detail,
            },
            None,
        );
    }
    let blocks: Vec<Block> = reply
        .blocks
        .iter()
        .filter(|block| !is_empty(block))
        .cloned()
        .collect();
    let uses = uses_of(&blocks, reply.stop());
    if !uses.is_empty() {
        return (
            Stage::Tools {
                call_id: reply.call_id.clone(),
                blocks,
                uses,
            },
            None,
        );
    }
    let says_something = blocks.iter().any(|block| {
        matches!(
            block.block,
            Some(block::Block::Text(_) | block::Block::Vendor(_))
        )
    });
    // Thinking alone is not a message that a vendor takes back.
    let entry = says_something.then_some(Entry::Assistant { blocks });
    (ending(reply), entry)
}

/// Returns the text of a summary; `None` where there is none.
fn summary(reply: &AgentModelReplied) -> Option<String> {
    if reply.stop() == StopReason::Refusal {
        return None;
    }
    let mut summary = String::new();
    for block in &reply.blocks {
        if let Some(block::Block::Text(text)) = &block.block {
            summary.push_str(&text.text);
        }
    }
    let summary = bounded::prefix(summary.trim(), SUMMARY_BYTES_MAX);
    (!summary.is_empty()).then(|| summary.to_owned())
}

/// Says what comes behind a call that was to sum up so many entries.
pub(super) fn summed(reply: &AgentModelReplied, entries: usize, attempt: u32) -> Stage {
    match summary(reply) {
        Some(summary) => Stage::Compacting {
            call_id: reply.call_id.clone(),
            summary,
            entries,
        },
        None => Stage::CallDue {
            failure: Some(Failure {
                role: ModelRole::Summarize,
                reason: Reason::Garbled,
                detail: "the summary is empty".to_owned(),
                retryable: false,
                retry_after_ms: 0,
                attempt,
                tries: 0,
                woken: false,
            }),
        },
    }
}

fn ending(reply: &AgentModelReplied) -> Stage {
    let end = |outcome, detail: &str| Stage::EndDue {
        outcome,
        detail: detail.to_owned(),
    };
    match reply.stop() {
        StopReason::EndTurn => end(Outcome::Done, ""),
        StopReason::MaxTokens => end(
            Outcome::OutputLimit,
            "the reply was cut at the output token limit",
        ),
        StopReason::PauseTurn => Stage::CallDue { failure: None },
        StopReason::Refusal => end(Outcome::Refused, "the model refused to answer"),
        StopReason::ToolUse => end(Outcome::Failed, "the model asked for tools but named none"),
        StopReason::OtherStop | StopReason::StopUnspecified => {
            let detail = format!(
                "the model stopped for an unknown reason `{}`",
                reply.vendor_stop
            );
            Stage::EndDue {
                outcome: Outcome::Failed,
                detail,
            }
        }
    }
}

/// Vendors refuse empty text blocks in what they are told back.
fn is_empty(block: &Block) -> bool {
    match &block.block {
        Some(block::Block::Text(text)) => text.text.is_empty(),
        Some(block::Block::Thinking(thinking)) => {
            thinking.text.is_empty()
                && thinking.signature.is_empty()
                && thinking.redacted.is_empty()
        }
        Some(block::Block::ToolUse(_) | block::Block::Vendor(_)) => false,
        None => true,
    }
}

fn uses_of(blocks: &[Block], stop: StopReason) -> Vec<ToolUse> {
    let last = blocks.len().saturating_sub(1);
    let tool_use = |(index, block): (usize, &Block)| match &block.block {
        Some(block::Block::ToolUse(ToolUseBlock {
            tool_call_id,
            name,
            args_json,
            risk_at_least,
        })) => Some(ToolUse {
            tool_call_id: tool_call_id.clone(),
            name: name.clone(),
            args_json: args_json.clone(),
            effect: tools::effect(name),
            risk: tools::risk(name, args_json)
                .max(Risk::try_from(*risk_at_least).unwrap_or(Risk::Money)),
            cut: stop == StopReason::MaxTokens && index == last,
            state: UseState::Waiting,
        }),
        Some(block::Block::Text(_) | block::Block::Thinking(_) | block::Block::Vendor(_))
        | None => None,
    };
    blocks.iter().enumerate().filter_map(tool_use).collect()
}

impl State {
    /// Moves a reply whose tools all have results into the conversation.
    pub(super) fn close_tools(&mut self) {
        let Some(turn) = &mut self.turn else { return };
        let Stage::Tools { blocks, uses, .. } = &mut turn.stage else {
            return;
        };
        let Some(results) = uses.iter().map(ToolUse::result).collect::<Option<Vec<_>>>() else {
            return;
        };
        self.history.push(Entry::Assistant {
            blocks: std::mem::take(blocks),
        });
        self.history.push(Entry::ToolResults(results));
        turn.stage = Stage::CallDue { failure: None };
    }
}
