//! Reads an OpenAI Chat Completions request and refuses what the vendor would refuse.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;

use crate::conversation::{Conversation, Turn};
use crate::fault::Failure;
use crate::picture;

#[derive(Deserialize)]
struct Request {
    model: String,
    messages: Vec<Message>,
    #[serde(default)]
    stream: bool,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
    #[serde(default)]
    tools: Vec<Offer>,
}

#[derive(Default, Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
    include_obfuscation: Option<bool>,
}

#[derive(Deserialize)]
struct Offer {
    function: Option<Named>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum Message {
    System {},
    Developer {},
    User {
        content: Content,
    },
    Assistant {
        #[serde(default)]
        tool_calls: Vec<Call>,
    },
    Tool {
        tool_call_id: String,
        content: Content,
    },
}

#[derive(Deserialize)]
struct Call {
    id: String,
    function: Named,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Deserialize)]
struct Part {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    image_url: Option<ImageUrl>,
}

#[derive(Deserialize)]
struct ImageUrl {
    url: String,
}

/// Reads a request body.
pub(crate) fn read(body: Value) -> Result<Conversation, Failure> {
    let request: Request =
        serde_json::from_value(body).map_err(|error| Failure::invalid(error.to_string()))?;
    if request.messages.is_empty() {
        return Err(Failure::invalid(
            "Invalid 'messages': empty array. Expected an array with minimum length 1.",
        ));
    }
    if request.stream_options.is_some() && !request.stream {
        return Err(Failure::invalid(
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
        ));
    }
    let options = request.stream_options.unwrap_or_default();
    check(&request.messages)?;
    Ok(Conversation {
        turns: turns(&request.messages)?,
        images: images(&request.messages),
        namespaces: HashMap::new(),
        model: request.model,
        stream: request.stream,
        include_usage: options.include_usage,
        include_obfuscation: options.include_obfuscation.unwrap_or(true),
        offered: request
            .tools
            .into_iter()
            .filter_map(|tool| tool.function.map(|function| function.name))
            .collect(),
    })
}

/// Looks at pictures and names.
fn check(messages: &[Message]) -> Result<(), Failure> {
    for (at, message) in messages.iter().enumerate() {
        match message {
            Message::User { content } => {
                for url in content.images() {
                    picture::check_url(url).map_err(|fact| {
                        Failure::invalid(format!("Invalid 'messages[{at}].content': {fact}."))
                    })?;
                }
            }
            Message::Tool { content, .. } if content.images().next().is_some() => {
                return Err(Failure::invalid(format!(
                    "Invalid 'messages[{at}]': Image URLs are only allowed for messages with role \
                     'user', but this message with role 'tool' contains an image URL."
                )));
            }
            Message::Assistant { tool_calls } => {
                let mut calls = tool_calls.iter();
                if calls.any(|call| !picture::is_name(&call.function.name)) {
                    return Err(Failure::invalid(format!(
                        "Invalid 'messages[{at}].tool_calls': string does not match pattern. \
                         Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
                    )));
                }
            }
            Message::Tool { .. } | Message::System {} | Message::Developer {} => {}
        }
    }
    Ok(())
}

/// Counts the pictures since the model's last turn.
fn images(messages: &[Message]) -> usize {
    let is_reply = |message: &&Message| matches!(message, Message::Assistant { .. });
    let since = messages.iter().rev().take_while(|m| !is_reply(m));
    let counts = since.map(|message| match message {
        Message::User { content } => content.images().count(),
        _ => 0,
    });
    counts.sum()
}

/// Gathers tool messages into one turn and holds them against the calls before.
fn turns(messages: &[Message]) -> Result<Vec<Turn>, Failure> {
    let mut turns = Vec::with_capacity(messages.len());
    // The calls that wait for a tool message, and what was answered so far.
    let mut open: Vec<&str> = Vec::new();
    let mut results: Vec<String> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        if let Message::Tool {
            tool_call_id,
            content,
        } = message
        {
            let Some(index) = open.iter().position(|id| id == tool_call_id) else {
                return Err(Failure::invalid(format!(
                    "Invalid parameter: messages.[{at}] with role 'tool' must be a response to a \
                     preceding message with 'tool_calls'."
                )));
            };
            open.remove(index);
            results.push(content.text());
            continue;
        }
        if let Message::User { content } = message
            && !results.is_empty()
            && open.is_empty()
            && content.images().next().is_some()
        {
            // Pictures right behind results are the tools': this wire has no other place for them.
            continue;
        }
        close(&open, &mut results, &mut turns)?;
        open.clear();
        match message {
            Message::User { content } => turns.push(Turn::Prompt(content.text())),
            Message::Assistant { tool_calls } => {
                open = tool_calls.iter().map(|call| call.id.as_str()).collect();
                turns.push(Turn::Reply);
            }
            Message::System {} | Message::Developer {} | Message::Tool { .. } => {}
        }
    }
    close(&open, &mut results, &mut turns)?;
    Ok(turns)
}

