//! The OpenAI Chat Completions wire: what goes out. What comes in is read in [`request`].

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::conversation::Conversation;
use crate::fault::Failure;
use crate::playback::Frame;
use crate::reply::{Call, Reply, tokens_of};
use crate::script::{Stop, Usage};

mod request;

pub(crate) use request::read;

/// Every answer was made on 2026-01-01: equal requests get equal bytes.
pub(crate) const CREATED: u64 = 1_767_225_600;

const FINGERPRINT: &str = "fp_scripted";

/// The padding hides lengths up to this many characters.
const OBFUSCATION_CHARS: usize = 16;

/// Returns the events of a streamed reply.
pub(crate) fn frames(reply: &Reply, conversation: &Conversation) -> Vec<Frame> {
    let chunk = |delta: Value, finish_reason: Option<&str>| {
        let length = delta.to_string().len();
        let mut chunk = head(reply, "chat.completion.chunk");
        chunk.insert(
            "choices".to_owned(),
            json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish_reason}]),
        );
        if conversation.include_usage {
            chunk.insert("usage".to_owned(), Value::Null);
        }
        if conversation.include_obfuscation {
            let padding = "x".repeat(OBFUSCATION_CHARS - length % OBFUSCATION_CHARS);
            chunk.insert("obfuscation".to_owned(), Value::String(padding));
        }
        Value::Object(chunk)
    };
    let content = |delta: Value| Frame {
        is_chunk: true,
        ..frame(&chunk(delta, None))
    };
    let opening = reply.text.as_ref().map(|_| "");
    let role = json!({"role": "assistant", "content": opening, "refusal": null});
    let mut frames = vec![frame(&chunk(role, None))];
    if let Some(thinking) = reply.thinking.as_ref().filter(|_| reply.shows_thinking) {
        let chunks = reply.chunks(thinking).into_iter();
        frames.extend(chunks.map(|c| content(json!({"reasoning_content": c}))));
    }
    if let Some(refusal) = &reply.refusal {
        frames.extend(
            reply
                .chunks(refusal)
                .into_iter()
                .map(|c| content(json!({"refusal": c}))),
        );
    }
    if let Some(text) = &reply.text {
        frames.extend(
            reply
                .chunks(text)
                .into_iter()
                .map(|c| content(json!({"content": c}))),
        );
    }
    for (index, call) in reply.calls.iter().enumerate() {
        let start = json!({
            "index": index,
            "id": call_id(call),
            "type": "function",
            "function": {"name": call.name, "arguments": ""},
        });
        frames.push(content(json!({"tool_calls": [start]})));
        frames.extend(reply.fragments(call).into_iter().map(|fragment| {
            let arguments = json!({"index": index, "function": {"arguments": fragment}});
            content(json!({"tool_calls": [arguments]}))
        }));
    }
    frames.push(frame(&chunk(json!({}), Some(finish_reason(reply)))));
    if conversation.include_usage {
        let mut last = head(reply, "chat.completion.chunk");
        last.insert("choices".to_owned(), json!([]));
        last.insert("usage".to_owned(), usage(reply));
        frames.push(frame(&Value::Object(last)));
    }
    frames.push(Frame {
        bytes: Bytes::from_static(b"data: [DONE]\n\n"),
        is_chunk: false,
    });
    frames
}

/// Returns a reply that is not streamed.
pub(crate) fn whole(reply: &Reply) -> Value {
    let mut message = json!({
        "role": "assistant",
        "content": reply.text,
        "refusal": reply.refusal,
        "annotations": [],
    });
    if let Some(thinking) = reply.thinking.as_ref().filter(|_| reply.shows_thinking) {
        message["reasoning_content"] = json!(thinking);
    }
    if !reply.calls.is_empty() {
        let call = |call: &Call| {
            let function = json!({"name": call.name, "arguments": call.arguments});
            json!({"id": call_id(call), "type": "function", "function": function})
        };
        message["tool_calls"] = reply.calls.iter().map(call).collect();
    }
    let finish_reason = finish_reason(reply);
    let mut completion = head(reply, "chat.completion");
    completion.insert(
        "choices".to_owned(),
        json!([{"index": 0, "message": message, "logprobs": null, "finish_reason": finish_reason}]),
    );
    completion.insert("usage".to_owned(), usage(reply));
    Value::Object(completion)
}

