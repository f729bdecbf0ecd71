//! `POST /v1/responses`: what comes back. What is asked is in [`request`].
//!
//! A reply is a list of items. Each is announced, streamed, and said again whole at its end; what is said
//! at the end counts.

mod request;

use cocoonbox_proto::log::v1::{
    StopReason, Wire, agent_model_failed::Reason, agent_output_streamed::Part,
};
use serde_json::Value;

use super::{
    assemble::{Assembly, Delta, Reply},
    failure::Failure,
    json::{count, list, text},
    sse::Event,
};

pub(super) use request::body;

/// What stands between the parts of a summary of thinking.
const PART_GAP: &str = "\n\n";

/// Reads the stream.
#[derive(Debug)]
pub(super) struct Parser {
    assembly: Assembly,
    call_id: String,
    items: Vec<Item>,
    /// The number of the latest event and its text, to know one that is sent again.
    latest: (u64, String),
    refused: bool,
    done: bool,
}

/// One item of the reply and the block that it becomes.
#[derive(Debug)]
struct Item {
    id: String,
    output_index: Option<u64>,
    block: u32,
}

impl Parser {
    pub(super) fn new(call_id: &str) -> Self {
        Self {
            assembly: Assembly::default(),
            call_id: call_id.to_owned(),
            items: Vec::new(),
            latest: (0, String::new()),
            refused: false,
            done: false,
        }
    }
}

impl super::Parser for Parser {
    fn take(&mut self, event: &Event) -> Result<Vec<Delta>, Failure> {
        if event.data.trim() == "[DONE]" {
            return Ok(Vec::new());
        }
        let data = super::json::parse(&event.data)?;
        if self.is_repeated(&data, event) {
            return Ok(Vec::new());
        }
        let kind = match text(&data, "type") {
            "" => event.name.as_str(),
            kind => kind,
        };
        let delta = text(&data, "delta");
        let mut deltas = Vec::new();
        match kind {
            "response.created" | "response.in_progress" => self.begin(&data["response"]),
            "response.output_item.added" => {
                self.open(&data["item"], data["output_index"].as_u64(), &mut deltas);
            }
            "response.output_item.done" => {
                self.close(&data["item"], data["output_index"].as_u64(), &mut deltas);
            }
            "response.output_text.delta" => self.add(&data, Part::Text, delta, &mut deltas),
            "response.refusal.delta" => {
                self.refused = true;
                self.add(&data, Part::Text, delta, &mut deltas);
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.add(&data, Part::Thinking, delta, &mut deltas);
            }
            "response.reasoning_summary_part.added" if count(&data["summary_index"]) > 0 => {
                self.add(&data, Part::Thinking, PART_GAP, &mut deltas);
            }
            "response.function_call_arguments.delta" => {
                self.add(&data, Part::ToolArgs, delta, &mut deltas);
            }
            "response.completed" | "response.incomplete" => {
                self.end(&data["response"], &mut deltas);
            }
            "response.cancelled" => {
                return Err(Failure::new(Reason::Cut, "the vendor broke the reply off"));
            }
            "response.failed" => return Err(Failure::of_error(&data["response"])),
            "error" => return Err(Failure::of_error(&data)),
            "" if data.get("error").is_some_and(|error| !error.is_null()) => {
                return Err(Failure::of_error(&data));
            }
            // Ends of parts, annotations, progress of the vendor's own tools, and what is yet to come.
            _ => {}
        }
        Ok(deltas)
    }

    fn take_whole(&mut self, response: &Value) -> Result<Vec<Delta>, Failure> {
        let mut deltas = Vec::new();
        match text(response, "status") {
            "completed" | "incomplete" | "" if response.get("output").is_some() => {
                self.end(response, &mut deltas);
                Ok(deltas)
            }
            _ => Err(Failure::of_error(response)),
        }
    }

    fn is_done(&self) -> bool {
        self.done || self.assembly.is_full()
    }

    /// The reason why it ended and the usage come in the last event only.
    fn may_end(&self) -> bool {
        self.done
    }

    fn finish(mut self: Box<Self>) -> Reply {
        for item in &self.items {
            let id = format!("call_{}_{}", self.call_id, item.block);
            self.assembly.name_tool(item.block, &id, "");
        }
        self.assembly.finish()
    }
}

impl Parser {
    /// Events are numbered. Servers that give each the same number do not number them.
    fn is_repeated(&mut self, data: &Value, event: &Event) -> bool {
        let number = count(&data["sequence_number"]);
        if number == 0 {
            return false;
        }
        let (latest, text) = &self.latest;
        let is_repeated = number < *latest || (number == *latest && *text == event.data);
        if !is_repeated {
            self.latest = (number, event.data.clone());
        }
        is_repeated
    }

    fn begin(&mut self, response: &Value) {
        let id = text(response, "id");
        if !id.is_empty() {
            id.clone_into(&mut self.assembly.vendor_request_id);
        }
    }

    /// Takes the last event in.
    fn end(&mut self, response: &Value, deltas: &mut Vec<Delta>) {
        self.begin(response);
        let is_new = self.items.is_empty();
        for (index, item) in (0..).zip(list(response, "output")) {
            // Ids may differ from those in the stream: nothing is begun here that was streamed already.
            if is_new || self.find(text(item, "id"), None).is_some() {
                self.close(item, Some(index), deltas);
            }
        }
        self.usage(&response["usage"]);
        self.stop(response);
        self.done = true;
    }

