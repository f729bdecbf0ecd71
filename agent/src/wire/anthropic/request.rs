//! What is asked of `POST /v1/messages`.

use cocoonbox_commands::agent::{Entry, ToolResult};
use cocoonbox_proto::log::v1::{Block, Image, Wire, agent_tool_finished::Outcome, block};
use serde_json::{Value, json};

use crate::wire::{
    image::{Gallery, Shown},
    request::Request,
    told,
};

const VERSION: (&str, &str) = ("anthropic-version", "2023-06-01");

pub(in crate::wire) const HEADERS: &[(&str, &str)] = &[VERSION];

/// With thinking between tool calls. Models that always do it do not mind the word.
pub(in crate::wire) const HEADERS_THINKING: &[(&str, &str)] = &[
    VERSION,
    ("anthropic-beta", "interleaved-thinking-2025-05-14"),
];

/// The smallest budget that the vendor takes.
const THINKING_TOKENS_MIN: u32 = 1_024;

/// What is left for the answer where thinking might take all.
const ANSWER_TOKENS_MIN: u32 = 1_024;

/// User messages that end in a cache mark: the last, for the next call to find, and the one before it,
/// which is where the call before has put its own. The vendor looks back only twenty blocks from a mark,
/// and one step with many parallel tools is more. With tools and system that makes the four it allows.
const USER_MARKS: usize = 2;

pub(in crate::wire) fn body(request: &Request<'_>) -> Value {
    let mut tools: Vec<Value> = request
        .tools
        .iter()
        .map(|tool| {
            json!({
                "name": tool.name,
                "description": tool.description,
                "input_schema": tool.parameters,
            })
        })
        .collect();
    // Apart from the system's mark: the day in it changes, the tools do not.
    if let Some(last) = tools.last_mut() {
        mark(last);
    }
    let mut messages = messages(request);
    let thinking = thinking_tokens(request).filter(|_| may_think(&messages));
    if thinking.is_none() {
        end_without_thinking(&mut messages);
    }
    let mut body = json!({
        "model": request.model.model,
        "max_tokens": request.output_tokens_max(),
        "stream": true,
        "system": [{ "type": "text", "text": request.system }],
        "tools": null,
        "messages": null,
    });
    // Put in their places as they are: the macro copies, and pictures are in them.
    body["tools"] = tools.into();
    let messages = messages.into_iter().map(Message::into_json);
    body["messages"] = messages.collect();
    mark(&mut body["system"][0]);
    if let Some(tokens) = thinking {
        body["thinking"] = json!({ "type": "enabled", "budget_tokens": tokens });
    }
    body
}

/// One message in the making.
struct Message {
    role: &'static str,
    content: Vec<Value>,
}

impl Message {
    fn into_json(self) -> Value {
        let mut message = json!({ "role": self.role, "content": null });
        message["content"] = self.content.into();
        message
    }
}

/// Roles alternate: neighbours of one role become one message.
fn messages(request: &Request<'_>) -> Vec<Message> {
    let mut gallery = Gallery::new(request);
    let mut messages: Vec<Message> = Vec::new();
    for entry in request.conversation.iter().map(|entry| &**entry) {
        let (role, content) = match entry {
            Entry::User { text, images } => ("user", user(text, images, &mut gallery)),
            Entry::Assistant { blocks } => {
                ("assistant", blocks.iter().filter_map(assistant).collect())
            }
            Entry::ToolResults(results) => {
                let results = results.iter();
                let content = results.map(|result| tool_result(result, &mut gallery));
                ("user", content.collect())
            }
        };
        match messages.last_mut() {
            Some(last) if last.role == role => last.content.extend(content),
            // The vendor refuses an empty message, and it says nothing.
            _ if content.is_empty() => {}
            _ => messages.push(Message { role, content }),
        }
    }
    // An assistant's last block may be thinking, which takes no mark.
    let users = messages
        .iter_mut()
        .rev()
        .filter(|message| message.role == "user");
    for last in users
        .take(USER_MARKS)
        .filter_map(|message| message.content.last_mut())
    {
        mark(last);
    }
    messages
}

