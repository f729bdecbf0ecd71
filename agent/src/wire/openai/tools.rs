//! Which tool call a piece of one belongs to.

use serde_json::Value;

use crate::wire::{assemble::Assembly, json::text};

/// The tool calls of a reply. The vendor tells them apart by an index; other servers leave it out, or give
/// every call the same, and then an id or the shape has to tell.
#[derive(Debug, Default)]
pub(super) struct ToolCalls(Vec<(Option<u64>, u32)>);

impl ToolCalls {
    /// Returns the blocks of all calls, in order.
    pub(super) fn blocks(&self) -> impl Iterator<Item = u32> {
        self.0.iter().map(|(_, block)| *block)
    }

    pub(super) fn add(&mut self, call: &Value, block: u32) {
        self.0.push((index(call), block));
    }

    /// Returns the block that goes on with this piece; `None` if it begins another call.
    pub(super) fn find(&self, call: &Value, name: &str, assembly: &Assembly) -> Option<u32> {
        let id = text(call, "id");
        let same_id = |block: &u32| !id.is_empty() && assembly.tool_id(*block) == id;
        if let Some(block) = self.blocks().find(same_id) {
            return Some(block);
        }
        let block = match index(call) {
            // The latest with the index: one that is used again is that of the call that is being written.
            Some(index) => {
                let mut calls = self.0.iter().rev();
                calls.find(|(known, _)| *known == Some(index))?.1
            }
            None => self.0.last()?.1,
        };
        let has_other_id = !id.is_empty() && !assembly.tool_id(block).is_empty();
        // A name that comes when the arguments are whole is that of the next call, unless an index says
        // that it is said again.
        let begins = index(call).is_none() && !name.is_empty() && assembly.is_tool_whole(block);
        let is_another = (has_other_id && !name.is_empty()) || begins;
        (!is_another).then_some(block)
    }
}

fn index(call: &Value) -> Option<u64> {
    call.get("index").and_then(Value::as_u64)
}
