//! Reads an Anthropic Messages request and refuses what the vendor would refuse.
//!
//! The checks are those that an agent loop can get wrong: answers that miss a call, answers to no
//! call, altered thinking, empty text, thinking where there may be none, too many cache marks.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;

use crate::conversation::{Conversation, Turn};
use crate::fault::Failure;
use crate::picture;
use crate::reply::signature_of;

#[derive(Deserialize)]
struct Request {
    model: String,
    max_tokens: u64,
    messages: Vec<Message>,
    #[serde(default)]
    stream: bool,
    #[serde(default)]
    tools: Vec<Offer>,
    thinking: Option<Thinking>,
}

#[derive(Deserialize)]
struct Thinking {
    #[serde(rename = "type")]
    kind: String,
    budget_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct Offer {
    name: String,
}

#[derive(Deserialize)]
struct Message {
    role: Role,
    content: Content,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Role {
    User,
    Assistant,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Blocks(Vec<Block>),
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
    Text {
        text: String,
    },
    Thinking {
        thinking: String,
        signature: String,
    },
    RedactedThinking {},
    Image {
        source: Source,
    },
    ToolUse {
        id: String,
        name: String,
        input: Value,
    },
    ToolResult {
        tool_use_id: String,
        content: Option<Content>,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Source {
    Base64 { media_type: String, data: String },
    Url { url: String },
    File {},
}

/// Cache marks in one request.
const MARKS_MAX: usize = 4;

/// The smallest budget for thinking.
const BUDGET_TOKENS_MIN: u64 = 1_024;

/// Reads a request body.
pub(crate) fn read(body: Value) -> Result<Conversation, Failure> {
    let marks = marks(&body);
    if marks > MARKS_MAX {
        return Err(Failure::invalid(format!(
            "A maximum of {MARKS_MAX} blocks with cache_control may be provided. Found {marks}."
        )));
    }
    let request: Request =
        serde_json::from_value(body).map_err(|error| Failure::invalid(error.to_string()))?;
    if request.max_tokens == 0 {
        return Err(Failure::invalid(
            "max_tokens: must be greater than or equal to 1",
        ));
    }
    if request.messages.is_empty() {
        return Err(Failure::invalid(
            "messages: at least one message is required",
        ));
    }
    let mut turns = Vec::with_capacity(request.messages.len());
    // The calls of the message before, which this message has to answer.
    let mut open: Vec<&str> = Vec::new();
    for (at, message) in request.messages.iter().enumerate() {
        let place = format!("messages.{at}");
        check_blocks(&place, message)?;
        let answers = message.content.answers();
        check_answers(&place, &open, &answers)?;
        open = message.content.calls();
        turns.push(match message.role {
            Role::Assistant => Turn::Reply,
            Role::User if answers.is_empty() => Turn::Prompt(message.content.text()),
            Role::User => Turn::Results(message.content.results()),
        });
    }
    check_answers(&format!("messages.{}", request.messages.len()), &open, &[])?;
    check_thinking(&request)?;
    let is_user = |message: &&Message| message.role == Role::User;
    let since = request.messages.iter().rev().take_while(is_user);
    let images = since.map(|message| message.content.images()).sum();
    Ok(Conversation {
        model: request.model,
        stream: request.stream,
        include_usage: true,
        include_obfuscation: false,
        offered: request.tools.into_iter().map(|tool| tool.name).collect(),
        namespaces: HashMap::new(),
        images,
        turns,
    })
}

fn marks(value: &Value) -> usize {
    match value {
        Value::Object(fields) => {
            let own = fields
                .get("cache_control")
                .is_some_and(|mark| !mark.is_null());
            usize::from(own) + fields.values().map(marks).sum::<usize>()
        }
        Value::Array(list) => list.iter().map(marks).sum(),
        _ => 0,
    }
}

/// A model that thinks has to have thought at the beginning of its run of tools, and one that does not
/// think cannot go on with thinking.
fn check_thinking(request: &Request) -> Result<(), Failure> {
    let thinking = request
        .thinking
        .as_ref()
        .filter(|thinking| thinking.kind != "disabled");
    let last_reply = || {
        let mut replies = request.messages.iter().enumerate().rev();
        replies.find(|(_, message)| message.role == Role::Assistant)
    };
    let is_last = |at: usize| at + 1 == request.messages.len();
    let Some(thinking) = thinking else {
        return match last_reply() {
            Some((at, reply)) if is_last(at) && reply.content.thinks() => {
                Err(Failure::invalid(format!(
                    "messages.{at}.content.0: When thinking is disabled, an `assistant` message in \
                     the final position cannot contain `thinking`."
                )))
            }
            _ => Ok(()),
        };
    };
    if thinking.kind == "enabled" {
        let budget = thinking.budget_tokens.unwrap_or_default();
        if budget < BUDGET_TOKENS_MIN {
            return Err(Failure::invalid(
                "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
            ));
        }
        if budget >= request.max_tokens {
            return Err(Failure::invalid(
                "`max_tokens` must be greater than `thinking.budget_tokens`.",
            ));
        }
    }
    match last_reply() {
        Some((at, reply))
            if !reply.content.calls().is_empty() && !reply.content.begins_thinking() =>
        {
            Err(Failure::invalid(format!(
                "messages.{at}.content.0.type: Expected `thinking` or `redacted_thinking`, but found \
                 `tool_use`. When `thinking` is enabled, a final `assistant` message must start with \
                 a thinking block."
            )))
        }
        _ => Ok(()),
    }
}

fn check_blocks(place: &str, message: &Message) -> Result<(), Failure> {
    let blocks = match &message.content {
        Content::Text(text) if text.is_empty() => {
            return Err(Failure::invalid(format!(
                "{place}: content must be non-empty"
            )));
        }
        Content::Text(_) => return Ok(()),
        Content::Blocks(blocks) => blocks,
    };
    for (index, block) in blocks.iter().enumerate() {
        let fact = match (block, message.role) {
            (Block::Text { text }, _) if text.trim().is_empty() => {
                "text content blocks must contain non-whitespace text".to_owned()
            }
            (Block::Image { source }, Role::User) => match source.check() {
                Ok(()) => continue,
                Err(fact) => format!("image.source: {fact}"),
            },
            (Block::ToolResult { content, .. }, Role::User) => {
                let mut images = content.iter().flat_map(Content::blocks);
                let wrong = images.find_map(|block| match block {
                    Block::Image { source } => source.check().err(),
                    _ => None,
                });
                match wrong {
                    Some(fact) => format!("tool_result.content: image.source: {fact}"),
                    None => continue,
                }
            }
            (Block::ToolUse { id, name, .. }, Role::Assistant)
                if !picture::is_name(id) || !picture::is_name(name) =>
            {
                "tool_use: String should match pattern '^[a-zA-Z0-9_-]+$'".to_owned()
            }
            (
                Block::Thinking {
                    thinking,
                    signature,
                },
                _,
            ) if *signature != signature_of(thinking) => {
                "Invalid `signature` in `thinking` block".to_owned()
            }
            (Block::ToolUse { input, .. }, _) if !input.is_object() => {
                "`tool_use.input` must be an object".to_owned()
            }
            (
                Block::ToolUse { .. } | Block::Thinking { .. } | Block::RedactedThinking {},
                Role::User,
            ) => "block type is only allowed for `assistant`".to_owned(),
            (Block::ToolResult { .. }, Role::Assistant) => {
                "`tool_result` blocks can only be in `user` messages".to_owned()
            }
            (Block::Image { .. }, Role::Assistant) => {
                "`image` blocks can only be in `user` messages".to_owned()
            }
            _ => continue,
        };
        return Err(Failure::invalid(format!("{place}.content.{index}: {fact}")));
    }
    Ok(())
}

fn check_answers(place: &str, calls: &[&str], answers: &[&str]) -> Result<(), Failure> {
    if let Some(id) = answers.iter().find(|id| !calls.contains(id)) {
        return Err(Failure::invalid(format!(
            "{place}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each \
             `tool_result` block must have a corresponding `tool_use` block in the previous message."
        )));
    }
    if let Some(id) = calls.iter().find(|id| !answers.contains(id)) {
        return Err(Failure::invalid(format!(
            "{place}: `tool_use` ids were found without `tool_result` blocks immediately after: \
             {id}. Each `tool_use` block must have a corresponding `tool_result` block in the next \
             message."
        )));
    }
    Ok(())
}

impl Source {
    fn check(&self) -> Result<(), &'static str> {
        match self {
            Self::Base64 { media_type, data } => picture::check(media_type, data),
            Self::Url { url } => picture::check_url(url),
            Self::File {} => Ok(()),
        }
    }
}

impl Content {
    fn thinks(&self) -> bool {
        let is_thinking =
            |block: &Block| matches!(block, Block::Thinking { .. } | Block::RedactedThinking {});
        self.blocks().iter().any(is_thinking)
    }

    fn begins_thinking(&self) -> bool {
        let first = self.blocks().first();
        first.is_some_and(|b| matches!(b, Block::Thinking { .. } | Block::RedactedThinking {}))
    }

    /// Counts the pictures, those of tools included.
    fn images(&self) -> usize {
        let counts = self.blocks().iter().map(|block| match block {
            Block::Image { .. } => 1,
            Block::ToolResult { content, .. } => content.as_ref().map_or(0, Self::images),
            _ => 0,
        });
        counts.sum()
    }

    fn blocks(&self) -> &[Block] {
        match self {
            Self::Text(_) => &[],
            Self::Blocks(blocks) => blocks,
        }
    }

    fn text(&self) -> String {
        let texts: Vec<&str> = match self {
            Self::Text(text) => vec![text],
            Self::Blocks(blocks) => blocks
                .iter()
                .filter_map(|block| match block {
                    Block::Text { text } => Some(text.as_str()),
                    _ => None,
                })
                .collect(),
        };
        texts.join("\n")
    }

    fn calls(&self) -> Vec<&str> {
        let calls = self.blocks().iter().filter_map(|block| match block {
            Block::ToolUse { id, .. } => Some(id.as_str()),
            _ => None,
        });
        calls.collect()
    }

    fn answers(&self) -> Vec<&str> {
        let answers = self.blocks().iter().filter_map(|block| match block {
            Block::ToolResult { tool_use_id, .. } => Some(tool_use_id.as_str()),
            _ => None,
        });
        answers.collect()
    }

    fn results(&self) -> Vec<String> {
        let result = |block: &Block| match block {
            Block::ToolResult { content, .. } => {
                Some(content.as_ref().map(Content::text).unwrap_or_default())
            }
            _ => None,
        };
        self.blocks().iter().filter_map(result).collect()
    }
}

#[cfg(test)]
mod tests;
