//! `POST /v1/messages`.

use cocoonbox_commands::agent::{Entry, ToolResult};
use cocoonbox_proto::log::v1::{
    Block, StopReason, agent_output_streamed::Part, agent_tool_finished::Outcome, block,
};
use serde_json::{Map, Value, json};

use super::{
    assemble::{Assembly, Delta, Reply},
    failure::Failure,
    request::Request,
    sse::Event,
};

pub(super) fn body(request: &Request<'_>) -> Value {
    let tools: Vec<Value> = request
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
    // Two cache marks: what never changes in a box, and the conversation so far.
    json!({
        "model": request.model.model,
        "max_tokens": request.output_tokens_max(),
        "stream": true,
        "system": [{
            "type": "text",
            "text": request.system,
            "cache_control": { "type": "ephemeral" },
        }],
        "tools": tools,
        "messages": messages(request.conversation),
    })
}

/// Roles alternate: neighbours of one role become one message.
fn messages(conversation: &[Entry]) -> Vec<Value> {
    let mut messages: Vec<(&str, Vec<Value>)> = Vec::new();
    for entry in conversation {
        let (role, content) = match entry {
            Entry::User { text } => ("user", vec![json!({ "type": "text", "text": text })]),
            Entry::Assistant { blocks } => {
                ("assistant", blocks.iter().filter_map(assistant).collect())
            }
            Entry::ToolResults(results) => ("user", results.iter().map(result).collect()),
        };
        match messages.last_mut() {
            Some((last, all)) if *last == role => all.extend(content),
            // The vendor refuses an empty message, and it says nothing.
            _ if content.is_empty() => {}
            _ => messages.push((role, content)),
        }
    }
    // An assistant's last block may be thinking, which takes no mark.
    let last = messages.last_mut().filter(|(role, _)| *role == "user");
    if let Some(last) = last.and_then(|(_, content)| content.last_mut()) {
        last["cache_control"] = json!({ "type": "ephemeral" });
    }
    messages
        .into_iter()
        .map(|(role, content)| json!({ "role": role, "content": content }))
        .collect()
}

fn assistant(block: &Block) -> Option<Value> {
    match block.block.as_ref()? {
        block::Block::Text(text) if text.text.trim().is_empty() => None,
        block::Block::Text(text) => Some(json!({ "type": "text", "text": text.text })),
        block::Block::Thinking(thinking) if !thinking.redacted.is_empty() => {
            Some(json!({ "type": "redacted_thinking", "data": thinking.redacted }))
        }
        // Without a signature it came over another wire, and this vendor would refuse it.
        block::Block::Thinking(thinking) if thinking.signature.is_empty() => None,
        block::Block::Thinking(thinking) => Some(json!({
            "type": "thinking",
            "thinking": thinking.text,
            "signature": thinking.signature,
        })),
        block::Block::ToolUse(tool) => Some(json!({
            "type": "tool_use",
            "id": tool.tool_call_id,
            "name": tool.name,
            "input": input(&tool.args_json),
        })),
    }
}

/// The vendor takes objects only; malformed arguments go back as what they were.
fn input(args_json: &str) -> Value {
    match serde_json::from_str(args_json) {
        Ok(Value::Object(object)) => Value::Object(object),
        _ => json!({ "malformed_arguments": args_json }),
    }
}

fn result(result: &ToolResult) -> Value {
    let text = if result.content.is_empty() {
        "[no output]"
    } else {
        &result.content
    };
    json!({
        "type": "tool_result",
        "tool_use_id": result.tool_call_id,
        "content": [{ "type": "text", "text": text }],
        "is_error": result.outcome != Outcome::Ok,
    })
}

/// Reads the stream.
#[derive(Debug, Default)]
pub(super) struct Parser {
    assembly: Assembly,
    stopped: bool,
}

