//! What servers that speak a vendor's wire do differently.

use cocoonbox_proto::log::v1::{StopReason, TokenUsage, Wire, agent_model_failed::Reason};
use serde_json::{Value, json};

use super::{RECORDED, events, parse, reply, told};
use crate::wire::parser;

fn chat(data: &[&str]) -> Vec<String> {
    told(&reply(Wire::OpenaiChat, &events(data)))
}

fn delta(delta: &str) -> String {
    format!(r#"{{"choices":[{{"delta":{delta},"finish_reason":null}}]}}"#)
}

const STOP: &str = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;

#[test]
fn tool_calls_without_an_index_are_told_apart_by_their_ids() {
    let first = delta(r#"{"tool_calls":[{"id":"a","function":{"name":"ls","arguments":"{}"}}]}"#);
    let second =
        delta(r#"{"tool_calls":[{"id":"b","function":{"name":"read","arguments":"{\"p\":"}}]}"#);
    let more = delta(r#"{"tool_calls":[{"id":"b","function":{"arguments":"1}"}}]}"#);
    let calls = chat(&[&first, &second, &more, STOP]);
    assert_eq!(calls, ["ls a {}", r#"read b {"p":1}"#]);
}

#[test]
fn tool_calls_without_index_and_id_are_told_apart_by_their_shape() {
    let first = delta(r#"{"tool_calls":[{"function":{"name":"ls","arguments":"{\"a\":"}}]}"#);
    let more = delta(r#"{"tool_calls":[{"function":{"arguments":"1}"}}]}"#);
    let second = delta(r#"{"tool_calls":[{"function":{"name":"ls","arguments":{"b":2}}}]}"#);
    let calls = chat(&[&first, &more, &second, "[DONE]"]);
    assert_eq!(
        calls,
        [r#"ls call_call_0 {"a":1}"#, r#"ls call_call_1 {"b":2}"#]
    );
}

#[test]
fn an_index_that_is_used_again_with_another_id_is_another_call() {
    let call = |id: &str| {
        delta(&format!(
            r#"{{"tool_calls":[{{"index":0,"id":"{id}","function":{{"name":"ls","arguments":"{{}}"}}}}]}}"#
        ))
    };
    assert_eq!(
        chat(&[&call("a"), &call("b"), STOP]),
        ["ls a {}", "ls b {}"]
    );
    assert_eq!(chat(&[&call("a"), &call("a"), STOP]), ["ls a {}"]);
}

#[test]
fn arguments_that_are_said_again_whole_are_not_doubled() {
    let part = |args: &str| {
        let args = Value::from(args);
        delta(&format!(
            r#"{{"tool_calls":[{{"index":0,"id":"a","function":{{"name":"ls","arguments":{args}}}}}]}}"#
        ))
    };
    let calls = chat(&[&part(r#"{"a""#), &part(":1}"), &part(r#"{"a":1}"#), STOP]);
    assert_eq!(calls, [r#"ls a {"a":1}"#]);
}

#[test]
fn an_end_may_be_said_in_many_ways() {
    let hi = delta(r#"{"content":"Hi"}"#);
    for end in [&[STOP][..], &[STOP, "[DONE]"], &["[DONE]"]] {
        let data: Vec<&str> = [hi.as_str()]
            .into_iter()
            .chain(end.iter().copied())
            .collect();
        let reply = reply(Wire::OpenaiChat, &events(&data));
        assert_eq!(
            (told(&reply), reply.stop),
            (vec!["text Hi".to_owned()], StopReason::EndTurn)
        );
    }
    let failure = parse(Wire::OpenaiChat, b"data: [DONE]\n\n", &[]).expect_err("cut");
    assert_eq!(failure.reason, Reason::Cut);
    let (_, none) = parse(Wire::OpenaiChat, events(&[&hi]).as_bytes(), &[]).expect("parses");
    assert_eq!(none, None, "no end at all");
}

#[test]
fn content_may_be_parts_and_calls_of_the_old_form() {
    let parts = delta(
        r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"Hm"}]},{"type":"text","text":"Hi"}]}"#,
    );
    let old = delta(r#"{"function_call":{"name":"ls","arguments":"{}"}}"#);
    let expected = ["thinking Hm|||", "text Hi", "ls call_call_0 {}"];
    assert_eq!(chat(&[&parts, &old, STOP]), expected);
}

#[test]
fn usage_may_be_in_the_last_chunk_or_elsewhere() {
    let last = r#"{"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11,"prompt_cache_hit_tokens":4}}"#;
    let in_choice = r#"{"choices":[{"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":9,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}}]}"#;
    let in_corner = r#"{"choices":[{"delta":{},"finish_reason":"stop"}],"x_groq":{"usage":{"prompt_tokens":9,"completion_tokens":2,"prompt_cache_hit_tokens":4}}}"#;
    for data in [last, in_choice, in_corner] {
        let usage = reply(Wire::OpenaiChat, &events(&[data])).usage;
        assert_eq!(
            (usage.input, usage.output, usage.cache_read),
            (5, 2, 4),
            "{data}"
        );
    }
    let beside = r#"{"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":41,"completion_tokens_details":{"reasoning_tokens":30}}}"#;
    assert_eq!(reply(Wire::OpenaiChat, &events(&[beside])).usage.output, 32);
}

#[test]
fn events_that_come_twice_count_once_where_they_are_numbered() {
    let (wire, text) = RECORDED[2];
    let once = told(&reply(wire, text));
    let twice: String = text
        .split_inclusive("\n\n")
        .flat_map(|event| [event, event])
        .collect();
    assert_eq!(told(&reply(wire, &twice)), once);
    // The other wires do not number: text is doubled, what runs is not.
    for (wire, text) in &RECORDED[..2] {
        let twice: String = text
            .split_inclusive("\n\n")
            .flat_map(|event| [event, event])
            .collect();
        let calls = |text: &str| {
            let told = told(&reply(*wire, text));
            told.into_iter()
                .filter(|told| told.starts_with("ls "))
                .count()
        };
        assert_eq!(calls(&twice), calls(text), "{wire:?}");
    }
}

#[test]
fn ids_that_differ_at_the_end_do_not_make_a_call_twice() {
    let added = r#"{"type":"response.output_item.added","output_index":0,"item":{"id":"x","type":"function_call","call_id":"t1","name":"ls","arguments":""}}"#;
    let done = r#"{"type":"response.output_item.done","output_index":0,"item":{"id":"y","type":"function_call","call_id":"t1","name":"ls","arguments":"{}"}}"#;
    let completed = r#"{"type":"response.completed","response":{"status":"completed","output":[{"id":"z","type":"function_call","call_id":"t1","name":"ls","arguments":"{}"}]}}"#;
    let reply = reply(Wire::OpenaiResponses, &events(&[added, done, completed]));
    assert_eq!(told(&reply), ["ls t1 {}"]);
    assert_eq!(reply.stop, StopReason::ToolUse);
}

#[test]
fn a_reply_that_is_only_in_the_last_event_is_whole() {
    let (wire, text) = RECORDED[2];
    let last = text.find("event: response.completed").expect("an end");
    assert_eq!(told(&reply(wire, &text[last..])), told(&reply(wire, text)));
}

#[test]
fn a_reply_that_is_not_streamed_is_the_same_reply() {
    let anthropic = json!({
        "type": "message", "id": "m", "stop_reason": "tool_use",
        "content": [{"type": "text", "text": "Hi"}, {"type": "tool_use", "id": "a", "name": "ls", "input": {"p": 1}}],
        "usage": {"input_tokens": 5, "output_tokens": 2, "cache_read_input_tokens": 4},
    });
    let chat = json!({
        "object": "chat.completion", "id": "c",
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "content": "Hi",
            "tool_calls": [{"id": "a", "type": "function", "function": {"name": "ls", "arguments": "{\"p\":1}"}}]}}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}},
    });
    let responses = json!({
        "object": "response", "id": "r", "status": "completed",
        "output": [
            {"type": "message", "content": [{"type": "output_text", "text": "Hi"}]},
            {"type": "function_call", "call_id": "a", "name": "ls", "arguments": "{\"p\":1}"},
        ],
        "usage": {"input_tokens": 9, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 4}},
    });
    let usage = TokenUsage {
        input: 5,
        output: 2,
        cache_read: 4,
        cache_write: 0,
    };
    let all = [
        (Wire::AnthropicMessages, anthropic),
        (Wire::OpenaiChat, chat),
        (Wire::OpenaiResponses, responses),
    ];
    for (wire, whole) in all {
        let mut parser = parser(wire, "call");
        let deltas = parser.take_whole(&whole).expect("a reply");
        assert!(parser.is_done());
        let reply = parser.finish();
        assert_eq!(told(&reply), ["text Hi", r#"ls a {"p":1}"#], "{wire:?}");
        assert_eq!((reply.stop, reply.usage), (StopReason::ToolUse, usage));
        assert_eq!(deltas.len(), 2);
    }
    for (wire, _) in RECORDED {
        let error = json!({"error": {"type": "overloaded_error", "message": "busy"}});
        let failure = parser(wire, "call")
            .take_whole(&error)
            .expect_err("an error");
        assert_eq!(failure.reason, Reason::Overloaded);
        let failure = parser(wire, "call")
            .take_whole(&json!({"ok": true}))
            .expect_err("nothing");
        assert_eq!(failure.reason, Reason::Garbled);
    }
}
