//! `POST /v1/chat/completions`: what comes back. What is asked is in [`request`].
//!
//! Many servers speak this wire, each a little differently. Whatever can only mean one thing is taken.

mod request;
mod tools;

use cocoonbox_proto::log::v1::{
    StopReason, agent_model_failed::Reason, agent_output_streamed::Part,
};
use serde_json::Value;

use self::tools::ToolCalls;
use super::{
    assemble::{Assembly, Delta, Reply},
    failure::Failure,
    json::{count, list, text},
    sse::Event,
};

pub(super) use request::body;

/// The field in which some servers give thinking, and want it back. It stands in the log as the thinking's
/// vendor id: servers that give it in another field refuse this one.
const REASONING_FIELD: &str = "reasoning_content";

/// Reads the stream.
#[derive(Debug)]
pub(super) struct Parser {
    assembly: Assembly,
    call_id: String,
    next_block: u32,
    text: Option<u32>,
    thinking: Option<u32>,
    tools: ToolCalls,
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
            tools: ToolCalls::default(),
            refused: false,
            finished: false,
            done: false,
        }
    }
}

impl super::Parser for Parser {
    fn take(&mut self, event: &Event) -> Result<Vec<Delta>, Failure> {
        if event.data.trim() == "[DONE]" {
            // Some servers never say why they ended, only that they did.
            if !self.finished && self.assembly.is_empty() {
                let fact = "the stream ended without a finish reason";
                return Err(Failure::new(Reason::Cut, fact));
            }
            if !self.finished {
                self.stop("stop");
            }
            self.done = true;
            return Ok(Vec::new());
        }
        let data = super::json::parse(&event.data)?;
        self.chunk(&data)
    }

    fn take_whole(&mut self, completion: &Value) -> Result<Vec<Delta>, Failure> {
        if list(completion, "choices").is_empty() {
            return Err(Failure::of_error(completion));
        }
        let deltas = self.chunk(completion)?;
        if !self.finished {
            self.stop("stop");
        }
        self.done = true;
        Ok(deltas)
    }

    fn is_done(&self) -> bool {
        self.done || self.assembly.is_full()
    }

    fn may_end(&self) -> bool {
        self.finished
    }

    fn finish(mut self: Box<Self>) -> Reply {
        // Some servers give no ids; results have to be tied to calls all the same.
        let call_id = &self.call_id;
        for (at, block) in self.tools.blocks().enumerate() {
            let id = format!("call_{call_id}_{at}");
            self.assembly.name_tool(block, &id, "");
        }
        self.assembly.finish()
    }
}

impl Parser {
    /// Takes a piece of a stream in, or a whole completion: it has the same shape.
    fn chunk(&mut self, data: &Value) -> Result<Vec<Delta>, Failure> {
        let is_error = data.get("error").is_some_and(|error| !error.is_null());
        if is_error || text(data, "object") == "error" {
            return Err(Failure::of_error(data));
        }
        let id = text(data, "id");
        if !id.is_empty() {
            id.clone_into(&mut self.assembly.vendor_request_id);
        }
        let choice = list(data, "choices").first().unwrap_or(&Value::Null);
        // Some servers count beside the choice, or in their own corner.
        for usage in [&data["usage"], &choice["usage"], &data["x_groq"]["usage"]] {
            if usage.is_object() {
                self.usage(usage);
                break;
            }
        }
        let mut deltas = Vec::new();
        for delta in ["delta", "message"].map(|field| &choice[field]) {
            if delta.is_object() {
                self.delta(delta, &mut deltas)?;
            }
        }
        let reason = text(choice, "finish_reason");
        if !reason.is_empty() {
            self.stop(reason);
        }
        Ok(deltas)
    }

    fn stop(&mut self, reason: &str) {
        self.finished = true;
        self.assembly.stop = self.stop_reason(reason);
        reason.clone_into(&mut self.assembly.vendor_stop);
    }

