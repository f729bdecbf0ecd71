//! What a call asks for, before it is put into a vendor's words.

use cocoonbox_commands::agent::Entry;
use cocoonbox_proto::log::v1::{ModelChoice, Wire};
use serde_json::Value;

use super::{anthropic, openai};

/// Where the configuration says nothing.
pub(super) const OUTPUT_TOKENS_DEFAULT: u32 = 8_192;

/// A tool as the model is told about it.
#[derive(Clone, Debug)]
pub(crate) struct ToolSpec {
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
    /// JSON Schema 2020-12.
    pub(crate) parameters: Value,
}

/// One model call.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) model: &'a ModelChoice,
    pub(crate) system: &'a str,
    pub(crate) conversation: &'a [Entry],
    pub(crate) tools: &'a [ToolSpec],
}

impl Request<'_> {
    pub(super) fn wire(&self) -> Wire {
        self.model.wire()
    }

    pub(super) fn output_tokens_max(&self) -> u32 {
        match self.model.output_tokens_max {
            0 => OUTPUT_TOKENS_DEFAULT,
            max => max,
        }
    }

    pub(super) fn path(&self) -> &'static str {
        match self.wire() {
            Wire::OpenaiChat => "/openai/v1/chat/completions",
            Wire::AnthropicMessages | Wire::Unspecified => "/anthropic/v1/messages",
        }
    }

    pub(super) fn body(&self) -> Value {
        match self.wire() {
            Wire::OpenaiChat => openai::body(self),
            Wire::AnthropicMessages | Wire::Unspecified => anthropic::body(self),
        }
    }
}
