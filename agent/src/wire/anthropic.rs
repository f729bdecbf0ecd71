//! `POST /v1/messages`: what comes back. What is asked is in [`request`].

mod request;

use cocoonbox_proto::log::v1::{StopReason, Wire, agent_output_streamed::Part};
use serde_json::{Map, Value, json};

use super::{
    assemble::{Assembly, Delta, Reply},
    failure::Failure,
    json::text,
    sse::Event,
};

pub(super) use request::{HEADERS, HEADERS_THINKING, body};

/// Reads the stream.
#[derive(Debug, Default)]
pub(super) struct Parser {
    assembly: Assembly,
    stopped: bool,
}

impl super::Parser for Parser {
    fn take(&mut self, event: &Event) -> Result<Vec<Delta>, Failure> {
        let data = super::json::parse(&event.data)?;
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
                self.begin(&data["message"]);
                None
            }
            "content_block_start" => self.open(index()?, &data["content_block"]),
            "content_block_delta" => self.add(index()?, &data["delta"]),
            "message_delta" => {
                self.stop(&data["delta"]);
                self.usage(&data["usage"]);
                None
            }
            "message_stop" => {
                self.stopped = true;
                None
            }
            // Compatible servers send one without a type as well.
            _ if data.get("error").is_some_and(|error| !error.is_null()) => {
                return Err(Failure::of_error(&data));
            }
            "error" => return Err(Failure::of_error(&data)),
            // `ping`, `content_block_stop`, and whatever the vendor thinks of next.
            _ => None,
        };
        Ok(delta.into_iter().collect())
    }

    fn take_whole(&mut self, message: &Value) -> Result<Vec<Delta>, Failure> {
        let Some(content) = message.get("content").and_then(Value::as_array) else {
            return Err(Failure::of_error(message));
        };
        self.begin(message);
        let indexed = (0..).zip(content);
        let deltas = indexed.filter_map(|(index, block)| self.open(index, block));
        let deltas = deltas.collect();
        self.stop(message);
        self.stopped = true;
        Ok(deltas)
    }

    fn is_done(&self) -> bool {
        self.stopped || self.assembly.is_full()
    }

    fn may_end(&self) -> bool {
        !self.assembly.vendor_stop.is_empty()
    }

    fn finish(self: Box<Self>) -> Reply {
        self.assembly.finish()
    }
}

impl Parser {
    fn begin(&mut self, message: &Value) {
        text(message, "id").clone_into(&mut self.assembly.vendor_request_id);
        self.usage(&message["usage"]);
    }

    fn stop(&mut self, of: &Value) {
        let stop = text(of, "stop_reason");
        if !stop.is_empty() {
            self.assembly.stop = stop_reason(stop);
            stop.clone_into(&mut self.assembly.vendor_stop);
        }
    }

    fn open(&mut self, index: u32, block: &Value) -> Option<Delta> {
        match text(block, "type") {
            "text" => {
                self.assembly.open_text(index);
                self.assembly.add(index, Part::Text, text(block, "text"))
            }
            "thinking" => {
                self.assembly.open_thinking(index, "", String::new());
                self.assembly.sign(index, text(block, "signature"));
                self.assembly
                    .add(index, Part::Thinking, text(block, "thinking"))
            }
            "redacted_thinking" => {
                let redacted = text(block, "data").to_owned();
                self.assembly.open_thinking(index, "", redacted);
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
            "" => None,
            _ => {
                let wire = Wire::AnthropicMessages;
                self.assembly.open_vendor(index, wire, block.clone());
                None
            }
        }
    }

    fn add(&mut self, index: u32, delta: &Value) -> Option<Delta> {
        let part = match text(delta, "type") {
            "text_delta" => Some((Part::Text, "text")),
            "thinking_delta" => Some((Part::Thinking, "thinking")),
            "input_json_delta" => Some((Part::ToolArgs, "partial_json")),
            "signature_delta" => {
                self.assembly.sign(index, text(delta, "signature"));
                None
            }
            _ => None,
        };
        // To a block of a kind that this build does not know, any delta may come.
        if self.assembly.is_vendor(index) {
            add_to_vendor(&mut self.assembly, index, delta);
            return None;
        }
        let (part, field) = part?;
        self.assembly.add(index, part, text(delta, field))
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

/// The vendor's deltas have one way: a string goes on, `partial_json` is the text of `input`, and a
/// `…s_delta` has one more of a list.
fn add_to_vendor(assembly: &mut Assembly, index: u32, delta: &Value) {
    let list = text(delta, "type").strip_suffix("_delta");
    for (field, value) in delta.as_object().into_iter().flatten() {
        match (field.as_str(), value) {
            ("type", _) => {}
            ("partial_json", Value::String(more)) => assembly.add_to_vendor_input(index, more),
            (_, Value::String(more)) => {
                assembly.change_vendor(index, more.len(), |block| match &mut block[field] {
                    Value::String(so_far) => so_far.push_str(more),
                    other => *other = json!(more),
                });
            }
            (_, value) => {
                let Some(list) = list else { continue };
                let bytes = value.to_string().len();
                assembly.change_vendor(index, bytes, |block| match &mut block[list] {
                    Value::Array(all) => all.push(value.clone()),
                    other => *other = json!([value]),
                });
            }
        }
    }
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
