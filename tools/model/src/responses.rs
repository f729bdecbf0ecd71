//! The OpenAI Responses wire: what goes out. What comes in is read in [`request`].

use bytes::Bytes;
use serde_json::{Value, json};

use crate::conversation::Conversation;
use crate::fault::Failure;
use crate::openai::{self, CREATED};
use crate::playback::Frame;
use crate::reply::{Call, Reply, signature_of, tokens_of};
use crate::script::{Stop, Usage};

mod request;

pub(crate) use request::read;

/// Returns the events of a streamed reply.
pub(crate) fn frames(reply: &Reply, conversation: &Conversation) -> Vec<Frame> {
    let mut events = Events::default();
    for kind in ["response.created", "response.in_progress"] {
        let response = response(reply, "in_progress", &[]);
        events.push(kind, json!({"response": response}), false);
    }
    let items = items(reply, conversation);
    for (index, item) in items.iter().enumerate() {
        let mut begun = item.whole.clone();
        for (field, value) in &item.begun {
            begun[*field] = value.clone();
        }
        let place = |of: Value| with(of, json!({"output_index": index}));
        events.push(
            "response.output_item.added",
            place(json!({"item": begun})),
            false,
        );
        let id = &item.whole["id"];
        for (kind, fields) in &item.opening {
            let fields = with(fields.clone(), json!({"item_id": id}));
            events.push(kind, place(fields), false);
        }
        for chunk in &item.chunks {
            let fields = with(item.part.clone(), json!({"item_id": id, "delta": chunk}));
            events.push(&format!("{}.delta", item.stream), place(fields), true);
        }
        for (kind, fields) in &item.closing {
            let fields = with(fields.clone(), json!({"item_id": id}));
            events.push(kind, place(fields), false);
        }
        events.push(
            "response.output_item.done",
            place(json!({"item": item.whole})),
            false,
        );
    }
    let (kind, status) = ending(reply);
    let output: Vec<Value> = items.into_iter().map(|item| item.whole).collect();
    let response = response(reply, status, &output);
    events.push(kind, json!({"response": response}), false);
    events.frames
}

/// Returns a reply that is not streamed.
pub(crate) fn whole(reply: &Reply, conversation: &Conversation) -> Value {
    let items = items(reply, conversation).into_iter();
    let output: Vec<Value> = items.map(|item| item.whole).collect();
    response(reply, ending(reply).1, &output)
}

/// Returns an error that comes in the middle of a stream.
pub(crate) fn error_event(failure: &Failure) -> Bytes {
    let error = openai::error(failure)["error"].clone();
    let event = json!({
        "type": "error",
        "code": error["code"].as_str().or(error["type"].as_str()),
        "message": error["message"],
        "param": null,
        "sequence_number": 1_000_000,
    });
    bytes_of("error", &event)
}

/// Returns an event whose data ends in the middle of a string.
pub(crate) fn garbage() -> Bytes {
    Bytes::from_static(
        b"event: response.output_text.delta\n\
          data: {\"type\":\"response.output_text.delta\",\"del\n\n",
    )
}

/// The stream, numbered as it is made.
#[derive(Default)]
struct Events {
    frames: Vec<Frame>,
}

impl Events {
    fn push(&mut self, kind: &str, fields: Value, is_chunk: bool) {
        let number = self.frames.len();
        let event = with(json!({"type": kind, "sequence_number": number}), fields);
        self.frames.push(Frame {
            bytes: bytes_of(kind, &event),
            is_chunk,
        });
    }
}

/// One item of the output, and how it is streamed.
#[derive(Default)]
struct Item<'a> {
    whole: Value,
    /// What it has in the place of its content at first.
    begun: Vec<(&'static str, Value)>,
    opening: Vec<(&'static str, Value)>,
    stream: &'static str,
    /// Says which part of the item a chunk belongs to.
    part: Value,
    chunks: Vec<&'a str>,
    closing: Vec<(&'static str, Value)>,
}

fn items<'a>(reply: &'a Reply, conversation: &Conversation) -> Vec<Item<'a>> {
    let mut items = Vec::new();
    items.extend(reply.thinking.as_ref().map(|text| reasoning(reply, text)));
    items.extend(reply.vendor_block.as_ref().map(|block| Item {
        whole: with(json!({"id": format!("vb_{}", reply.id)}), block.clone()),
        ..Item::default()
    }));
    if let Some(text) = &reply.text {
        items.push(message(reply, text, "output_text"));
    }
    if let Some(refusal) = &reply.refusal {
        items.push(message(reply, refusal, "refusal"));
    }
    let calls = reply.calls.iter();
    items.extend(calls.map(|call| function_call(reply, call, conversation)));
    items
}

