//! What the subagents of a turn do, in a line each.

use std::collections::HashMap;

use cocoonbox_events::AgentEvent;
use cocoonbox_proto::log::v1::block;

use super::{Piece, call_line, ending_words};

/// Folds the events of subagents.
#[derive(Debug, Default)]
pub(super) struct Children {
    /// By agent id.
    known: HashMap<String, Child>,
}

#[derive(Debug, Default)]
struct Child {
    seq: u64,
    /// Tool calls, as lines.
    tools: HashMap<String, String>,
}

impl Children {
    pub(super) fn apply(
        &mut self,
        agent_id: &str,
        seq: u64,
        event: AgentEvent,
        pieces: &mut Vec<Piece>,
    ) {
        let child = self.known.entry(agent_id.to_owned()).or_default();
        // An event that comes again says nothing further.
        if seq <= child.seq {
            return;
        }
        child.seq = seq;
        let agent_id = agent_id.to_owned();
        let note = |text: String| Piece::Note(format!("  ┆ {text}"));
        match event {
            AgentEvent::Created(m) => pieces.push(note(format!("helper: {}", m.name))),
            AgentEvent::ModelReplied(m) => {
                for block in m.blocks {
                    if let Some(block::Block::ToolUse(tool)) = block.block {
                        let line = call_line(&tool.name, &tool.args_json);
                        child.tools.insert(tool.tool_call_id, line);
                    }
                }
            }
            AgentEvent::ToolCalled(m) => {
                pieces.push(note(format!("▸ {}", call_line(&m.name, &m.args_json))));
            }
            AgentEvent::ApprovalRequested(m) => pieces.push(Piece::Approval {
                risk: m.risk(),
                id: m.approval_id,
                agent_id,
                call: child
                    .tools
                    .get(&m.tool_call_id)
                    .cloned()
                    .unwrap_or_default(),
            }),
            AgentEvent::QuestionAsked(m) => pieces.push(Piece::Question {
                id: m.question_id,
                agent_id,
                question: m.question,
                choices: m.choices,
            }),
            AgentEvent::ApprovalDecided(m) => pieces.push(Piece::Decided { id: m.approval_id }),
            AgentEvent::ApprovalExpired(m) => pieces.push(Piece::Decided { id: m.approval_id }),
            AgentEvent::QuestionAnswered(m) => pieces.push(Piece::Decided { id: m.question_id }),
            AgentEvent::TurnEnded(m) => {
                pieces.push(note(format!("helper: {}", ending_words(m.outcome()))));
            }
            _ => {}
        }
    }
}
