//! What is asked of `POST /v1/chat/completions`.

use std::sync::Arc;

use cocoonbox_commands::agent::{Entry, ToolResult};
use cocoonbox_proto::log::v1::{Block, Image, block};
use serde_json::{Value, json};

use super::REASONING_FIELD;
use crate::wire::{image::Gallery, request::Request, told};

pub(in crate::wire) fn body(request: &Request<'_>) -> Value {
    let tools: Vec<Value> = request
        .tools
        .iter()
        .map(|tool| {
            json!({
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                },
            })
        })
        .collect();
    let mut body = json!({
        "model": request.model.model,
        "max_completion_tokens": request.output_tokens_max(),
        "stream": true,
        "stream_options": { "include_usage": true },
        "messages": null,
    });
    // Put in its place as it is: the macro copies, and pictures are in it.
    body["messages"] = messages(request).into();
    // Some servers refuse an empty list.
    if !tools.is_empty() {
        body["tools"] = tools.into();
    }
    if let Some(effort) = request.effort() {
        body["reasoning_effort"] = effort.into();
    }
    body
}

fn messages(request: &Request<'_>) -> Vec<Value> {
    let mut gallery = Gallery::new(request);
    let mut messages = vec![json!({ "role": "system", "content": request.system })];
    let is_user = |entry: &Arc<Entry>| matches!(**entry, Entry::User { .. });
    let last_prompt = request.conversation.iter().rposition(is_user);
    for (at, entry) in request.conversation.iter().enumerate() {
        match &**entry {
            Entry::User { text, images } => messages.push(user(text, images, &mut gallery)),
            Entry::Assistant { blocks } => {
                let is_of_this_turn = last_prompt.is_none_or(|prompt| at > prompt);
                messages.extend(assistant(blocks, is_of_this_turn));
            }
            Entry::ToolResults(results) => {
                messages.extend(results.iter().map(tool_result));
                messages.extend(pictures(results, &mut gallery));
            }
        }
    }
    messages
}

fn text_part(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn picture(image: &Image, gallery: &mut Gallery<'_>) -> Result<Value, String> {
    let url = gallery.show(image).url()?;
    Ok(json!({ "type": "image_url", "image_url": { "url": url } }))
}

/// A prompt without pictures is a plain string: servers of text-only models know nothing else.
fn user(text: &str, images: &[Image], gallery: &mut Gallery<'_>) -> Value {
    let pictures: Vec<_> = images.iter().map(|image| picture(image, gallery)).collect();
    let content: Value = if pictures.iter().any(Result::is_ok) {
        let shown = pictures.into_iter();
        let shown = shown.map(|picture| picture.unwrap_or_else(|note| text_part(&note)));
        let text = (!text.is_empty()).then(|| text_part(text));
        text.into_iter().chain(shown).collect()
    } else {
        let notes = pictures.into_iter().filter_map(Result::err);
        let text = (!text.is_empty()).then(|| text.to_owned());
        let lines: Vec<String> = text.into_iter().chain(notes).collect();
        lines.join("\n").into()
    };
    json!({ "role": "user", "content": content })
}

fn tool_result(result: &ToolResult) -> Value {
    json!({
        "role": "tool",
        "tool_call_id": told::short_id(&result.tool_call_id),
        "content": told::result_with_outcome(result),
    })
}

/// This wire takes pictures from a user only, so those of tools follow as if a user had shown them.
fn pictures(results: &[ToolResult], gallery: &mut Gallery<'_>) -> Option<Value> {
    let mut parts = Vec::new();
    let mut lines = Vec::new();
    let mut has_picture = false;
    for result in results.iter().filter(|result| !result.images.is_empty()) {
        let line = told::picture_line(result);
        parts.push(text_part(&line));
        lines.push(line);
        for image in &result.images {
            match picture(image, gallery) {
                Ok(picture) => {
                    has_picture = true;
                    parts.push(picture);
                }
                Err(note) => {
                    parts.push(text_part(&note));
                    lines.push(note);
                }
            }
        }
    }
    let content: Value = match (has_picture, lines.is_empty()) {
        (true, _) => parts.into(),
        (false, false) => lines.join("\n").into(),
        (false, true) => return None,
    };
    Some(json!({ "role": "user", "content": content }))
}

fn assistant(blocks: &[Block], is_of_this_turn: bool) -> Option<Value> {
    let mut text = String::new();
    let mut thinking = String::new();
    let mut calls = Vec::new();
    let mut message = json!({ "role": "assistant", "content": Value::Null });
    for block in blocks {
        match block.block.as_ref() {
            Some(block::Block::Text(block)) => text.push_str(&block.text),
            Some(block::Block::ToolUse(tool)) => calls.push(json!({
                "id": told::short_id(&tool.tool_call_id),
                "type": "function",
                "function": {
                    "name": told::name(&tool.name),
                    "arguments": told::args_json(&tool.args_json),
                },
            })),
            // Servers that give thinking under this name want it back while the turn goes on.
            Some(block::Block::Thinking(block)) if block.vendor_id == REASONING_FIELD => {
                thinking.push_str(&block.text);
            }
            Some(block::Block::Thinking(_) | block::Block::Vendor(_)) | None => {}
        }
    }
    if text.is_empty() && calls.is_empty() {
        return None;
    }
    if !text.is_empty() {
        message["content"] = text.into();
    }
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    if is_of_this_turn && !thinking.is_empty() {
        message[REASONING_FIELD] = thinking.into();
    }
    Some(message)
}
