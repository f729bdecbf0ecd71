//! The OpenAI Responses wire: a golden stream, and a conversation that brings everything along.

use cocoonbox_model::Server;
use serde_json::{Value, json};

use crate::agent::{Agent, Wire};
use crate::client::{responses, serve};

fn request(input: &Value) -> Value {
    let tools = ["a", "b"].map(|name| json!({"type": "function", "name": name}));
    json!({"model": "m-1", "stream": true, "store": false, "tools": tools, "input": input})
}

#[tokio::test]
async fn thinking_text_and_parallel_calls() {
    let server = serve(
        r#"
        [[conversation]]
        [[conversation.step]]
        thinking = "Hm."
        vendor_block = { type = "of_the_future", note = "kept" }
        text = "On it."
        chunk_chars = 9
        usage = { input = 10, output = 20, cache_read = 30, cache_write = 0 }
        tools = [{ name = "a", args = { path = "/x" } }, { name = "b" }]
        "#,
    )
    .await;
    let answer = responses(&server, &request(&json!("hi"))).await;
    assert_eq!(
        answer.headers["content-type"],
        "text/event-stream; charset=utf-8"
    );
    insta::assert_snapshot!(answer.body);
}

async fn agent(server: &Server) -> Agent<'_> {
    let mut agent = Agent::new(server, Wire::Responses, &["a"]);
    let heard = agent.prompt("hi").await;
    assert_eq!((heard.thinking.as_str(), heard.calls.len()), ("Hm.", 1));
    let results = [(heard.calls[0].id.clone(), "done: exit 0".to_owned())];
    let heard = agent.answer(&results).await;
    assert_eq!(
        (heard.text.as_str(), heard.stop.as_str()),
        ("It exited with 0.", "completed")
    );
    agent
}

#[tokio::test]
async fn sealed_thinking_comes_back_with_what_it_led_to() {
    let server = serve(
        r#"
        [[conversation]]
        when = "hi"
        step = [
            { thinking = "Hm.", tools = [{ name = "a" }] },
            { text = "It exited with {last_exit}." },
        ]
        [[conversation]]
        step = [{ refusal = "I will not." }, { text = "cut here", stop = "max_tokens" }]
        "#,
    )
    .await;
    agent(&server).await;
    let bodies = server.requests();
    assert_eq!(bodies[1].body["input"][1]["type"], "reasoning");

    let refusal = responses(&server, &request(&json!("other"))).await;
    assert!(refusal.body.contains("response.refusal.delta"));
    let said = json!([
        {"role": "user", "content": "other"},
        {"role": "assistant", "content": "No."},
    ]);
    let cut = responses(&server, &request(&said)).await.events();
    let last = &cut.last().unwrap()["response"];
    assert_eq!(last["status"], "incomplete");
    assert_eq!(last["incomplete_details"]["reason"], "max_output_tokens");
}
