//! Golden streams of the OpenAI Chat Completions wire.

use serde_json::{Value, json};

use crate::client::{chat, serve};

fn request(tools: &[&str], stream_options: Value) -> Value {
    let tool = |name| json!({"type": "function", "function": {"name": name}});
    let tools: Vec<Value> = tools.iter().map(tool).collect();
    json!({
        "model": "m-1",
        "stream": true,
        "stream_options": stream_options,
        "tools": tools,
        "messages": [{"role": "user", "content": "hi"}],
    })
}

#[tokio::test]
async fn text_parallel_calls_and_usage() {
    let server = serve(
        r#"
        [[conversation]]
        [[conversation.step]]
        text = "On it."
        chunk_chars = 9
        usage = { input = 10, output = 20, cache_read = 30, cache_write = 40 }
        tools = [{ name = "a", args = { path = "/x" } }, { name = "b" }]
        "#,
    )
    .await;
    let options = json!({"include_usage": true, "include_obfuscation": false});
    let answer = chat(&server, &request(&["a", "b"], options)).await;
    assert_eq!(
        answer.headers["content-type"],
        "text/event-stream; charset=utf-8"
    );
    insta::assert_snapshot!(answer.body);
}

#[tokio::test]
async fn usage_is_sent_only_when_asked_for() {
    let server = serve("[[conversation]]\nstep = [{ text = 'a b' }]").await;
    let answer = chat(&server, &request(&[], json!({}))).await;
    assert!(!answer.body.contains("usage"));
    assert!(
        answer
            .events()
            .iter()
            .all(|chunk| chunk["obfuscation"].is_string())
    );
}

#[tokio::test]
async fn a_refusal_has_its_own_field() {
    let server = serve("[[conversation]]\nstep = [{ refusal = 'I will not.' }]").await;
    let events = chat(&server, &request(&[], json!({}))).await.events();
    let refusal: String = events
        .iter()
        .filter_map(|event| event["choices"][0]["delta"]["refusal"].as_str())
        .collect();
    assert_eq!(refusal, "I will not.");
    assert!(events[0]["choices"][0]["delta"]["content"].is_null());
    assert_eq!(
        events.last().unwrap()["choices"][0]["finish_reason"],
        "stop"
    );
}