/// Returns an error body.
pub(crate) fn error(failure: &Failure) -> Value {
    let (kind, code, message) = match failure.status {
        401 => (
            "invalid_request_error",
            Some("invalid_api_key"),
            "Incorrect API key provided",
        ),
        403 => (
            "invalid_request_error",
            Some("unsupported_country_region_territory"),
            "Forbidden",
        ),
        404 => ("invalid_request_error", Some("not_found"), "Not found"),
        429 => (
            "requests",
            Some("rate_limit_exceeded"),
            "Rate limit reached for requests",
        ),
        503 | 529 => (
            "server_error",
            None,
            "The engine is currently overloaded, please try again later",
        ),
        402 => (
            "insufficient_quota",
            Some("insufficient_quota"),
            "Insufficient balance",
        ),
        200 | 500..=599 => (
            "server_error",
            None,
            "The server had an error while processing your request",
        ),
        _ => ("invalid_request_error", None, "Invalid request"),
    };
    json!({
        "error": {
            "message": failure.message.as_deref().unwrap_or(message),
            "type": failure.kind.as_deref().unwrap_or(kind),
            "param": null,
            // The vendor repeats the type of the errors that are not about the request itself.
            "code": failure.kind.as_deref().or(code),
        }
    })
}

/// Returns an error that comes in the middle of a stream.
pub(crate) fn error_event(failure: &Failure) -> Bytes {
    frame(&error(failure)).bytes
}

/// Returns an event whose data ends in the middle of a string.
pub(crate) fn garbage() -> Bytes {
    Bytes::from_static(
        b"data: {\"id\":\"chatcmpl-\",\"choices\":[{\"index\":0,\"delta\":{\"cont\n\n",
    )
}

/// Returns a sign of life: a comment, as proxies send.
pub(crate) fn ping() -> Bytes {
    Bytes::from_static(b": ping\n\n")
}

/// Returns the models list in this vendor's shape.
pub(crate) fn models(names: &[String]) -> Value {
    let model =
        |name| json!({"id": name, "object": "model", "created": CREATED, "owned_by": "script"});
    let data: Vec<Value> = names.iter().map(model).collect();
    json!({"object": "list", "data": data})
}

fn head(reply: &Reply, object: &str) -> Map<String, Value> {
    let head = [
        ("id", json!(format!("chatcmpl-{}", reply.id))),
        ("object", json!(object)),
        ("created", json!(CREATED)),
        ("model", json!(reply.model)),
        ("service_tier", json!("default")),
        ("system_fingerprint", json!(FINGERPRINT)),
    ];
    head.into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}

fn call_id(call: &Call) -> String {
    format!("call_{}", call.id)
}

/// This wire hides thinking but charges for it, and counts cached input as part of the prompt.
fn usage(reply: &Reply) -> Value {
    let Usage {
        input,
        output,
        cache_read,
        cache_write,
    } = reply.usage;
    let prompt = input + cache_read + cache_write;
    let reasoning = reply
        .thinking
        .as_ref()
        .map_or(0, |thinking| tokens_of(thinking.len()));
    json!({
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
        "prompt_tokens_details": {"cached_tokens": cache_read, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": reasoning.min(output),
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    })
}

fn finish_reason(reply: &Reply) -> &'static str {
    match reply.stop {
        // A refusal in its own field is a normal end; a filtered answer is not.
        Stop::Refusal if reply.refusal.is_none() => "content_filter",
        Stop::EndTurn | Stop::StopSequence | Stop::PauseTurn | Stop::Refusal => "stop",
        Stop::ToolUse => "tool_calls",
        Stop::MaxTokens | Stop::ModelContextWindowExceeded => "length",
    }
}

fn frame(chunk: &Value) -> Frame {
    Frame {
        bytes: Bytes::from(format!("data: {chunk}\n\n")),
        is_chunk: false,
    }
}
