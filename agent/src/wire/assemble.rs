//! Puts a reply together from what a stream adds, block by block, within the limits of the log.

mod building;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use cocoonbox_commands::agent::REPLY_BYTES_MAX;
use cocoonbox_proto::log::v1::{
    Block, StopReason, TextBlock, TokenUsage, Wire, agent_output_streamed::Part, block,
};
use serde_json::Value;

use self::building::Building;
use crate::prefix::prefix;

/// What is said where a reply had to be cut.
const CUT_NOTE: &str = "\n[cut: the reply is longer than the log takes]";

/// Room for the note and for the framing of blocks.
const BYTES_MAX: usize = REPLY_BYTES_MAX - 4 * 1024;

/// Counted for each block besides its text, as it is where the log's limit is.
const BLOCK_BYTES: usize = 32;

/// Blocks in one reply; past it something is wrong with the vendor.
const BLOCKS_MAX: usize = 512;

/// A whole reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Reply {
    pub(crate) blocks: Vec<Block>,
    pub(crate) stop: StopReason,
    pub(crate) vendor_stop: String,
    pub(crate) usage: TokenUsage,
    pub(crate) vendor_request_id: String,
}

/// A piece of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Delta {
    pub(crate) block: u32,
    pub(crate) part: Part,
    pub(crate) text: String,
}

/// The reply so far.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    blocks: BTreeMap<u32, Building>,
    bytes: usize,
    full: bool,
    pub(crate) stop: StopReason,
    pub(crate) vendor_stop: String,
    pub(crate) usage: TokenUsage,
    pub(crate) vendor_request_id: String,
}

