//! `POST /v1/chat/completions`.

use cocoonbox_commands::agent::{Entry, ToolResult};
use cocoonbox_proto::log::v1::{
    Block, StopReason, agent_output_streamed::Part, agent_tool_finished::Outcome, block,
};
use serde_json::{Value, json};

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
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                },
            })
        })
        .collect();
    let mut messages = vec![json!({ "role": "system", "content": request.system })];
    for entry in request.conversation {
        match entry {
            Entry::User { text } => messages.push(json!({ "role": "user", "content": text })),
            Entry::Assistant { blocks } => messages.extend(assistant(blocks)),
            Entry::ToolResults(results) => messages.extend(results.iter().map(result)),
        }
    }
    json!({
        "model": request.model.model,
        "max_completion_tokens": request.output_tokens_max(),
        "stream": true,
        "stream_options": { "include_usage": true },
        "tools": tools,
        "messages": messages,
    })
}

fn assistant(blocks: &[Block]) -> Option<Value> {
    let mut text = String::new();
    let mut calls = Vec::new();
    for block in blocks {
        match block.block.as_ref() {
            Some(block::Block::Text(block)) => text.push_str(&block.text),
            Some(block::Block::ToolUse(tool)) => calls.push(json!({
                "id": tool.tool_call_id,
                "type": "function",
                "function": { "name": tool.name, "arguments": tool.args_json },
            })),
            // This wire does not take thinking back.
            Some(block::Block::Thinking(_)) | None => {}
        }
    }
    let mut message = json!({ "role": "assistant", "content": Value::Null });
    if !text.is_empty() {
        message["content"] = text.into();
    }
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    let says_something = !message["content"].is_null() || message.get("tool_calls").is_some();
    says_something.then_some(message)
}

/// This wire has no mark for a failed tool, so the text says it.
fn result(result: &ToolResult) -> Value {
    let content = match result.outcome {
        Outcome::Ok if result.content.is_empty() => "[no output]".to_owned(),
        Outcome::Ok => result.content.clone(),
        outcome => {
            let outcome = outcome.as_str_name().to_ascii_lowercase();
            format!("[{outcome}] {}", result.content)
        }
    };
    json!({ "role": "tool", "tool_call_id": result.tool_call_id, "content": content })
}

/// Reads the stream.
#[derive(Debug)]
pub(super) struct Parser {
    assembly: Assembly,
    call_id: String,
    next_block: u32,
    text: Option<u32>,
    thinking: Option<u32>,
    /// Vendor's index of each tool call, and our block.
    tools: Vec<(u64, u32)>,
    refused: bool,
    finished: bool,
    done: bool,
}

impl Parser {
    pub(super) fn new(call_id: &str) -> Self {
        Self {
            assembly: Assembly::default(),
            call_id: call_id.to_owned(),
            next_block: 0,
            text: None,
            thinking: None,
            tools: Vec::new(),
            refused: false,
            finished: false,
            done: false,
        }
    }

    pub(super) fn take(&mut self, event: &Event) -> Result<Vec<Delta>, Failure> {
        if event.data.trim() == "[DONE]" {
            if !self.finished {
                return Err(Failure::new(
                    cocoonbox_proto::log::v1::agent_model_failed::Reason::Cut,
                    "the stream ended without a finish reason",
                ));
            }
            self.done = true;
            return Ok(Vec::new());
        }
        let data = super::json(&event.data)?;
        if let Some(error) = data.get("error").filter(|error| !error.is_null()) {
            return Err(Failure::of_error(error));
        }
        if let Some(id) = data.get("id").and_then(Value::as_str) {
            id.clone_into(&mut self.assembly.vendor_request_id);
        }
        if let Some(usage) = data.get("usage").filter(|usage| usage.is_object()) {
            self.usage(usage);
        }
        let Some(choice) = data.get("choices").and_then(|choices| choices.get(0)) else {
            return Ok(Vec::new());
        };
        let mut deltas = Vec::new();
        if let Some(delta) = choice.get("delta") {
            self.delta(delta, &mut deltas)?;
        }
        if let Some(reason) = choice.get("finish_reason").and_then(Value::as_str) {
            self.finished = true;
            self.assembly.stop = self.stop_reason(reason);
            reason.clone_into(&mut self.assembly.vendor_stop);
        }
        Ok(deltas)
    }

