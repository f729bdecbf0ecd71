//! A step made ready to be sent: ids given, placeholders filled, text cut into chunks.

use std::num::NonZeroUsize;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::conversation::{Conversation, fill};
use crate::script::{Script, Step, Stop, Usage};

/// Argument fragments are this long unless the script says otherwise: long enough to be cheap, short
/// enough that every call takes several.
const ARGUMENT_CHUNK_CHARS: usize = 24;

/// What the model says in one turn.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) id: String,
    pub(crate) model: String,
    pub(crate) thinking: Option<String>,
    /// Whether OpenAI chat shows the thinking.
    pub(crate) shows_thinking: bool,
    pub(crate) vendor_block: Option<Value>,
    pub(crate) text: Option<String>,
    pub(crate) refusal: Option<String>,
    pub(crate) calls: Vec<Call>,
    pub(crate) stop: Stop,
    pub(crate) usage: Usage,
    pub(crate) chunk_chars: Option<NonZeroUsize>,
    pub(crate) chunk_delay: Duration,
}

/// One tool call with its arguments as they go over the wire.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
}

impl Reply {
    /// Makes a step ready. The seed gives the ids, so equal requests get equal bytes.
    pub(crate) fn new(
        script: &Script,
        step: &Step,
        conversation: &Conversation,
        seed: &Seed,
    ) -> Self {
        let last = conversation.last();
        let text = step
            .text
            .as_ref()
            .map(|text| fill(text, &last))
            .filter(|text| !text.is_empty());
        let calls: Vec<Call> = step
            .tools
            .iter()
            .enumerate()
            .map(|(index, tool)| Call {
                id: seed.id(&format!("call {index}")),
                name: tool.name.clone(),
                arguments: match (&tool.raw_args, &tool.args) {
                    (Some(raw), _) => raw.clone(),
                    (None, Some(args)) => Value::Object(args.clone()).to_string(),
                    (None, None) => "{}".to_owned(),
                },
            })
            .collect();
        let stop = step
            .stop
            .unwrap_or(match (&step.refusal, calls.as_slice()) {
                (Some(_), _) => Stop::Refusal,
                (None, []) => Stop::EndTurn,
                (None, _) => Stop::ToolUse,
            });
        let mut reply = Self {
            id: seed.id("message"),
            model: conversation.model.clone(),
            thinking: step.thinking.clone(),
            shows_thinking: script.reasoning_content,
            vendor_block: step.vendor_block.clone().map(Value::Object),
            text,
            refusal: step.refusal.clone(),
            calls,
            stop,
            usage: Usage::default(),
            chunk_chars: step.chunk_chars.or(script.chunk_chars),
            chunk_delay: Duration::from_millis(
                step.chunk_delay_ms.unwrap_or(script.chunk_delay_ms),
            ),
        };
        let estimate = || Usage {
            input: seed.input_tokens,
            output: reply.tokens(),
            ..Usage::default()
        };
        reply.usage = step.usage.unwrap_or_else(estimate);
        reply
    }

    /// Cuts prose into the chunks that travel in one delta each.
    pub(crate) fn chunks<'a>(&self, text: &'a str) -> Vec<&'a str> {
        match self.chunk_chars {
            Some(length) => by_length(text, length.get()),
            None => by_word(text),
        }
    }

    /// Cuts the arguments of a call into fragments.
    pub(crate) fn fragments<'a>(&self, call: &'a Call) -> Vec<&'a str> {
        let length = self
            .chunk_chars
            .map_or(ARGUMENT_CHUNK_CHARS, NonZeroUsize::get);
        by_length(&call.arguments, length)
    }

    /// Estimates the output tokens.
    fn tokens(&self) -> u64 {
        let prose = [&self.thinking, &self.text, &self.refusal];
        let prose: usize = prose.into_iter().flatten().map(String::len).sum();
        let calls: usize = self
            .calls
            .iter()
            .map(|call| call.name.len() + call.arguments.len())
            .sum();
        tokens_of(prose + calls)
    }
}

/// Where the ids of one answer come from.
#[derive(Clone, Debug)]
pub(crate) struct Seed {
    hash: blake3::Hash,
    input_tokens: u64,
}

impl Seed {
    /// Returns the seed of one attempt at a request body. A retry gets other ids, as it would from a
    /// vendor.
    pub(crate) fn new(body: &[u8], attempt: u32) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&attempt.to_be_bytes()).update(body);
        Self {
            hash: hasher.finalize(),
            input_tokens: tokens_of(body.len()),
        }
    }

    fn id(&self, of: &str) -> String {
        let hash = blake3::keyed_hash(self.hash.as_bytes(), of.as_bytes()).to_hex();
        hash.chars().take(24).collect()
    }
}

/// Signs a thinking block, so that a client that alters it can be caught without any state.
pub(crate) fn signature_of(thinking: &str) -> String {
    STANDARD.encode(blake3::derive_key(
        "cocoonbox-model thinking signature",
        thinking.as_bytes(),
    ))
}

/// Estimates tokens at four bytes each, as a rule of thumb does.
pub(crate) fn tokens_of(length: usize) -> u64 {
    u64::try_from(length.div_ceil(4)).unwrap_or(u64::MAX)
}

fn by_length(text: &str, length: usize) -> Vec<&str> {
    let mut chunks = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest
            .char_indices()
            .nth(length)
            .map_or(rest.len(), |(at, _)| at);
        let (chunk, after) = rest.split_at(end);
        chunks.push(chunk);
        rest = after;
    }
    chunks
}

/// Each chunk is a word with the whitespace before it, which is how vendors' tokens fall.
fn by_word(text: &str) -> Vec<&str> {
    let mut chunks = Vec::new();
    let mut start = 0;
    let mut in_word = false;
    for (at, character) in text.char_indices() {
        if character.is_whitespace() && in_word {
            chunks.push(&text[start..at]);
            start = at;
        }
        in_word = !character.is_whitespace();
    }
    if start < text.len() {
        chunks.push(&text[start..]);
    }
    chunks
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_keep_the_space_before_them() {
        assert_eq!(by_word("All  is\nwell. "), ["All", "  is", "\nwell.", " "]);
    }

    proptest! {
        #[test]
        fn chunks_join_to_the_text(text in "\\PC{0,60}|[ \na\u{e9}]{0,20}", length in 1_usize..9) {
            prop_assert_eq!(by_word(&text).concat(), text.as_str());
            prop_assert!(by_word(&text).iter().all(|chunk| !chunk.is_empty()));
            prop_assert_eq!(by_length(&text, length).concat(), text.as_str());
        }
    }
}
