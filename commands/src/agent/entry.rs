//! What a conversation consists of.

use cocoonbox_events::erasure::{self, ERASED};
use cocoonbox_proto::log::v1::{Block, Image, agent_tool_finished::Outcome, block};

/// Bytes of text that are about a token.
const TOKEN_BYTES: usize = 4;
/// About what a picture costs, at the size that vendors bring it down to.
const IMAGE_TOKENS: u64 = 1_500;

/// One entry of a conversation, as any vendor can be told it.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    User { text: String, images: Vec<Image> },
    Assistant { blocks: Vec<Block> },
    ToolResults(Vec<ToolResult>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct ToolResult {
    pub tool_call_id: String,
    pub outcome: Outcome,
    pub content: String,
    pub images: Vec<Image>,
}

impl Entry {
    /// Returns about how many tokens a model reads it as.
    pub fn tokens(&self) -> u64 {
        let (bytes, images) = match self {
            Self::User { text, images } => (text.len(), images.len()),
            Self::Assistant { blocks } => (blocks.iter().map(block_bytes).sum(), 0),
            Self::ToolResults(results) => (
                results.iter().map(|result| result.content.len()).sum(),
                results.iter().map(|result| result.images.len()).sum(),
            ),
        };
        let bytes = bytes as u64 / TOKEN_BYTES as u64;
        bytes.saturating_add(IMAGE_TOKENS.saturating_mul(images as u64))
    }

    pub(super) fn is_results(&self) -> bool {
        matches!(self, Self::ToolResults(_))
    }

    /// Takes out what may be erased.
    pub(super) fn blank(&mut self) {
        match self {
            Self::User { text, .. } => ERASED.clone_into(text),
            Self::ToolResults(results) => {
                for result in results {
                    ERASED.clone_into(&mut result.content);
                }
            }
            Self::Assistant { blocks } => {
                *blocks = blocks.iter().filter_map(erasure::empty_block).collect();
            }
        }
    }
}

/// Returns how many bytes of text a block has.
pub(super) fn block_bytes(block: &Block) -> usize {
    match &block.block {
        Some(block::Block::Text(text)) => text.text.len(),
        Some(block::Block::Thinking(thinking)) => {
            thinking.text.len() + thinking.signature.len() + thinking.redacted.len()
        }
        Some(block::Block::ToolUse(tool)) => {
            tool.tool_call_id.len() + tool.name.len() + tool.args_json.len()
        }
        Some(block::Block::Vendor(vendor)) => vendor.json.len(),
        None => 0,
    }
}
