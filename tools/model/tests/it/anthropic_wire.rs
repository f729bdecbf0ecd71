//! Golden streams of the Anthropic Messages wire.

use serde_json::{Value, json};

use crate::client::{messages, serve};

fn request(tools: &[&str]) -> Value {
    let tools: Vec<Value> = tools.iter().map(|name| json!({"name": name})).collect();
    let messages = [json!({"role": "user", "content": "hi"})];
    json!({"model": "m-1", "max_tokens": 9, "stream": true, "tools": tools, "messages": messages})
}

#[tokio::test]
async fn thinking_text_and_parallel_calls() {
    let server = serve(
        r#"
        [[conversation]]
        [[conversation.step]]
        thinking = "Hm."
        text = "On it."
        chunk_chars = 9
        usage = { input = 10, output = 20, cache_read = 30, cache_write = 40 }
        tools = [{ name = "a", args = { path = "/x" } }, { name = "b" }]
        "#,
    )
    .await;
    let answer = messages(&server, &request(&["a", "b"])).await;
    assert_eq!(
        answer.headers["content-type"],
        "text/event-stream; charset=utf-8"
    );
    insta::assert_snapshot!(answer.body);
}

#[tokio::test]
async fn a_refusal_is_text_with_its_own_stop_reason() {
    let server = serve("[[conversation]]\nstep = [{ refusal = 'I will not.' }]").await;
    let answer = messages(&server, &request(&[])).await;
    let events = answer.events();
    let text: String = events
        .iter()
        .filter_map(|event| event["delta"]["text"].as_str())
        .collect();
    assert_eq!(text, "I will not.");
    assert_eq!(events[events.len() - 2]["delta"]["stop_reason"], "refusal");
}