    fn find(&self, id: &str, output_index: Option<u64>) -> Option<u32> {
        let by_id = |item: &&Item| !id.is_empty() && item.id == id;
        let by_index = |item: &&Item| output_index.is_some() && item.output_index == output_index;
        let found = self.items.iter().find(by_id);
        let found = found.or_else(|| self.items.iter().rev().find(by_index));
        found.map(|item| item.block)
    }

    /// Begins an item, unless it is there.
    fn open(&mut self, item: &Value, output_index: Option<u64>, deltas: &mut Vec<Delta>) -> u32 {
        let (id, kind) = (text(item, "id"), text(item, "type"));
        let known = self.items.iter().find(|known| {
            if id.is_empty() || known.id.is_empty() {
                output_index.is_some() && known.output_index == output_index
            } else {
                known.id == id
            }
        });
        if let Some(known) = known {
            return known.block;
        }
        let block = u32::try_from(self.items.len()).unwrap_or(u32::MAX);
        self.items.push(Item {
            id: id.to_owned(),
            output_index,
            block,
        });
        match kind {
            "message" => self.assembly.open_text(block),
            "reasoning" => {
                // With an id it is told back; a server without ids is given ours.
                let own = format!("rs_{}_{block}", self.call_id);
                let id = if id.is_empty() { own.as_str() } else { id };
                self.assembly.open_thinking(block, id, String::new());
            }
            "function_call" => {
                let (call, name) = (text(item, "call_id"), text(item, "name"));
                self.assembly
                    .open_tool(block, call.to_owned(), name.to_owned());
                let more = text(item, "arguments");
                deltas.extend(self.assembly.add(block, Part::ToolArgs, more));
            }
            "" => {}
            _ => {
                let wire = Wire::OpenaiResponses;
                self.assembly.open_vendor(block, wire, item.clone());
            }
        }
        block
    }

    fn add(&mut self, data: &Value, part: Part, more: &str, deltas: &mut Vec<Delta>) {
        let block = self.find(text(data, "item_id"), data["output_index"].as_u64());
        deltas.extend(block.and_then(|block| self.assembly.add(block, part, more)));
    }

    /// Takes a whole item in.
    fn close(&mut self, item: &Value, output_index: Option<u64>, deltas: &mut Vec<Delta>) {
        let block = match self.find(text(item, "id"), output_index) {
            Some(block) => block,
            None => self.open(item, output_index, deltas),
        };
        let delta = match text(item, "type") {
            "message" => {
                let parts = list(item, "content").iter();
                self.refused |= parts.clone().any(|part| text(part, "type") == "refusal");
                let said: String = parts
                    .map(|part| match text(part, "refusal") {
                        "" => text(part, "text"),
                        refusal => refusal,
                    })
                    .collect();
                self.assembly.complete(block, Part::Text, &said)
            }
            "reasoning" => {
                if !self.assembly.is_signed(block) {
                    self.assembly.sign(block, text(item, "encrypted_content"));
                }
                let parts = [list(item, "summary"), list(item, "content")];
                let parts = parts.into_iter().find(|parts| !parts.is_empty());
                let parts = parts.unwrap_or_default().iter();
                let thought: Vec<&str> = parts.map(|part| text(part, "text")).collect();
                let thought = thought.join(PART_GAP);
                self.assembly.complete(block, Part::Thinking, &thought)
            }
            "function_call" => {
                let (id, name) = (text(item, "call_id"), text(item, "name"));
                self.assembly.name_tool(block, id, name);
                let args = text(item, "arguments");
                self.assembly.complete(block, Part::ToolArgs, args)
            }
            "" => None,
            _ => {
                let bytes = item.to_string().len();
                let whole = item.clone();
                self.assembly
                    .change_vendor(block, bytes, |known| *known = whole);
                None
            }
        };
        deltas.extend(delta);
    }

    fn stop(&mut self, response: &Value) {
        let why = text(&response["incomplete_details"], "reason");
        let is_incomplete = text(response, "status") == "incomplete" || !why.is_empty();
        let stop = match why {
            _ if self.refused => StopReason::Refusal,
            "max_output_tokens" | "max_tokens" => StopReason::MaxTokens,
            "content_filter" => StopReason::Refusal,
            _ if is_incomplete => StopReason::OtherStop,
            _ if self.assembly.has_tools() => StopReason::ToolUse,
            _ => StopReason::EndTurn,
        };
        self.assembly.stop = stop;
        let words = [why, text(response, "status"), "completed"];
        let word = words.into_iter().find(|word| !word.is_empty());
        word.unwrap_or_default()
            .clone_into(&mut self.assembly.vendor_stop);
    }

    /// This vendor counts cached tokens among the input, and thinking among the output.
    fn usage(&mut self, usage: &Value) {
        let input = count(&usage["input_tokens"]);
        let details = &usage["input_tokens_details"];
        let cached = count(&details["cached_tokens"]).min(input);
        let written = count(&details["cache_write_tokens"]).min(input - cached);
        let known = &mut self.assembly.usage;
        known.input = input - cached - written;
        known.output = count(&usage["output_tokens"]);
        known.cache_read = cached;
        known.cache_write = written;
    }
}