fn close(open: &[&str], results: &mut Vec<String>, turns: &mut Vec<Turn>) -> Result<(), Failure> {
    if !open.is_empty() {
        return Err(Failure::invalid(format!(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to \
             each 'tool_call_id'. The following tool_call_ids did not have response messages: {}",
            open.join(", ")
        )));
    }
    if !results.is_empty() {
        turns.push(Turn::Results(std::mem::take(results)));
    }
    Ok(())
}

impl Content {
    fn images(&self) -> impl Iterator<Item = &str> {
        let parts = match self {
            Self::Text(_) => &[],
            Self::Parts(parts) => parts.as_slice(),
        };
        let images = parts.iter().filter(|part| part.kind == "image_url");
        images.map(|part| part.image_url.as_ref().map_or("", |image| &image.url))
    }

    fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Parts(parts) => {
                let texts: Vec<&str> = parts
                    .iter()
                    .filter_map(|part| part.text.as_deref())
                    .collect();
                texts.join("\n")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PNG: &str = "data:image/png;base64,iVBORw0KGgo=";

    fn read_messages(messages: Value) -> Result<Conversation, String> {
        read(json!({"model": "m", "messages": messages}))
            .map_err(|failure| failure.message.unwrap_or_default())
    }

    #[test]
    fn tool_messages_are_one_turn() {
        let conversation = read_messages(json!([
            {"role": "system", "content": "s"},
            {"role": "user", "content": [{"type": "text", "text": "a"}]},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "t", "arguments": "{}"}},
                {"id": "2", "type": "function", "function": {"name": "t", "arguments": "{}"}},
            ]},
            {"role": "tool", "tool_call_id": "2", "content": "r2"},
            {"role": "tool", "tool_call_id": "1", "content": "r1"},
            {"role": "user", "content": [
                {"type": "text", "text": "of 1"}, {"type": "image_url", "image_url": {"url": PNG}},
            ]},
        ]))
        .unwrap();
        assert_eq!(
            conversation.turns,
            [
                Turn::Prompt("a".into()),
                Turn::Reply,
                Turn::Results(vec!["r2".into(), "r1".into()])
            ]
        );
        assert_eq!(conversation.images, 1);
    }

    #[test]
    fn pictures_and_names_are_looked_at() {
        let image = json!([{"type": "image_url", "image_url": {"url": "data:image/png;base64,x"}}]);
        let error = read_messages(json!([{"role": "user", "content": image}])).unwrap_err();
        assert!(
            error.starts_with("Invalid 'messages[0].content'"),
            "{error}"
        );
        let call = |name: &str| json!({"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": name}}]});
        let prompt = json!({"role": "user", "content": "a"});
        let error = read_messages(json!([prompt, call("a.b")])).unwrap_err();
        assert!(
            error.starts_with("Invalid 'messages[1].tool_calls'"),
            "{error}"
        );
        let image = json!([{"type": "image_url", "image_url": {"url": PNG}}]);
        let result = json!({"role": "tool", "tool_call_id": "1", "content": image});
        let error = read_messages(json!([prompt, call("a"), result])).unwrap_err();
        assert!(
            error.contains("only allowed for messages with role 'user'"),
            "{error}"
        );
    }

    #[test]
    fn unanswered_and_unasked_calls_are_refused() {
        let call =
            json!({"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "t"}}]});
        let prompt = json!({"role": "user", "content": "hi"});
        let answer = json!({"role": "tool", "tool_call_id": "1", "content": "r"});
        let error = read_messages(json!([prompt, call, prompt])).unwrap_err();
        assert!(
            error.ends_with("did not have response messages: 1"),
            "{error}"
        );
        let error = read_messages(json!([prompt, answer])).unwrap_err();
        assert!(
            error.starts_with("Invalid parameter: messages.[1] with role 'tool'"),
            "{error}"
        );
    }
}