    fn delta(&mut self, delta: &Value, deltas: &mut Vec<Delta>) -> Result<(), Failure> {
        for field in [REASONING_FIELD, "reasoning"] {
            let more = text(delta, field);
            if !more.is_empty() {
                self.think(field, more, deltas);
                break;
            }
        }
        self.refused |= !text(delta, "refusal").is_empty();
        for field in ["content", "refusal"] {
            self.say(text(delta, field), deltas);
        }
        // Some servers give content as parts, thinking among them.
        for part in list(delta, "content") {
            match text(part, "type") {
                "text" => self.say(text(part, "text"), deltas),
                "thinking" => {
                    for part in list(part, "thinking") {
                        self.think("thinking", text(part, "text"), deltas);
                    }
                }
                _ => {}
            }
        }
        for call in list(delta, "tool_calls") {
            if !call.is_object() {
                return Err(Failure::garbled("a tool call is not an object".to_owned()));
            }
            self.call(call, deltas);
        }
        // What calls were before there could be several.
        if let Some(function) = delta.get("function_call").filter(|call| call.is_object()) {
            self.call(
                &serde_json::json!({ "index": 0, "function": function }),
                deltas,
            );
        }
        Ok(())
    }

    fn think(&mut self, field: &str, more: &str, deltas: &mut Vec<Delta>) {
        let block = match self.thinking {
            Some(block) => block,
            None => {
                let block = next(&mut self.next_block);
                let vendor_id = if field == REASONING_FIELD { field } else { "" };
                self.assembly.open_thinking(block, vendor_id, String::new());
                *self.thinking.insert(block)
            }
        };
        deltas.extend(self.assembly.add(block, Part::Thinking, more));
    }

    fn say(&mut self, more: &str, deltas: &mut Vec<Delta>) {
        if more.is_empty() {
            return;
        }
        let block = match self.text {
            Some(block) => block,
            None => {
                let block = next(&mut self.next_block);
                self.assembly.open_text(block);
                *self.text.insert(block)
            }
        };
        deltas.extend(self.assembly.add(block, Part::Text, more));
    }

    fn call(&mut self, call: &Value, deltas: &mut Vec<Delta>) {
        let function = &call["function"];
        let (id, name) = (text(call, "id"), text(function, "name"));
        let block = match self.tools.find(call, name, &self.assembly) {
            Some(block) => {
                self.assembly.name_tool(block, id, name);
                block
            }
            None => {
                let block = next(&mut self.next_block);
                self.tools.add(call, block);
                self.assembly
                    .open_tool(block, id.to_owned(), name.to_owned());
                block
            }
        };
        let arguments = match &function["arguments"] {
            Value::String(more) => more.clone(),
            // Some servers give an object instead of its text.
            Value::Object(whole) => Value::Object(whole.clone()).to_string(),
            _ => return,
        };
        deltas.extend(self.assembly.add(block, Part::ToolArgs, &arguments));
    }

    /// This vendor counts cached tokens among the input; the log has them apart. Thinking is counted among
    /// the output, but by some servers beside it: then the total says so.
    fn usage(&mut self, usage: &Value) {
        let prompt = count(&usage["prompt_tokens"]);
        let details = &usage["prompt_tokens_details"];
        let cached = count(&details["cached_tokens"])
            .max(count(&usage["prompt_cache_hit_tokens"]))
            .min(prompt);
        let written = count(&details["cache_write_tokens"]).min(prompt - cached);
        let mut output = count(&usage["completion_tokens"]);
        let reasoning = count(&usage["completion_tokens_details"]["reasoning_tokens"]);
        let with_reasoning = output.saturating_add(reasoning);
        if count(&usage["total_tokens"]) == prompt.saturating_add(with_reasoning) {
            output = with_reasoning;
        }
        let known = &mut self.assembly.usage;
        known.input = prompt - cached - written;
        known.output = output;
        known.cache_read = cached;
        known.cache_write = written;
    }

    fn stop_reason(&self, reason: &str) -> StopReason {
        match reason {
            _ if self.refused => StopReason::Refusal,
            // Some servers say `stop` although they ask for tools.
            "stop" | "eos" if self.assembly.has_tools() => StopReason::ToolUse,
            "stop" | "eos" => StopReason::EndTurn,
            "tool_calls" | "function_call" => StopReason::ToolUse,
            "length" | "max_tokens" => StopReason::MaxTokens,
            "content_filter" => StopReason::Refusal,
            _ => StopReason::OtherStop,
        }
    }
}

fn next(block: &mut u32) -> u32 {
    let this = *block;
    *block += 1;
    this
}
