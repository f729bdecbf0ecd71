use serde_json::json;

use super::*;

fn read_messages(messages: Value) -> Result<Conversation, String> {
    read(json!({"model": "m", "max_tokens": 9, "messages": messages}))
        .map_err(|failure| failure.message.unwrap_or_default())
}

#[test]
fn prompts_replies_and_results_are_told_apart() {
    let source = json!({"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="});
    let image = json!({"type": "image", "source": source});
    let conversation = read_messages(json!([
        {"role": "user", "content": [{"type": "text", "text": "a"}, image]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "t", "input": {}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "r"}, image]},
            {"type": "text", "text": "a reminder is no prompt"},
        ]},
    ]))
    .unwrap();
    assert_eq!(conversation.images, 1, "since the last turn");
    assert_eq!(
        conversation.turns,
        [
            Turn::Prompt("a".into()),
            Turn::Reply,
            Turn::Results(vec!["r".into()])
        ]
    );
}

#[test]
fn unanswered_and_unasked_calls_are_refused() {
    let call = json!({"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "t", "input": {}}]});
    let answer = json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1"}]});
    let prompt = json!({"role": "user", "content": "hi"});
    let error = read_messages(json!([prompt, call, prompt])).unwrap_err();
    assert!(
        error.starts_with("messages.2: `tool_use` ids were found without"),
        "{error}"
    );
    let error = read_messages(json!([prompt, call])).unwrap_err();
    assert!(
        error.starts_with("messages.2: `tool_use` ids were found without"),
        "{error}"
    );
    let error = read_messages(json!([prompt, answer])).unwrap_err();
    assert!(
        error.starts_with("messages.1: unexpected `tool_use_id`"),
        "{error}"
    );
}

#[test]
fn thinking_is_where_it_may_be() {
    let prompt = json!({"role": "user", "content": "a"});
    let call = json!({"type": "tool_use", "id": "1", "name": "t", "input": {}});
    let thought = json!({"type": "thinking", "thinking": "t", "signature": signature_of("t")});
    let answer = json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1"}]});
    let read_thinking = |budget: u64, messages: &[Value]| {
        let thinking = match budget {
            0 => json!({"type": "disabled"}),
            budget => json!({"type": "enabled", "budget_tokens": budget}),
        };
        read(json!({"model": "m", "max_tokens": 2000, "thinking": thinking, "messages": messages}))
            .map_err(|failure| failure.message.unwrap_or_default())
    };
    let said = |content: Value| json!({"role": "assistant", "content": content});
    let run = [prompt.clone(), said(json!([thought, call])), answer.clone()];
    assert!(read_thinking(1_024, &run).is_ok());
    assert!(read_thinking(0, &run).is_ok());
    let run = [prompt.clone(), said(json!([call])), answer];
    let error = read_thinking(1_024, &run).unwrap_err();
    assert!(
        error.starts_with("messages.1.content.0.type: Expected"),
        "{error}"
    );
    let paused = [prompt.clone(), said(json!([thought]))];
    let error = read_thinking(0, &paused).unwrap_err();
    assert!(error.contains("in the final position"), "{error}");
    assert!(read_thinking(1_023, std::slice::from_ref(&prompt)).is_err());
    assert!(read_thinking(2_000, &[prompt]).is_err());
}

#[test]
fn pictures_names_and_marks_are_looked_at() {
    let wrong = json!({"type": "base64", "media_type": "image/jpeg", "data": "iVBORw0KGgo="});
    let image = json!({"role": "user", "content": [{"type": "image", "source": wrong}]});
    let error = read_messages(json!([image])).unwrap_err();
    assert!(
        error.starts_with("messages.0.content.0: image.source"),
        "{error}"
    );
    let named = json!({"type": "tool_use", "id": "a.b", "name": "t", "input": {}});
    let said = json!({"role": "assistant", "content": [named]});
    let error = read_messages(json!([{"role": "user", "content": "a"}, said])).unwrap_err();
    assert!(error.contains("should match pattern"), "{error}");
    let mark = json!({"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}});
    let marked = json!({"role": "user", "content": [mark, mark, mark, mark, mark]});
    let error = read_messages(json!([marked])).unwrap_err();
    assert!(error.contains("Found 5"), "{error}");
}

#[test]
fn altered_thinking_is_refused() {
    let said = |thinking: &str| {
        let signature = signature_of("original");
        json!([
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": thinking, "signature": signature},
            ]},
            {"role": "user", "content": "go on"},
        ])
    };
    assert!(read_messages(said("original")).is_ok());
    assert_eq!(
        read_messages(said("altered")).unwrap_err(),
        "messages.1.content.0: Invalid `signature` in `thinking` block"
    );
}