    pub(super) fn is_done(&self) -> bool {
        self.done || self.assembly.is_full()
    }

    pub(super) fn finish(mut self) -> Reply {
        for (at, (_, block)) in self.tools.iter().enumerate() {
            // Some servers give no ids; results have to be tied to calls all the same.
            self.assembly
                .name_tool(*block, &format!("call_{}_{at}", self.call_id), "");
        }
        self.assembly.finish()
    }

    fn delta(&mut self, delta: &Value, deltas: &mut Vec<Delta>) -> Result<(), Failure> {
        let field = |name: &str| {
            delta
                .get(name)
                .and_then(Value::as_str)
                .filter(|text| !text.is_empty())
        };
        if let Some(text) = field("reasoning_content").or_else(|| field("reasoning")) {
            let block = match self.thinking {
                Some(block) => block,
                None => {
                    let block = self.block();
                    self.assembly.open_thinking(block, String::new());
                    *self.thinking.insert(block)
                }
            };
            deltas.extend(self.assembly.add(block, Part::Thinking, text));
        }
        self.refused |= field("refusal").is_some();
        for text in [field("content"), field("refusal")].into_iter().flatten() {
            let block = match self.text {
                Some(block) => block,
                None => {
                    let block = self.block();
                    self.assembly.open_text(block);
                    *self.text.insert(block)
                }
            };
            deltas.extend(self.assembly.add(block, Part::Text, text));
        }
        for call in delta
            .get("tool_calls")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            if !call.is_object() {
                return Err(Failure::garbled("a tool call is not an object".to_owned()));
            }
            self.tool(call, deltas);
        }
        Ok(())
    }

    fn tool(&mut self, call: &Value, deltas: &mut Vec<Delta>) {
        let index = call
            .get("index")
            .and_then(Value::as_u64)
            .unwrap_or_default();
        let function = &call["function"];
        let text = |value: &Value, field: &str| {
            value
                .get(field)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let (id, name) = (text(call, "id"), text(function, "name"));
        let known = self
            .tools
            .iter()
            .find(|(known, _)| *known == index)
            .map(|(_, block)| *block);
        let block = match known {
            Some(block) => {
                self.assembly.name_tool(block, &id, &name);
                block
            }
            None => {
                let block = self.block();
                self.tools.push((index, block));
                self.assembly.open_tool(block, id, name);
                block
            }
        };
        deltas.extend(
            self.assembly
                .add(block, Part::ToolArgs, &text(function, "arguments")),
        );
    }

    fn block(&mut self) -> u32 {
        let block = self.next_block;
        self.next_block += 1;
        block
    }

    /// This vendor counts cached tokens among the input; the log has them apart.
    fn usage(&mut self, usage: &Value) {
        let count = |value: &Value| value.as_u64().unwrap_or_default();
        let cached = count(&usage["prompt_tokens_details"]["cached_tokens"]);
        let known = &mut self.assembly.usage;
        known.input = count(&usage["prompt_tokens"]).saturating_sub(cached);
        known.output = count(&usage["completion_tokens"]);
        known.cache_read = cached;
    }

    fn stop_reason(&self, reason: &str) -> StopReason {
        match reason {
            _ if self.refused => StopReason::Refusal,
            // Some servers say `stop` although they ask for tools.
            "stop" if !self.tools.is_empty() => StopReason::ToolUse,
            "stop" => StopReason::EndTurn,
            "tool_calls" | "function_call" => StopReason::ToolUse,
            "length" => StopReason::MaxTokens,
            "content_filter" => StopReason::Refusal,
            _ => StopReason::OtherStop,
        }
    }
}
