//! One block that is being written.

use cocoonbox_proto::log::v1::{
    Block, TextBlock, ThinkingBlock, ToolUseBlock, VendorBlock, Wire, agent_output_streamed::Part,
    block,
};
use serde_json::Value;

#[derive(Debug)]
pub(super) enum Building {
    Text(String),
    Thinking {
        text: String,
        signature: String,
        redacted: String,
        vendor_id: String,
    },
    Tool {
        id: String,
        name: String,
        args: String,
    },
    Vendor {
        wire: Wire,
        json: Value,
        /// The text of its member `input`, where that is streamed.
        input: String,
    },
}

impl Building {
    /// Returns what a delta of this part adds to.
    pub(super) fn part(&mut self, part: Part) -> Option<&mut String> {
        match (self, part) {
            (Self::Text(target), Part::Text)
            | (Self::Thinking { text: target, .. }, Part::Thinking)
            | (Self::Tool { args: target, .. }, Part::ToolArgs) => Some(target),
            _ => None,
        }
    }

    pub(super) fn finish(self) -> Option<Block> {
        let block = match self {
            Self::Text(text) if text.is_empty() => return None,
            Self::Text(text) => block::Block::Text(TextBlock { text }),
            Self::Thinking {
                text,
                signature,
                redacted,
                vendor_id,
            } => block::Block::Thinking(ThinkingBlock {
                text,
                signature,
                redacted,
                vendor_id,
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
                    ..ToolUseBlock::default()
                })
            }
            Self::Vendor {
                wire,
                mut json,
                input,
            } => {
                if !input.is_empty() {
                    // Cut or malformed, the vendor gets it back as it was.
                    json["input"] = serde_json::from_str(&input).unwrap_or(Value::String(input));
                }
                block::Block::Vendor(VendorBlock {
                    wire: wire.into(),
                    json: json.to_string(),
                })
            }
        };
        Some(Block { block: Some(block) })
    }
}
