//! What a whole stream comes to, however its bytes are split, and that no bytes break a parser.

use cocoonbox_proto::log::v1::{
    StopReason, TokenUsage, Wire, agent_model_failed::Reason, agent_output_streamed::Part,
};
use proptest::prelude::*;
use serde_json::Value;

use super::{RECORDED, events, parse, reply, told};

#[test]
fn anthropic_blocks_are_kept_whatever_they_are() {
    let (wire, text) = RECORDED[0];
    let reply = reply(wire, text);
    let expected = [
        "thinking Hm 🦋.|c2ln||",
        "thinking ||xx|",
        r#"vendor {"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"cocoons"}}"#,
        r#"vendor {"type":"of_the_future","note":"ab","citations":[{"url":"u"}]}"#,
        "text Hi",
        r#"ls t1 {"path":"a"}"#,
        "ls t2 {}",
    ];
    assert_eq!(told(&reply), expected);
    assert_eq!(reply.vendor_request_id, "msg_1");
    assert_eq!(reply.vendor_stop, "tool_use");
}

#[test]
fn openai_chat_is_put_together_by_index() {
    let (wire, text) = RECORDED[1];
    let expected = [
        "thinking Hm 🦋.|||reasoning_content",
        "text Hi 🦋",
        r#"ls t1 {"path":"a"}"#,
        "ls t2 {}",
    ];
    assert_eq!(told(&reply(wire, text)), expected);
}

#[test]
fn openai_responses_items_become_blocks() {
    let (wire, text) = RECORDED[2];
    let reply = reply(wire, text);
    let expected = [
        "thinking Hm 🦋.\n\nWell.|c2ln||rs_1",
        r#"vendor {"id":"ws_1","type":"web_search_call","status":"completed","action":{"type":"search","query":"cocoons"}}"#,
        "text Hi 🦋",
        r#"ls t1 {"path":"a"}"#,
        "ls t2 {}",
    ];
    assert_eq!(told(&reply), expected);
    assert_eq!(reply.vendor_request_id, "resp_1");
    assert_eq!(reply.vendor_stop, "completed");
}

#[test]
fn tokens_are_counted_once_on_every_wire() {
    for (wire, text) in RECORDED {
        let reply = reply(wire, text);
        assert_eq!(reply.stop, StopReason::ToolUse);
        let expected = TokenUsage {
            input: 7,
            output: 99,
            cache_read: 3,
            cache_write: 5,
        };
        assert_eq!(reply.usage, expected, "{wire:?}");
    }
}

#[test]
fn what_streams_is_what_is_replied() {
    for (wire, text) in RECORDED {
        let (deltas, reply) = parse(wire, text.as_bytes(), &[]).expect("parses");
        let streamed = |part: Part| {
            let parts = deltas.iter().filter(|delta| delta.part == part);
            parts.map(|delta| delta.text.as_str()).collect::<String>()
        };
        let whole = told(&reply.expect("whole")).join("\n");
        for part in [Part::Text, Part::Thinking] {
            let streamed = streamed(part);
            assert!(!streamed.is_empty());
            assert!(whole.contains(&streamed), "{wire:?} {streamed}");
        }
    }
}

