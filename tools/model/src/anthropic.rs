//! The Anthropic Messages wire: what goes out. What comes in is read in [`request`].

use bytes::Bytes;
use serde_json::{Value, json};

use crate::fault::Failure;
use crate::playback::Frame;
use crate::reply::{Reply, signature_of};
use crate::script::{Stop, Usage};

mod request;

pub(crate) use request::read;

/// Output tokens that the vendor reports before the first delta.
const OUTPUT_TOKENS_AT_START: u64 = 1;

/// Returns the events of a streamed reply.
pub(crate) fn frames(reply: &Reply) -> Vec<Frame> {
    let mut started = message(reply, Vec::new(), Value::Null);
    started["usage"] = usage(Usage {
        output: OUTPUT_TOKENS_AT_START,
        ..reply.usage
    });
    let mut frames = vec![frame(&json!({"type": "message_start", "message": started}))];
    let mut index = 0;
    let mut block = |start: Value, deltas: Vec<Value>, end: Option<Value>| {
        frames.push(frame(
            &json!({"type": "content_block_start", "index": index, "content_block": start}),
        ));
        if index == 0 {
            frames.push(frame(&json!({"type": "ping"})));
        }
        let delta = |delta| json!({"type": "content_block_delta", "index": index, "delta": delta});
        frames.extend(deltas.into_iter().map(|d| Frame {
            is_chunk: true,
            ..frame(&delta(d))
        }));
        frames.extend(end.map(|d| frame(&delta(d))));
        frames.push(frame(
            &json!({"type": "content_block_stop", "index": index}),
        ));
        index += 1;
    };
    if let Some(thinking) = &reply.thinking {
        let delta = |chunk| json!({"type": "thinking_delta", "thinking": chunk});
        block(
            json!({"type": "thinking", "thinking": "", "signature": ""}),
            reply.chunks(thinking).into_iter().map(delta).collect(),
            Some(json!({"type": "signature_delta", "signature": signature_of(thinking)})),
        );
    }
    if let Some(vendor) = &reply.vendor_block {
        block(vendor.clone(), Vec::new(), None);
    }
    if let Some(text) = prose(reply) {
        let delta = |chunk| json!({"type": "text_delta", "text": chunk});
        block(
            json!({"type": "text", "text": ""}),
            reply.chunks(text).into_iter().map(delta).collect(),
            None,
        );
    }
    for call in &reply.calls {
        let delta = |chunk| json!({"type": "input_json_delta", "partial_json": chunk});
        // The vendor opens every input with an empty fragment.
        let fragments = std::iter::once("").chain(reply.fragments(call));
        block(
            json!({"type": "tool_use", "id": call_id(&call.id), "name": call.name, "input": {}}),
            fragments.map(delta).collect(),
            None,
        );
    }
    frames.push(frame(&json!({
        "type": "message_delta",
        "delta": {"stop_reason": stop_reason(reply.stop), "stop_sequence": null},
        "usage": {
            "input_tokens": reply.usage.input,
            "cache_creation_input_tokens": reply.usage.cache_write,
            "cache_read_input_tokens": reply.usage.cache_read,
            "output_tokens": reply.usage.output,
        },
    })));
    frames.push(frame(&json!({"type": "message_stop"})));
    frames
}

/// Returns a reply that is not streamed.
pub(crate) fn whole(reply: &Reply) -> Value {
    let mut content = Vec::new();
    if let Some(thinking) = &reply.thinking {
        let signature = signature_of(thinking);
        content.push(json!({"type": "thinking", "thinking": thinking, "signature": signature}));
    }
    content.extend(reply.vendor_block.clone());
    content.extend(prose(reply).map(|text| json!({"type": "text", "text": text})));
    content.extend(reply.calls.iter().map(|call| {
        // This shape cannot carry malformed arguments; as a string they still fail every schema.
        let input = serde_json::from_str(&call.arguments)
            .unwrap_or_else(|_| Value::String(call.arguments.clone()));
        json!({"type": "tool_use", "id": call_id(&call.id), "name": call.name, "input": input})
    }));
    message(reply, content, json!(stop_reason(reply.stop)))
}

/// Returns an error body.
pub(crate) fn error(failure: &Failure, request_id: &str) -> Value {
    let (kind, message) = match failure.status {
        401 => ("authentication_error", "invalid x-api-key"),
        402 => ("billing_error", "Your credit balance is too low"),
        403 => (
            "permission_error",
            "Your API key does not have permission for this",
        ),
        404 => ("not_found_error", "Not found"),
        413 => ("request_too_large", "Request exceeds the maximum size"),
        429 => (
            "rate_limit_error",
            "This request would exceed your organization's rate limit",
        ),
        504 => ("timeout_error", "Request timed out"),
        529 => ("overloaded_error", "Overloaded"),
        200 | 500..=599 => ("api_error", "Internal server error"),
        _ => ("invalid_request_error", "Invalid request"),
    };
    json!({
        "type": "error",
        "error": {
            "type": failure.kind.as_deref().unwrap_or(kind),
            "message": failure.message.as_deref().unwrap_or(message),
        },
        "request_id": request_id,
    })
}

/// Returns an error that comes in the middle of a stream.
pub(crate) fn error_event(failure: &Failure, request_id: &str) -> Bytes {
    frame(&error(failure, request_id)).bytes
}

/// Returns an event whose data ends in the middle of a string.
pub(crate) fn garbage() -> Bytes {
    Bytes::from_static(
        b"event: content_block_delta\n\
          data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_del\n\n",
    )
}

/// Returns a sign of life.
pub(crate) fn ping() -> Bytes {
    frame(&json!({"type": "ping"})).bytes
}

/// Returns the models list in this vendor's shape.
pub(crate) fn models(names: &[String]) -> Value {
    let data: Vec<Value> = names
        .iter()
        .map(|name| {
            let created_at = "2026-01-01T00:00:00Z";
            json!({"type": "model", "id": name, "display_name": name, "created_at": created_at})
        })
        .collect();
    json!({"data": data, "has_more": false, "first_id": names.first(), "last_id": names.last()})
}

fn message(reply: &Reply, content: Vec<Value>, stop_reason: Value) -> Value {
    json!({
        "id": format!("msg_01{}", reply.id),
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": null,
        "usage": usage(reply.usage),
    })
}

fn usage(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": usage.cache_write,
            "ephemeral_1h_input_tokens": 0,
        },
        "output_tokens": usage.output,
        "service_tier": "standard",
    })
}

/// A refusal is plain text on this wire; the stop reason tells it apart.
fn prose(reply: &Reply) -> Option<&str> {
    reply.refusal.as_deref().or(reply.text.as_deref())
}

fn call_id(id: &str) -> String {
    format!("toolu_01{id}")
}

fn stop_reason(stop: Stop) -> &'static str {
    match stop {
        Stop::EndTurn => "end_turn",
        Stop::ToolUse => "tool_use",
        Stop::MaxTokens => "max_tokens",
        Stop::StopSequence => "stop_sequence",
        Stop::PauseTurn => "pause_turn",
        Stop::Refusal => "refusal",
        Stop::ModelContextWindowExceeded => "model_context_window_exceeded",
    }
}

fn frame(event: &Value) -> Frame {
    let name = event["type"].as_str().unwrap_or_default();
    let bytes = Bytes::from(format!("event: {name}\ndata: {event}\n\n"));
    Frame {
        bytes,
        is_chunk: false,
    }
}