fn reasoning<'a>(reply: &'a Reply, text: &'a str) -> Item<'a> {
    let id = format!("rs_{}", reply.id);
    let part = json!({"type": "summary_text", "text": text});
    let place = json!({"summary_index": 0});
    let empty = json!({"type": "summary_text", "text": ""});
    Item {
        whole: json!({
            "id": id,
            "type": "reasoning",
            "summary": [part],
            "encrypted_content": signature_of(&id),
        }),
        begun: vec![("summary", json!([])), ("encrypted_content", json!(""))],
        opening: vec![(
            "response.reasoning_summary_part.added",
            with(place.clone(), json!({"part": empty})),
        )],
        stream: "response.reasoning_summary_text",
        chunks: reply.chunks(text),
        closing: vec![
            (
                "response.reasoning_summary_text.done",
                with(place.clone(), json!({"text": text})),
            ),
            (
                "response.reasoning_summary_part.done",
                with(place.clone(), json!({"part": part})),
            ),
        ],
        part: place,
    }
}

fn message<'a>(reply: &'a Reply, text: &'a str, kind: &'static str) -> Item<'a> {
    let place = json!({"content_index": 0});
    let (field, stream, done) = match kind {
        "refusal" => ("refusal", "response.refusal", "response.refusal.done"),
        _ => ("text", "response.output_text", "response.output_text.done"),
    };
    let part = |text: &str| match kind {
        "refusal" => json!({"type": kind, "refusal": text}),
        _ => json!({"type": kind, "text": text, "annotations": []}),
    };
    Item {
        whole: json!({
            "id": format!("msg_{}", reply.id),
            "type": "message",
            "status": "completed",
            "role": "assistant",
            "content": [part(text)],
        }),
        begun: vec![("status", json!("in_progress")), ("content", json!([]))],
        opening: vec![(
            "response.content_part.added",
            with(place.clone(), json!({"part": part("")})),
        )],
        stream,
        chunks: reply.chunks(text),
        closing: vec![
            (done, with(place.clone(), json!({field: text}))),
            (
                "response.content_part.done",
                with(place.clone(), json!({"part": part(text)})),
            ),
        ],
        part: place,
    }
}

fn function_call<'a>(reply: &'a Reply, call: &'a Call, conversation: &Conversation) -> Item<'a> {
    let mut whole = json!({
        "id": format!("fc_{}", call.id),
        "type": "function_call",
        "status": "completed",
        "arguments": call.arguments,
        "call_id": format!("call_{}", call.id),
        "name": call.name,
    });
    if let Some(namespace) = conversation.namespaces.get(&call.name) {
        whole["namespace"] = json!(namespace);
    }
    Item {
        whole,
        begun: vec![("status", json!("in_progress")), ("arguments", json!(""))],
        opening: Vec::new(),
        stream: "response.function_call_arguments",
        part: json!({}),
        chunks: reply.fragments(call),
        closing: vec![(
            "response.function_call_arguments.done",
            json!({"arguments": call.arguments}),
        )],
    }
}

fn response(reply: &Reply, status: &str, output: &[Value]) -> Value {
    let incomplete = match (status, reply.stop) {
        ("incomplete", Stop::Refusal) => json!({"reason": "content_filter"}),
        ("incomplete", _) => json!({"reason": "max_output_tokens"}),
        _ => Value::Null,
    };
    let usage = match status {
        "in_progress" => Value::Null,
        _ => usage(reply),
    };
    json!({
        "id": format!("resp_{}", reply.id),
        "object": "response",
        "created_at": CREATED,
        "status": status,
        "error": null,
        "incomplete_details": incomplete,
        "model": reply.model,
        "output": output,
        "store": false,
        "usage": usage,
    })
}

/// Cached input counts as part of the input, and thinking as part of the output.
fn usage(reply: &Reply) -> Value {
    let Usage {
        input,
        output,
        cache_read,
        cache_write,
    } = reply.usage;
    let input = input + cache_read + cache_write;
    let thought = reply
        .thinking
        .as_ref()
        .map_or(0, |text| tokens_of(text.len()));
    json!({
        "input_tokens": input,
        "input_tokens_details": {"cached_tokens": cache_read},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": thought.min(output)},
        "total_tokens": input + output,
    })
}

/// Returns the last event and the status in it.
fn ending(reply: &Reply) -> (&'static str, &'static str) {
    match reply.stop {
        Stop::MaxTokens | Stop::ModelContextWindowExceeded => ("response.incomplete", "incomplete"),
        // A refusal in its own part is a normal end; a filtered answer is not.
        Stop::Refusal if reply.refusal.is_none() => ("response.incomplete", "incomplete"),
        Stop::EndTurn | Stop::ToolUse | Stop::StopSequence | Stop::PauseTurn | Stop::Refusal => {
            ("response.completed", "completed")
        }
    }
}

fn with(mut of: Value, more: Value) -> Value {
    if let (Value::Object(fields), Value::Object(more)) = (&mut of, more) {
        fields.extend(more);
    }
    of
}

fn bytes_of(kind: &str, event: &Value) -> Bytes {
    Bytes::from(format!("event: {kind}\ndata: {event}\n\n"))
}
