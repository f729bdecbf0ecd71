//! Reads an Anthropic Messages request and refuses what the vendor would refuse.
//!
//! The checks are those that an agent loop can get wrong: answers that miss a call, answers to no
//! call, altered thinking, empty text.

use serde::Deserialize;
use serde_json::Value;

use crate::conversation::{Conversation, Turn};
use crate::fault::Failure;
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
    ToolUse {
        id: String,
        input: Value,
    },
    ToolResult {
        tool_use_id: String,
        content: Option<Content>,
    },
    #[serde(other)]
    Other,
}

/// Reads a request body.
pub(crate) fn read(body: Value) -> Result<Conversation, Failure> {
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
    Ok(Conversation {
        model: request.model,
        stream: request.stream,
        include_usage: true,
        include_obfuscation: false,
        offered: request.tools.into_iter().map(|tool| tool.name).collect(),
        turns,
    })
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
            (Block::Text { text }, _) if text.is_empty() => {
                "text content blocks must be non-empty".to_owned()
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
            (Block::ToolUse { .. } | Block::Thinking { .. }, Role::User) => {
                "block type is only allowed for `assistant`".to_owned()
            }
            (Block::ToolResult { .. }, Role::Assistant) => {
                "`tool_result` blocks can only be in `user` messages".to_owned()
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

impl Content {
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
mod tests {
    use serde_json::json;

    use super::*;

    fn read_messages(messages: Value) -> Result<Conversation, String> {
        read(json!({"model": "m", "max_tokens": 9, "messages": messages}))
            .map_err(|failure| failure.message.unwrap_or_default())
    }

    #[test]
    fn prompts_replies_and_results_are_told_apart() {
        let conversation = read_messages(json!([
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image"}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "t", "input": {}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "r"}]},
                {"type": "text", "text": "a reminder is no prompt"},
            ]},
        ]))
        .unwrap();
        assert_eq!(
            conversation.turns,
            [
                Turn::Prompt("a".into()),
                Turn::Reply,
                Turn::Results(vec!["r".into()])
            ]
        );
    }

    #[test]
    fn unanswered_and_unasked_calls_are_refused() {
        let call = json!({"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "t", "input": {}}]});
        let answer =
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1"}]});
        let prompt = json!({"role": "user", "content": "hi"});
        let error = read_messages(json!([prompt, call, prompt])).unwrap_err();
        assert!(
            error.starts_with("messages.2: `tool_use` ids were found without"),
            "{error}"
        );
        let error = read_messages(json!([prompt, call])).unwrap_err();
        assert!(
            error.starts_with("messages.2: `tool_use` ids were found without"),
            "{error}"
        );
        let error = read_messages(json!([prompt, answer])).unwrap_err();
        assert!(
            error.starts_with("messages.1: unexpected `tool_use_id`"),
            "{error}"
        );
    }

    #[test]
    fn altered_thinking_is_refused() {
        let said = |thinking: &str| {
            let signature = signature_of("original");
            json!([
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": thinking, "signature": signature},
                ]},
                {"role": "user", "content": "go on"},
            ])
        };
        assert!(read_messages(said("original")).is_ok());
        assert_eq!(
            read_messages(said("altered")).unwrap_err(),
            "messages.1.content.0: Invalid `signature` in `thinking` block"
        );
    }
}
