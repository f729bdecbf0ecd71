//! Puts a reply together from what a stream adds, block by block, within the limits of the log.

use std::collections::BTreeMap;

use cocoonbox_commands::agent::REPLY_BYTES_MAX;
use cocoonbox_proto::log::v1::{
    Block, StopReason, TextBlock, ThinkingBlock, TokenUsage, ToolUseBlock,
    agent_output_streamed::Part, block,
};

use crate::prefix::prefix;

/// What is said where a reply had to be cut.
const CUT_NOTE: &str = "\n[cut: the reply is longer than the log takes]";

/// Room for the note and for the framing of blocks.
const BYTES_MAX: usize = REPLY_BYTES_MAX - 4 * 1024;

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

/// A block that is being written.
#[derive(Debug)]
enum Building {
    Text(String),
    Thinking {
        text: String,
        signature: String,
        redacted: String,
    },
    Tool {
        id: String,
        name: String,
        args: String,
    },
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

    pub(crate) fn open_text(&mut self, index: u32) {
        self.open(index, || Building::Text(String::new()));
    }

    pub(crate) fn open_thinking(&mut self, index: u32, redacted: String) {
        self.count(redacted.len());
        self.open(index, || Building::Thinking {
            text: String::new(),
            signature: String::new(),
            redacted,
        });
    }

    pub(crate) fn open_tool(&mut self, index: u32, id: String, name: String) {
        self.count(id.len() + name.len());
        self.open(index, || Building::Tool {
            id,
            name,
            args: String::new(),
        });
    }

    /// Adds to a block; `None` if there is no such block, or nothing fits, or nothing was added.
    pub(crate) fn add(&mut self, index: u32, part: Part, text: &str) -> Option<Delta> {
        let text = self.fit(text);
        let ((Building::Text(target), Part::Text)
        | (Building::Thinking { text: target, .. }, Part::Thinking)
        | (Building::Tool { args: target, .. }, Part::ToolArgs)) =
            (self.blocks.get_mut(&index)?, part)
        else {
            return None;
        };
        target.push_str(&text);
        self.bytes += text.len();
        (!text.is_empty()).then_some(Delta {
            block: index,
            part,
            text,
        })
    }

    pub(crate) fn sign(&mut self, index: u32, more: &str) {
        self.count(more.len());
        if let Some(Building::Thinking { signature, .. }) = self.blocks.get_mut(&index) {
            signature.push_str(more);
        }
    }

    /// Gives a tool use what came later of its id and name.
    pub(crate) fn name_tool(&mut self, index: u32, new_id: &str, new_name: &str) {
        if let Some(Building::Tool { id, name, .. }) = self.blocks.get_mut(&index) {
            if id.is_empty() {
                new_id.clone_into(id);
            }
            if name.is_empty() {
                new_name.clone_into(name);
            }
        }
    }

    pub(crate) fn finish(self) -> Reply {
        let full = self.full;
        let mut blocks: Vec<Block> = self
            .blocks
            .into_values()
            .filter_map(Building::finish)
            .collect();
        if full {
            let note = TextBlock {
                text: CUT_NOTE.to_owned(),
            };
            match blocks.last_mut().and_then(|last| last.block.as_mut()) {
                Some(block::Block::Text(text)) => text.text.push_str(CUT_NOTE),
                // What was cut is the last tool use; nothing may stand behind it.
                Some(block::Block::ToolUse(_)) => {}
                _ => blocks.push(Block {
                    block: Some(block::Block::Text(note)),
                }),
            }
        }
        Reply {
            blocks,
            stop: if full {
                StopReason::MaxTokens
            } else {
                self.stop
            },
            vendor_stop: if full {
                "cut by the box".to_owned()
            } else {
                self.vendor_stop
            },
            usage: self.usage,
            vendor_request_id: self.vendor_request_id,
        }
    }

    fn open(&mut self, index: u32, building: impl FnOnce() -> Building) {
        if self.blocks.len() >= BLOCKS_MAX {
            self.full = true;
        } else if !self.full {
            self.blocks.entry(index).or_insert_with(building);
        }
    }

    fn count(&mut self, bytes: usize) {
        self.bytes += bytes;
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

impl Building {
    fn finish(self) -> Option<Block> {
        let block = match self {
            Self::Text(text) if text.is_empty() => return None,
            Self::Text(text) => block::Block::Text(TextBlock { text }),
            Self::Thinking {
                text,
                signature,
                redacted,
            } => block::Block::Thinking(ThinkingBlock {
                text,
                signature,
                redacted,
            }),
            Self::Tool { id, name, args } => {
                let args_json = if args.trim().is_empty() {
                    "{}".to_owned()
                } else {
                    args
                };
                block::Block::ToolUse(ToolUseBlock {
                    tool_call_id: id,
                    name,
                    args_json,
                })
            }
        };
        Some(Block { block: Some(block) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_reply_is_cut_at_a_character_and_says_so() {
        let mut assembly = Assembly::default();
        assembly.open_text(0);
        let piece = "🦋".repeat(1_000);
        while !assembly.is_full() {
            assembly.add(0, Part::Text, &piece);
        }
        assert_eq!(assembly.add(0, Part::Text, "more"), None);
        let reply = assembly.finish();
        assert_eq!(reply.stop, StopReason::MaxTokens);
        let Some(block::Block::Text(text)) = &reply.blocks[0].block else {
            panic!("no text")
        };
        assert!(text.text.ends_with(CUT_NOTE));
        assert!(text.text.len() <= REPLY_BYTES_MAX);
    }

    #[test]
    fn arguments_that_are_too_long_stay_the_last_block() {
        let mut assembly = Assembly::default();
        assembly.open_tool(0, "a".into(), "write".into());
        assembly.add(0, Part::ToolArgs, &"x".repeat(REPLY_BYTES_MAX));
        let reply = assembly.finish();
        assert_eq!(reply.blocks.len(), 1);
        assert_eq!(reply.stop, StopReason::MaxTokens);
    }
}