impl Assembly {
    /// Whether nothing more fits.
    pub(crate) fn is_full(&self) -> bool {
        self.full
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    pub(crate) fn has_tools(&self) -> bool {
        let mut blocks = self.blocks.values();
        blocks.any(|block| matches!(block, Building::Tool { .. }))
    }

    pub(crate) fn open_text(&mut self, index: u32) {
        self.open(index, 0, || Building::Text(String::new()));
    }

    pub(crate) fn open_thinking(&mut self, index: u32, vendor_id: &str, redacted: String) {
        let bytes = vendor_id.len() + redacted.len();
        self.open(index, bytes, || Building::Thinking {
            text: String::new(),
            signature: String::new(),
            redacted,
            vendor_id: vendor_id.to_owned(),
        });
    }

    pub(crate) fn open_tool(&mut self, index: u32, id: String, name: String) {
        self.open(index, id.len() + name.len(), || Building::Tool {
            id,
            name,
            args: String::new(),
        });
    }

    /// Opens a block of a kind that this build does not know. It is kept whole or not at all.
    pub(crate) fn open_vendor(&mut self, index: u32, wire: Wire, json: Value) {
        let bytes = json.to_string().len();
        self.open(index, bytes, || Building::Vendor {
            wire,
            json,
            input: String::new(),
        });
    }

    pub(crate) fn is_vendor(&self, index: u32) -> bool {
        matches!(self.blocks.get(&index), Some(Building::Vendor { .. }))
    }

    /// Adds to a block; `None` if there is no such block, or nothing fits, or nothing was added.
    pub(crate) fn add(&mut self, index: u32, part: Part, text: &str) -> Option<Delta> {
        let text = self.fit(text);
        let target = self.blocks.get_mut(&index)?.part(part)?;
        // Whole arguments are not added to: some servers say them again at the end.
        if part == Part::ToolArgs && *target == text && is_object(target) {
            return None;
        }
        target.push_str(&text);
        self.bytes += text.len();
        (!text.is_empty()).then_some(Delta {
            block: index,
            part,
            text,
        })
    }

    /// Brings a block up to its whole text, which the vendor says again at its end.
    pub(crate) fn complete(&mut self, index: u32, part: Part, whole: &str) -> Option<Delta> {
        let so_far = self.blocks.get_mut(&index)?.part(part)?;
        if let Some(rest) = whole.strip_prefix(so_far.as_str()) {
            let rest = rest.to_owned();
            return self.add(index, part, &rest);
        }
        if !whole.is_empty() && !self.full {
            // Then what was streamed was wrong, and this is what counts.
            let before = std::mem::take(so_far).len();
            self.bytes -= before;
            self.add(index, part, whole);
        }
        None
    }

    pub(crate) fn sign(&mut self, index: u32, more: &str) {
        self.count(more.len());
        if let Some(Building::Thinking { signature, .. }) = self.blocks.get_mut(&index)
            && !self.full
        {
            signature.push_str(more);
        }
    }

    pub(crate) fn is_signed(&self, index: u32) -> bool {
        matches!(
            self.blocks.get(&index),
            Some(Building::Thinking { signature, .. }) if !signature.is_empty()
        )
    }

    /// Gives a tool use what came later of its id and name.
    pub(crate) fn name_tool(&mut self, index: u32, new_id: &str, new_name: &str) {
        let mut bytes = 0;
        if let Some(Building::Tool { id, name, .. }) = self.blocks.get_mut(&index) {
            for (known, new) in [(id, new_id), (name, new_name)] {
                if known.is_empty() {
                    bytes += new.len();
                    new.clone_into(known);
                }
            }
        }
        self.count(bytes);
    }

    /// Whether a tool use has all its arguments.
    pub(crate) fn is_tool_whole(&self, index: u32) -> bool {
        matches!(self.blocks.get(&index), Some(Building::Tool { args, .. }) if is_object(args))
    }

    /// Returns the id of a tool use.
    pub(crate) fn tool_id(&self, index: u32) -> &str {
        match self.blocks.get(&index) {
            Some(Building::Tool { id, .. }) => id,
            _ => "",
        }
    }

    pub(crate) fn add_to_vendor_input(&mut self, index: u32, more: &str) {
        if self.is_vendor_with_room(index, more.len())
            && let Some(Building::Vendor { input, .. }) = self.blocks.get_mut(&index)
        {
            input.push_str(more);
        }
    }

    pub(crate) fn change_vendor(&mut self, index: u32, bytes: usize, by: impl FnOnce(&mut Value)) {
        if self.is_vendor_with_room(index, bytes)
            && let Some(Building::Vendor { json, .. }) = self.blocks.get_mut(&index)
            && json.is_object()
        {
            by(json);
        }
    }

    pub(crate) fn finish(self) -> Reply {
        let full = self.full;
        let blocks = self.blocks.into_values();
        let mut blocks: Vec<Block> = blocks.filter_map(Building::finish).collect();
        if full {
            match blocks.last_mut().and_then(|last| last.block.as_mut()) {
                Some(block::Block::Text(text)) => text.text.push_str(CUT_NOTE),
                // What was cut is the last tool use; nothing may stand behind it.
                Some(block::Block::ToolUse(_)) => {}
                _ => blocks.push(Block {
                    block: Some(block::Block::Text(TextBlock {
                        text: CUT_NOTE.to_owned(),
                    })),
                }),
            }
        }
        let (stop, vendor_stop) = if full {
            (StopReason::MaxTokens, "cut by the box".to_owned())
        } else {
            (self.stop, self.vendor_stop)
        };
        Reply {
            blocks,
            stop,
            vendor_stop,
            usage: self.usage,
            vendor_request_id: self.vendor_request_id,
        }
    }

    fn open(&mut self, index: u32, bytes: usize, building: impl FnOnce() -> Building) {
        if self.full || self.blocks.contains_key(&index) {
            return;
        }
        self.count(BLOCK_BYTES + bytes);
        self.full |= self.blocks.len() >= BLOCKS_MAX;
        if !self.full {
            self.blocks.insert(index, building());
        }
    }

    /// A vendor's own block that does not fit goes: half of one is worse than none.
    fn is_vendor_with_room(&mut self, index: u32, bytes: usize) -> bool {
        if !self.is_vendor(index) {
            return false;
        }
        self.count(bytes);
        if self.full {
            self.blocks.remove(&index);
        }
        !self.full
    }

    fn count(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.full |= self.bytes > BYTES_MAX;
    }

    fn fit(&mut self, text: &str) -> String {
        let room = BYTES_MAX.saturating_sub(self.bytes);
        if text.len() <= room {
            return text.to_owned();
        }
        self.full = true;
        prefix(text, room).to_owned()
    }
}

fn is_object(json: &str) -> bool {
    json.starts_with('{') && serde_json::from_str::<serde::de::IgnoredAny>(json).is_ok()
}