fn mark(block: &mut Value) {
    block["cache_control"] = json!({ "type": "ephemeral" });
}

fn user(text: &str, images: &[Image], gallery: &mut Gallery<'_>) -> Vec<Value> {
    // Pictures first: the vendor's models do best so.
    let mut content: Vec<Value> = images.iter().map(|image| picture(image, gallery)).collect();
    if !text.trim().is_empty() || content.is_empty() {
        let text = if text.trim().is_empty() {
            "[no text]"
        } else {
            text
        };
        content.push(json!({ "type": "text", "text": text }));
    }
    content
}

fn picture(image: &Image, gallery: &mut Gallery<'_>) -> Value {
    match gallery.show(image) {
        Shown::Picture { media_type, base64 } => json!({
            "type": "image",
            "source": { "type": "base64", "media_type": media_type, "data": base64 },
        }),
        Shown::Note(note) => json!({ "type": "text", "text": note }),
    }
}

fn tool_result(result: &ToolResult, gallery: &mut Gallery<'_>) -> Value {
    let mut content = vec![json!({ "type": "text", "text": told::result(result) })];
    content.extend(result.images.iter().map(|image| picture(image, gallery)));
    json!({
        "type": "tool_result",
        "tool_use_id": told::plain_id(&result.tool_call_id),
        "content": content,
        "is_error": result.outcome != Outcome::Ok,
    })
}

fn assistant(block: &Block) -> Option<Value> {
    match block.block.as_ref()? {
        block::Block::Text(text) if text.text.trim().is_empty() => None,
        block::Block::Text(text) => Some(json!({ "type": "text", "text": text.text })),
        // It came over another wire, and this vendor would refuse it.
        block::Block::Thinking(thinking) if !thinking.vendor_id.is_empty() => None,
        block::Block::Thinking(thinking) if !thinking.redacted.is_empty() => {
            Some(json!({ "type": "redacted_thinking", "data": thinking.redacted }))
        }
        block::Block::Thinking(thinking) if thinking.signature.is_empty() => None,
        block::Block::Thinking(thinking) => Some(json!({
            "type": "thinking",
            "thinking": thinking.text,
            "signature": thinking.signature,
        })),
        block::Block::ToolUse(tool) => Some(json!({
            "type": "tool_use",
            "id": told::plain_id(&tool.tool_call_id),
            "name": told::name(&tool.name),
            "input": told::args(&tool.args_json),
        })),
        block::Block::Vendor(vendor) => told::vendor(vendor, Wire::AnthropicMessages),
    }
}

fn thinking_tokens(request: &Request<'_>) -> Option<u32> {
    let room = request
        .output_tokens_max()
        .saturating_sub(ANSWER_TOKENS_MIN);
    let tokens = request.model.thinking_tokens_max.min(room);
    (tokens >= THINKING_TOKENS_MIN).then_some(tokens)
}

fn is_thinking(block: &Value) -> bool {
    matches!(
        block["type"].as_str(),
        Some("thinking" | "redacted_thinking")
    )
}

/// Whether the vendor lets a model think here: not within a run of tools that began without, as after a
/// change of models.
fn may_think(messages: &[Message]) -> bool {
    let is_prompt = |message: &&Message| {
        message.role == "user" && !message.content.iter().any(|b| b["type"] == "tool_result")
    };
    let since_prompt = messages.iter().rev().take_while(|m| !is_prompt(m));
    let mut replies = since_prompt.filter(|message| message.role == "assistant");
    replies.all(|reply| reply.content.first().is_some_and(is_thinking))
}

/// A reply that goes on (after a pause) stands last, and may only hold thinking while there is some. Nor
/// may it end in white space.
fn end_without_thinking(messages: &mut Vec<Message>) {
    let Some(last) = messages.last_mut().filter(|last| last.role == "assistant") else {
        return;
    };
    last.content.retain(|block| !is_thinking(block));
    if let Some(Value::String(text)) = last.content.last_mut().and_then(|b| b.get_mut("text")) {
        text.truncate(text.trim_end().len());
    }
    if last.content.is_empty() {
        messages.pop();
    }
}
