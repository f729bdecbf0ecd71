//! Streamed output: a model call's blocks while they come, and what becomes of them.
//!
//! Blocks lie under the position of `agent.model_called`, so that the whole reply takes the places of
//! its own chunks and everything that the reply leads to comes behind it.

use cocoonbox_proto::{
    agent::v1::transcript_item::Kind,
    log::v1::{AgentModelReplied, AgentOutputStreamed, agent_output_streamed::Part, block::Block},
};
use serde::{Deserialize, Serialize};

use crate::{
    row_key,
    rows::{self, Rows, SCAN_ROWS_MAX, View},
    transcript::{
        AgentRow,
        item::{ItemRow, Mark, Scope},
    },
};

/// Longer streamed text is shown up to here until the whole reply is there. Each chunk rewrites its
/// row, so this bounds what one more byte of output can cost.
const PARTIAL_BYTES_MAX: usize = 64 * 1024;

/// A model call that has had no end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenCall {
    pub call_id: String,
    /// Position of `agent.model_called`.
    pub pos: u64,
}

/// Where a call lies that ended without its whole reply.
#[derive(Serialize, Deserialize)]
struct Cut {
    from: u64,
    to: u64,
}

/// Adds one chunk to its block.
pub(super) fn stream(
    rows: &mut dyn Rows,
    scope: &Scope<'_>,
    call: Option<&OpenCall>,
    chunk: AgentOutputStreamed,
) -> Result<(), rows::Error> {
    let Some(call) = call.filter(|call| call.call_id == chunk.call_id) else {
        return Ok(());
    };
    let kind = match chunk.part() {
        Part::Text | Part::Unspecified => Kind::Reply,
        Part::Thinking => Kind::Thinking,
        Part::ToolArgs => Kind::ToolCall,
    };
    let key = scope.block_key(call.pos, chunk.block);
    let found: Option<ItemRow> = rows::get(rows, View::Transcript, &key)?;
    let mut item = found.unwrap_or_else(|| scope.item(kind, false));
    let room = PARTIAL_BYTES_MAX.saturating_sub(item.text.len());
    item.text.push_str(fitting(&chunk.text, room));
    item.partial = true;
    item.offset_key = scope.event.offset_key().to_string();
    rows::put(rows, View::Transcript, &key, &item)
}

/// Puts the whole reply where its chunks were.
pub(super) fn reply(
    rows: &mut dyn Rows,
    scope: &Scope<'_>,
    agent: &mut AgentRow,
    reply: AgentModelReplied,
    erased: bool,
) -> Result<(), rows::Error> {
    // An erased reply answers the call that is out: there is one at a time.
    let call = agent
        .call
        .take_if(|call| erased || call.call_id == reply.call_id);
    let pos = call.map_or(scope.event.pos, |call| call.pos);
    for (key, _) in blocks(rows, scope, pos)? {
        rows.delete(View::Transcript, &key)?;
    }
    if erased {
        let item = scope.item(Kind::Reply, true);
        return rows::put(rows, View::Transcript, &scope.block_key(pos, 0), &item);
    }
    for (index, block) in (0_u32..).zip(reply.blocks) {
        let key = scope.block_key(pos, index);
        let item = match block.block {
            Some(Block::Text(text)) => ItemRow {
                text: text.text,
                ..scope.item(Kind::Reply, false)
            },
            Some(Block::Thinking(thinking)) => {
                let outcome = if thinking.redacted.is_empty() {
                    ""
                } else {
                    "redacted"
                };
                ItemRow {
                    text: thinking.text,
                    outcome: outcome.to_owned(),
                    ..scope.item(Kind::Thinking, false)
                }
            }
            Some(Block::ToolUse(tool)) => {
                let mark = Mark {
                    item: key.clone(),
                    tool_name: tool.name.clone(),
                };
                scope.set_mark(rows, "tool", &tool.tool_call_id, &mark)?;
                ItemRow {
                    text: tool.args_json,
                    tool_name: tool.name,
                    tool_call_id: tool.tool_call_id,
                    ..scope.item(Kind::ToolCall, false)
                }
            }
            // Nobody can read it but its vendor.
            Some(Block::Vendor(_)) | None => continue,
        };
        rows::put(rows, View::Transcript, &key, &item)?;
    }
    Ok(())
}

/// Ends the call that is out, if one is: what was streamed is all there will be of it.
pub(super) fn cut(
    rows: &mut dyn Rows,
    scope: &Scope<'_>,
    agent: &mut AgentRow,
) -> Result<(), rows::Error> {
    let Some(call) = agent.call.take() else {
        return Ok(());
    };
    for (key, mut item) in blocks(rows, scope, call.pos)? {
        item.partial = false;
        "cut".clone_into(&mut item.outcome);
        rows::put(rows, View::Transcript, &key, &item)?;
        let extent = Cut {
            from: call.pos,
            to: scope.event.pos,
        };
        let mark = format!("{}{}", scope.mark_prefix("cut"), row_key::pos(call.pos));
        rows::put(rows, View::TranscriptMarks, &mark, &extent)?;
    }
    Ok(())
}

/// Whether the event is output of a call of this agent that was cut.
pub(super) fn cut_holds(rows: &dyn Rows, scope: &Scope<'_>) -> Result<bool, rows::Error> {
    let cuts: Vec<(String, Cut)> =
        rows::scan_all(rows, View::TranscriptMarks, &scope.mark_prefix("cut"))?;
    Ok(cuts
        .iter()
        .any(|(_, cut)| cut.from < scope.event.pos && scope.event.pos < cut.to))
}

/// The longest start of a text that has at most `room` bytes.
pub(super) fn fitting(text: &str, room: usize) -> &str {
    let mut end = room.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The blocks of the call at a position.
fn blocks(
    rows: &dyn Rows,
    scope: &Scope<'_>,
    pos: u64,
) -> Result<Vec<(String, ItemRow)>, rows::Error> {
    let prefix = scope.prefix();
    let of_call = format!("{prefix}{}.", row_key::pos(pos));
    let mut found: Vec<(String, ItemRow)> = Vec::new();
    loop {
        let after = found
            .last()
            .map_or(of_call.as_str(), |(key, _)| key.as_str());
        let page: Vec<(String, ItemRow)> =
            rows::scan(rows, View::Transcript, &prefix, Some(after), SCAN_ROWS_MAX)?;
        let read = page.len();
        let before = found.len();
        found.extend(
            page.into_iter()
                .take_while(|(key, _)| key.starts_with(&of_call)),
        );
        if found.len() - before < SCAN_ROWS_MAX || read < SCAN_ROWS_MAX {
            return Ok(found);
        }
    }
}
