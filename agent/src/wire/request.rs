//! What a call asks for, before it is put into a vendor's words.

use std::{borrow::Cow, sync::Arc};

use cocoonbox_commands::agent::Entry;
use cocoonbox_proto::log::v1::{ModelChoice, Wire};
use serde_json::Value;

use super::{anthropic, image::ImageBytes, openai, responses};

/// Where the configuration says nothing.
pub(super) const OUTPUT_TOKENS_DEFAULT: u32 = 8_192;

/// A tool as the model is told about it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ToolSpec {
    pub(crate) name: Cow<'static, str>,
    pub(crate) description: Cow<'static, str>,
    /// JSON Schema 2020-12.
    pub(crate) parameters: Value,
}

/// One model call.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) model: &'a ModelChoice,
    pub(crate) system: &'a str,
    pub(crate) conversation: &'a [Arc<Entry>],
    pub(crate) tools: &'a [ToolSpec],
    /// Of the pictures that [`super::images_shown`] names.
    pub(crate) images: &'a ImageBytes,
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
            Wire::OpenaiResponses => "/openai/v1/responses",
            Wire::AnthropicMessages | Wire::Unspecified => "/anthropic/v1/messages",
        }
    }

    /// Returns the headers that the wire wants besides the usual ones.
    pub(super) fn headers(&self) -> &'static [(&'static str, &'static str)] {
        match self.wire() {
            Wire::OpenaiChat | Wire::OpenaiResponses => &[],
            Wire::AnthropicMessages | Wire::Unspecified if self.model.thinking_tokens_max > 0 => {
                anthropic::HEADERS_THINKING
            }
            Wire::AnthropicMessages | Wire::Unspecified => anthropic::HEADERS,
        }
    }

    pub(super) fn body(&self) -> Value {
        match self.wire() {
            Wire::OpenaiChat => openai::body(self),
            Wire::OpenaiResponses => responses::body(self),
            Wire::AnthropicMessages | Wire::Unspecified => anthropic::body(self),
        }
    }

    /// Returns how hard OpenAI's models are to think, in the vendor's three words. It takes no number of
    /// tokens.
    pub(super) fn effort(&self) -> Option<&'static str> {
        match self.model.thinking_tokens_max {
            0 => None,
            1..4_096 => Some("low"),
            4_096..16_384 => Some("medium"),
            16_384.. => Some("high"),
        }
    }
}