impl Parser {
    pub(super) fn take(&mut self, event: &Event) -> Result<Vec<Delta>, Failure> {
        let data = super::json(&event.data)?;
        let kind = data
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or(&event.name);
        let index = || {
            let index = data.get("index").and_then(Value::as_u64);
            index
                .and_then(|index| u32::try_from(index).ok())
                .ok_or_else(|| Failure::garbled(format!("`{kind}` without an index")))
        };
        let delta = match kind {
            "message_start" => {
                let message = &data["message"];
                text(message, "id").clone_into(&mut self.assembly.vendor_request_id);
                self.usage(&message["usage"]);
                None
            }
            "content_block_start" => self.open(index()?, &data["content_block"]),
            "content_block_delta" => self.add(index()?, &data["delta"]),
            "message_delta" => {
                if let Some(stop) = data["delta"].get("stop_reason").and_then(Value::as_str) {
                    self.assembly.stop = stop_reason(stop);
                    stop.clone_into(&mut self.assembly.vendor_stop);
                }
                self.usage(&data["usage"]);
                None
            }
            "message_stop" => {
                self.stopped = true;
                None
            }
            "error" => return Err(Failure::of_error(&data["error"])),
            // `ping`, `content_block_stop`, and whatever the vendor thinks of next.
            _ => None,
        };
        Ok(delta.into_iter().collect())
    }

    pub(super) fn is_done(&self) -> bool {
        self.stopped || self.assembly.is_full()
    }

    pub(super) fn finish(self) -> Reply {
        self.assembly.finish()
    }

    fn open(&mut self, index: u32, block: &Value) -> Option<Delta> {
        match text(block, "type") {
            "text" => {
                self.assembly.open_text(index);
                self.assembly.add(index, Part::Text, text(block, "text"))
            }
            "thinking" => {
                self.assembly.open_thinking(index, String::new());
                self.assembly.sign(index, text(block, "signature"));
                self.assembly
                    .add(index, Part::Thinking, text(block, "thinking"))
            }
            "redacted_thinking" => {
                self.assembly
                    .open_thinking(index, text(block, "data").to_owned());
                None
            }
            "tool_use" => {
                let (id, name) = (text(block, "id").to_owned(), text(block, "name").to_owned());
                self.assembly.open_tool(index, id, name);
                // Arguments come in deltas; a vendor that sends them at once is understood as well.
                let whole = block
                    .get("input")
                    .and_then(Value::as_object)
                    .filter(|o| !o.is_empty());
                let whole = whole.map(|o: &Map<_, _>| Value::Object(o.clone()).to_string());
                self.assembly.add(index, Part::ToolArgs, &whole?)
            }
            _ => None,
        }
    }

    fn add(&mut self, index: u32, delta: &Value) -> Option<Delta> {
        match text(delta, "type") {
            "text_delta" => self.assembly.add(index, Part::Text, text(delta, "text")),
            "thinking_delta" => self
                .assembly
                .add(index, Part::Thinking, text(delta, "thinking")),
            "input_json_delta" => {
                self.assembly
                    .add(index, Part::ToolArgs, text(delta, "partial_json"))
            }
            "signature_delta" => {
                self.assembly.sign(index, text(delta, "signature"));
                None
            }
            _ => None,
        }
    }

    /// Counts are totals; the later event has the later total.
    fn usage(&mut self, usage: &Value) {
        let known = &mut self.assembly.usage;
        let fields = [
            ("input_tokens", &mut known.input),
            ("output_tokens", &mut known.output),
            ("cache_read_input_tokens", &mut known.cache_read),
            ("cache_creation_input_tokens", &mut known.cache_write),
        ];
        for (name, count) in fields {
            if let Some(value) = usage.get(name).and_then(Value::as_u64) {
                *count = value;
            }
        }
    }
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn stop_reason(stop: &str) -> StopReason {
    match stop {
        "end_turn" | "stop_sequence" => StopReason::EndTurn,
        "tool_use" => StopReason::ToolUse,
        "max_tokens" | "model_context_window_exceeded" => StopReason::MaxTokens,
        "refusal" => StopReason::Refusal,
        "pause_turn" => StopReason::PauseTurn,
        _ => StopReason::OtherStop,
    }
}