#[test]
fn stop_reasons_of_the_vendors() {
    let anthropic = |stop: &str| {
        let delta = format!(
            r#"{{"type":"message_delta","delta":{{"stop_reason":"{stop}"}},"usage":{{"output_tokens":1}}}}"#
        );
        reply(Wire::AnthropicMessages, &events(&[&delta])).stop
    };
    let cases = [
        ("end_turn", StopReason::EndTurn),
        ("stop_sequence", StopReason::EndTurn),
        ("tool_use", StopReason::ToolUse),
        ("max_tokens", StopReason::MaxTokens),
        ("model_context_window_exceeded", StopReason::MaxTokens),
        ("pause_turn", StopReason::PauseTurn),
        ("refusal", StopReason::Refusal),
        ("of_the_future", StopReason::OtherStop),
    ];
    for (word, stop) in cases {
        assert_eq!(anthropic(word), stop, "{word}");
    }
    let responses = |event: &str, response: &str| {
        let data = format!(r#"{{"type":"{event}","response":{response}}}"#);
        let reply = reply(Wire::OpenaiResponses, &events(&[&data]));
        (reply.stop, reply.vendor_stop)
    };
    let cases = [
        ("max_output_tokens", StopReason::MaxTokens),
        ("content_filter", StopReason::Refusal),
        ("of_the_future", StopReason::OtherStop),
    ];
    for (why, stop) in cases {
        let response =
            format!(r#"{{"status":"incomplete","incomplete_details":{{"reason":"{why}"}}}}"#);
        let expected = (stop, why.to_owned());
        assert_eq!(responses("response.incomplete", &response), expected);
    }
    let refusal = r#"{"status":"completed","output":[{"id":"m","type":"message","content":[{"type":"refusal","refusal":"No."}]}]}"#;
    let expected = (StopReason::Refusal, "completed".to_owned());
    assert_eq!(responses("response.completed", refusal), expected);
}

#[test]
fn errors_in_the_stream_are_errors() {
    let cases = [
        (
            Wire::AnthropicMessages,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#,
            Reason::Overloaded,
        ),
        (
            Wire::OpenaiChat,
            r#"{"error":{"type":"invalid_request_error","message":"no"}}"#,
            Reason::Rejected,
        ),
        (
            Wire::OpenaiResponses,
            r#"{"type":"error","sequence_number":3,"code":"rate_limit_exceeded","message":"slow","param":null}"#,
            Reason::RateLimited,
        ),
        (
            Wire::OpenaiResponses,
            r#"{"type":"error","error":{"type":"invalid_request_error","code":"context_length_exceeded","message":"long"}}"#,
            Reason::TooLong,
        ),
        (
            Wire::OpenaiResponses,
            r#"{"type":"response.failed","response":{"id":"r","status":"failed","error":{"code":"server_error","message":"oops"}}}"#,
            Reason::ServerError,
        ),
        (
            Wire::OpenaiResponses,
            r#"{"type":"response.cancelled","response":{}}"#,
            Reason::Cut,
        ),
    ];
    for (wire, data, reason) in cases {
        let failure = parse(wire, events(&[data]).as_bytes(), &[]).expect_err("an error");
        assert_eq!(failure.reason, reason, "{data}");
    }
    for (wire, _) in RECORDED {
        let failure = parse(wire, b"data: <html>\n\n", &[]).expect_err("garbage");
        assert_eq!(failure.reason, Reason::Garbled);
    }
}

#[test]
fn a_stream_that_is_cut_anywhere_is_no_reply() {
    for (wire, text) in RECORDED {
        // From here on the vendor has said why it ends, and only a formality is missing.
        let said = match wire {
            Wire::AnthropicMessages => text.find("event: message_stop"),
            Wire::OpenaiChat => text
                .find(r#"data: {"id":"c1","object":"chat.completion.chunk","choices":[],"usage""#),
            _ => Some(text.len() - 1),
        };
        let said = said.expect("an end");
        for cut in 0..=said {
            let parsed = parse(wire, &text.as_bytes()[..cut], &[]);
            let (_, reply) = parsed.expect("a cut event is no event");
            assert_eq!(
                reply.is_some(),
                cut == said && said < text.len() - 1,
                "{wire:?} {cut}"
            );
        }
    }
}

fn mutation() -> impl Strategy<Value = (usize, usize, Vec<u8>)> {
    let words = prop_oneof![
        Just(&b"null"[..]),
        Just(&b"-1"[..]),
        Just(&b"[]"[..]),
        Just(&b"{}"[..]),
        Just(&b"\"\""[..]),
        Just(&b"4294967296"[..]),
        Just(&b"\n\n"[..]),
        Just(&b"data: "[..]),
        Just(&b"\xff"[..]),
        Just(&b""[..]),
    ];
    let random = proptest::collection::vec(any::<u8>(), 0..8);
    let bytes = prop_oneof![words.prop_map(<[u8]>::to_vec), random];
    (0_usize..9_000, 0_usize..40, bytes)
}

proptest! {
    #[test]
    fn any_split_is_the_same_reply(cuts in proptest::collection::vec(0_usize..9_000, 0..20)) {
        for (wire, text) in RECORDED {
            let mut cuts: Vec<_> =
                cuts.iter().map(|cut| cut % text.len()).collect();
            cuts.sort_unstable();
            let whole = parse(wire, text.as_bytes(), &[]).expect("parses");
            prop_assert_eq!(parse(wire, text.as_bytes(), &cuts).expect("parses"), whole);
        }
    }

    #[test]
    fn no_change_makes_a_parser_panic(mutations in proptest::collection::vec(mutation(), 1..6)) {
        for (wire, text) in RECORDED {
            let mut bytes = text.as_bytes().to_vec();
            for (at, length, new) in &mutations {
                let at = at % bytes.len();
                let end = (at + length).min(bytes.len());
                bytes.splice(at..end, new.iter().copied());
            }
            parse(wire, &bytes, &[]).ok();
        }
    }

    #[test]
    fn no_value_makes_a_parser_panic(
        at in 0_usize..400,
        new in prop_oneof![Just("null"), Just("[]"), Just("{}"), Just("-1"), Just("\"x\""), Just("[{}]"), Just("1e99"), Just("true")],
        drop in any::<bool>(),
    ) {
        for (wire, text) in RECORDED {
            let replaced = replace_value(text, at, new, drop);
            parse(wire, replaced.as_bytes(), &[]).ok();
        }
    }
}

/// Puts a value in the place of the n-th one of a stream, or takes it out.
fn replace_value(text: &str, at: usize, new: &str, drop: bool) -> String {
    let mut left = at;
    let line = |line: &str| {
        let data = line.strip_prefix("data: ").map(serde_json::from_str);
        let Some(Ok(mut value)) = data else {
            return format!("{line}\n");
        };
        let mut places = Vec::new();
        places_in(&value, "", &mut places);
        if let Some(place) = places.get(left) {
            let (parent, name) = place.rsplit_once('/').expect("below the top");
            match value.pointer_mut(parent) {
                Some(Value::Object(object)) if drop => {
                    object.shift_remove(name);
                }
                _ => {
                    *value.pointer_mut(place).expect("a place") =
                        serde_json::from_str(new).expect("JSON");
                }
            }
        }
        left = left.wrapping_sub(places.len());
        format!("data: {value}\n")
    };
    text.lines().map(line).collect()
}

/// Collects where every value below the top is.
fn places_in(value: &Value, at: &str, places: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(object) => object.iter().map(|(k, v)| (k.clone(), v)).collect(),
        Value::Array(list) => (0..)
            .zip(list)
            .map(|(k, v): (usize, _)| (k.to_string(), v))
            .collect(),
        _ => return,
    };
    for (name, child) in children {
        let at = format!("{at}/{name}");
        places.push(at.clone());
        places_in(child, &at, places);
    }
}
