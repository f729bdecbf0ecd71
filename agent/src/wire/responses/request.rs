//! What is asked of `POST /v1/responses`.

use cocoonbox_commands::agent::{Entry, ToolResult};
use cocoonbox_proto::log::v1::{Block, Image, ThinkingBlock, Wire, block};
use serde_json::{Value, json};

use crate::wire::{image::Gallery, request::Request, told};

/// The smallest limit of output that the vendor takes.
const OUTPUT_TOKENS_MIN: u32 = 16;

/// Families of the vendor's models that do not think, and refuse to be asked for what they thought.
const WITHOUT_THINKING: [&str; 3] = ["gpt-3", "gpt-4", "chatgpt"];

/// The vendor keeps nothing: the whole conversation goes along each time, and with it, sealed, what the
/// model thought.
pub(in crate::wire) fn body(request: &Request<'_>) -> Value {
    let tools: Vec<Value> = request
        .tools
        .iter()
        .map(|tool| {
            json!({
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
                // Strict schemas allow no optional arguments.
                "strict": false,
            })
        })
        .collect();
    let mut body = json!({
        "model": request.model.model,
        "instructions": request.system,
        "input": null,
        "max_output_tokens": request.output_tokens_max().max(OUTPUT_TOKENS_MIN),
        "store": false,
        "stream": true,
    });
    // Put in its place as it is: the macro copies, and pictures are in it.
    body["input"] = input(request).into();
    if !tools.is_empty() {
        body["tools"] = tools.into();
    }
    let model = request.model.model.as_str();
    if !WITHOUT_THINKING
        .iter()
        .any(|family| model.starts_with(family))
    {
        body["include"] = json!(["reasoning.encrypted_content"]);
    }
    if let Some(effort) = request.effort() {
        body["reasoning"] = json!({ "effort": effort, "summary": "auto" });
    }
    body
}

fn input(request: &Request<'_>) -> Vec<Value> {
    let mut gallery = Gallery::new(request);
    let mut items = Vec::new();
    for entry in request.conversation.iter().map(|entry| &**entry) {
        match entry {
            Entry::User { text, images } => items.push(user(text, images, &mut gallery)),
            Entry::Assistant { blocks } => items.extend(assistant(blocks)),
            Entry::ToolResults(results) => {
                items.extend(results.iter().map(tool_result));
                items.extend(pictures(results, &mut gallery));
            }
        }
    }
    items
}

fn text_part(text: &str) -> Value {
    json!({ "type": "input_text", "text": text })
}

fn picture(image: &Image, gallery: &mut Gallery<'_>) -> Value {
    match gallery.show(image).url() {
        Ok(url) => json!({ "type": "input_image", "image_url": url, "detail": "auto" }),
        Err(note) => text_part(&note),
    }
}

fn message(content: Vec<Value>) -> Value {
    json!({ "type": "message", "role": "user", "content": content })
}

fn user(text: &str, images: &[Image], gallery: &mut Gallery<'_>) -> Value {
    let mut content = vec![text_part(text)];
    content.extend(images.iter().map(|image| picture(image, gallery)));
    message(content)
}

fn tool_result(result: &ToolResult) -> Value {
    json!({
        "type": "function_call_output",
        "call_id": told::short_id(&result.tool_call_id),
        "output": told::result_with_outcome(result),
    })
}

/// Not every server that speaks this wire takes pictures in a tool's output; from a user all do.
fn pictures(results: &[ToolResult], gallery: &mut Gallery<'_>) -> Option<Value> {
    let mut content = Vec::new();
    for result in results.iter().filter(|result| !result.images.is_empty()) {
        content.push(text_part(&told::picture_line(result)));
        content.extend(result.images.iter().map(|image| picture(image, gallery)));
    }
    (!content.is_empty()).then(|| message(content))
}

fn assistant(blocks: &[Block]) -> Vec<Value> {
    let mut items: Vec<Value> = blocks.iter().filter_map(item).collect();
    // The vendor wants thinking to be followed by what it led to.
    while items.last().is_some_and(|item| item["type"] == "reasoning") {
        items.pop();
    }
    items
}

fn item(block: &Block) -> Option<Value> {
    match block.block.as_ref()? {
        block::Block::Text(text) if text.text.is_empty() => None,
        block::Block::Text(text) => Some(json!({
            "type": "message",
            "role": "assistant",
            "content": [{ "type": "output_text", "text": text.text }],
        })),
        block::Block::Thinking(thinking) => reasoning(thinking),
        block::Block::ToolUse(tool) => Some(json!({
            "type": "function_call",
            "call_id": told::short_id(&tool.tool_call_id),
            "name": told::name(&tool.name),
            "arguments": told::args_json(&tool.args_json),
        })),
        block::Block::Vendor(vendor) => told::vendor(vendor, Wire::OpenaiResponses),
    }
}

/// Thinking of another wire has no id or no seal, and this vendor would look for it in vain.
fn reasoning(thinking: &ThinkingBlock) -> Option<Value> {
    if thinking.vendor_id.is_empty() || thinking.signature.is_empty() {
        return None;
    }
    let summary = match thinking.text.as_str() {
        "" => json!([]),
        text => json!([{ "type": "summary_text", "text": text }]),
    };
    Some(json!({
        "type": "reasoning",
        "id": thinking.vendor_id,
        "summary": summary,
        "encrypted_content": thinking.signature,
    }))
}
