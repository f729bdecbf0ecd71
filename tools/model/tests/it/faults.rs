//! Faults as a client meets them, on every wire.

use std::time::Duration;

use cocoonbox_model::Server;
use serde_json::{Value, json};

use crate::client::{Answer, chat, get, messages, messages_at, responses, send, serve};

fn anthropic(stream: bool) -> Value {
    let messages = [json!({"role": "user", "content": "hi"})];
    json!({"model": "m", "max_tokens": 9, "stream": stream, "messages": messages})
}

fn openai(stream: bool) -> Value {
    json!({"model": "m", "stream": stream, "messages": [{"role": "user", "content": "hi"}]})
}

fn step(fault: &str) -> String {
    format!("[[conversation]]\n[[conversation.step]]\ntext = 'one two three'\n{fault}")
}

async fn both(server: &Server, stream: bool) -> [Answer; 2] {
    [
        messages(server, &anthropic(stream)).await,
        chat(server, &openai(stream)).await,
    ]
}

#[tokio::test]
async fn a_rate_limit_passes_after_its_times() {
    let server = serve(&step("fail = { status = 429, retry_after = 1, times = 2 }")).await;
    for _ in 0..2 {
        let [a, o] = both(&server, true).await;
        assert_eq!([a.status, o.status], [429, 429]);
        assert_eq!(
            [&a.headers["retry-after"], &o.headers["retry-after"]],
            ["1", "1"]
        );
        assert_eq!(a.json()["type"], "error");
        assert_eq!(a.json()["error"]["type"], "rate_limit_error");
        assert_eq!(
            a.json()["request_id"],
            a.headers["request-id"].to_str().unwrap()
        );
        assert_eq!(o.json()["error"]["code"], "rate_limit_exceeded");
        assert!(o.headers.contains_key("x-request-id"));
    }
    let [a, o] = both(&server, true).await;
    assert_eq!([a.status, o.status], [200, 200]);
    let attempts: Vec<(u32, u16)> = server
        .requests()
        .iter()
        .map(|request| (request.attempt, request.status))
        .collect();
    assert_eq!(
        attempts,
        [(0, 429), (0, 429), (1, 429), (1, 429), (2, 200), (2, 200)]
    );
}

#[tokio::test]
async fn a_cut_breaks_the_stream_after_its_chunks() {
    let server = serve(&step("cut = { after_chunks = 2 }")).await;
    for answer in both(&server, true).await {
        assert!(answer.broken);
        assert!(
            answer.body.contains("\" two\"") && !answer.body.contains("three"),
            "{}",
            answer.body
        );
    }
    for answer in both(&server, true).await {
        assert!(!answer.broken && answer.body.contains("three"));
    }
    for answer in both(&server, false).await {
        assert!(answer.broken, "whole answers break too");
    }
}

#[tokio::test]
async fn an_error_event_ends_the_stream() {
    let server = serve(&step("error_event = { after_chunks = 1 }")).await;
    let [a, o] = both(&server, true).await;
    assert!(!a.broken && !o.broken);
    let (_, last) = a.body.trim_end().rsplit_once("\n\n").unwrap();
    let (name, data) = last.split_once('\n').unwrap();
    assert_eq!(name, "event: error");
    let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
    assert_eq!(
        data["error"],
        json!({"type": "overloaded_error", "message": "Overloaded"})
    );
    assert_eq!(o.events().last().unwrap()["error"]["type"], "server_error");
    assert!(!o.body.contains("[DONE]"));
    let [a, o] = both(&server, false).await;
    assert_eq!([a.status, o.status], [529, 503]);
}

#[tokio::test]
async fn garbage_is_one_malformed_event() {
    let server = serve(&step("garbage = { after_chunks = 1 }")).await;
    for answer in both(&server, true).await {
        let malformed = answer
            .body
            .lines()
            .filter_map(|line| line.strip_prefix("data: "))
            .filter(|data| *data != "[DONE]" && serde_json::from_str::<Value>(data).is_err());
        assert_eq!(malformed.count(), 1);
        assert!(answer.body.contains("three"));
    }
}

#[tokio::test]
async fn a_stall_is_silence_until_the_client_gives_up() {
    let server = serve(&step("stall = { after_chunks = 1, ms = 600000 }")).await;
    let body = anthropic(true);
    let stalled = tokio::time::timeout(Duration::from_millis(200), messages(&server, &body)).await;
    assert!(stalled.is_err());
    let answer = messages(&server, &body).await;
    assert!(answer.body.contains("three"));
}

#[tokio::test]
async fn a_shutdown_does_not_wait_for_a_stall() {
    let server = serve(&step("stall = { ms = 600000 }")).await;
    let addr = server.addr();
    let client = tokio::spawn(async move { messages_at(addr, &anthropic(true)).await });
    while server.requests().is_empty() {
        tokio::task::yield_now().await;
    }
    server.shutdown().await;
    assert!(client.await.unwrap().broken);
    assert!(tokio::net::TcpStream::connect(addr).await.is_err());
}

#[tokio::test]
async fn requests_that_a_vendor_refuses_are_refused() {
    let server = serve("api_key = 'sk-right'\n[[conversation]]\nstep = [{ text = 'a' }]").await;
    let [a, o] = both(&server, true).await;
    assert_eq!([a.status, o.status], [401, 401]);
    assert_eq!(a.json()["error"]["type"], "authentication_error");
    assert_eq!(o.json()["error"]["code"], "invalid_api_key");

    let server = serve(&step("")).await;
    let post = |path: &'static str, headers: &'static [(&str, &str)], body: &str| {
        send(&server, hyper::Method::POST, path, headers, body.to_owned())
    };
    let answer = post("/v1/messages", &[], &anthropic(true).to_string()).await;
    assert_eq!(
        answer.json()["error"]["message"],
        "anthropic-version: header is required"
    );
    let answer = post("/v1/messages", &[("anthropic-version", "x")], "{").await;
    assert_eq!(answer.json()["error"]["type"], "invalid_request_error");
    let body = json!({"model": "m", "messages": []}).to_string();
    let answer = post("/v1/messages", &[("anthropic-version", "x")], &body).await;
    assert_eq!(
        answer.json()["error"]["message"],
        "missing field `max_tokens`"
    );
    let answer = post("/v1/nowhere", &[], "").await;
    assert_eq!(
        (answer.status, answer.json()["error"]["code"].as_str()),
        (404, Some("not_found"))
    );
}

#[tokio::test]
async fn models_and_health_are_served() {
    let server = serve("models = ['a', 'b']").await;
    assert_eq!(get(&server, "/healthz", &[]).await.body, "ok");
    let list = get(&server, "/v1/models", &[]).await.json();
    assert_eq!(
        (&list["object"], &list["data"][1]["id"]),
        (&json!("list"), &json!("b"))
    );
    let list = get(
        &server,
        "/v1/models",
        &[("anthropic-version", "2023-06-01")],
    )
    .await
    .json();
    assert_eq!(
        (&list["has_more"], &list["first_id"]),
        (&json!(false), &json!("a"))
    );
}

#[tokio::test]
async fn requests_are_kept_without_their_keys() {
    let server = serve(&step("")).await;
    let [_, _] = both(&server, true).await;
    let requests = server.requests();
    assert!(requests[0].api_key.as_ref().unwrap().is("sk-test"));
    assert!(
        requests[1]
            .authorization
            .as_ref()
            .unwrap()
            .is("Bearer sk-test")
    );
    assert_eq!(requests[0].header("anthropic-version"), Some("2023-06-01"));
    assert_eq!(requests[1].body["messages"][0]["content"], "hi");
    assert!(!format!("{requests:?}").contains("sk-test"));
}

async fn every(server: &Server) -> [Answer; 3] {
    let [a, o] = both(server, true).await;
    let body = json!({"model": "m", "stream": true, "input": "hi"});
    [a, o, responses(server, &body).await]
}

#[tokio::test]
async fn a_cut_may_fall_into_an_event() {
    let server = serve(&step("cut = { after_chunks = 1, inside = true }")).await;
    for answer in every(&server).await {
        assert!(answer.broken);
        let last = answer.body.lines().last().unwrap();
        let data = last.strip_prefix("data: ").unwrap_or("{");
        assert!(serde_json::from_str::<Value>(data).is_err(), "{last}");
        assert!(answer.body.contains("one") && !answer.body.contains("three"));
    }
}

#[tokio::test]
async fn an_event_may_come_twice() {
    let server = serve(&step("repeat = { after_chunks = 1 }")).await;
    for answer in every(&server).await {
        let deltas = answer.body.split("\n\n").filter(|event| {
            event.contains("\" two\"") && !event.contains("response.output_text.done")
        });
        let deltas: Vec<&str> = deltas.collect();
        assert_eq!(deltas.len(), 2, "{}", answer.body);
        assert_eq!(deltas[0], deltas[1]);
    }
}

#[tokio::test]
async fn an_error_may_have_a_good_status() {
    let server = serve(&step("fail = { status = 200, message = 'not today' }")).await;
    for answer in every(&server).await {
        assert_eq!(answer.status, 200);
        assert_eq!(answer.headers["content-type"], "application/json");
        assert_eq!(answer.json()["error"]["message"], "not today");
    }
}

#[tokio::test]
async fn a_refusal_may_come_from_the_gateway() {
    let fail = "fail = { status = 402, reason = 'budget', retry_after_ms = 1500 }";
    let server = serve(&step(fail)).await;
    for answer in every(&server).await {
        assert_eq!(answer.status, 402);
        assert_eq!(answer.headers["x-cocoonbox-reason"], "budget");
        assert_eq!(answer.headers["retry-after-ms"], "1500");
    }
}

#[tokio::test]
async fn a_stall_may_give_signs_of_life() {
    let server = serve(&step("stall = { after_chunks = 1, ms = 20, ping_ms = 10 }")).await;
    for answer in every(&server).await {
        let pings = answer.body.matches("ping\n").count();
        assert!(pings >= 2, "{}", answer.body);
        assert!(answer.body.contains("three"));
    }
}

#[tokio::test]
async fn errors_in_a_stream_and_garbage_have_their_form_on_the_third_wire() {
    let server = serve(&step(
        "error_event = { after_chunks = 1 }\ngarbage = { after_chunks = 1 }",
    ))
    .await;
    let body = json!({"model": "m", "stream": true, "input": "hi"});
    let error = responses(&server, &body).await;
    assert_eq!(error.events().last().unwrap()["type"], "error");
    let garbage = responses(&server, &body).await;
    assert!(garbage.body.contains("\"del\n\n") && garbage.body.contains("response.completed"));
}

#[tokio::test]
async fn pictures_are_counted_and_looked_at() {
    let server = serve("[[conversation]]\nstep = [{ text = 'seen', expect_images = 1 }]").await;
    let png = "iVBORw0KGgo=";
    let url = format!("data:image/png;base64,{png}");
    let source = json!({"type": "base64", "media_type": "image/png", "data": png});
    let messages_body = |content: Value| json!({"model": "m", "max_tokens": 9, "stream": true, "messages": [{"role": "user", "content": content}]});
    let answer = messages(
        &server,
        &messages_body(json!([{"type": "image", "source": source}])),
    )
    .await;
    assert!(answer.body.contains("seen"));
    let content = json!([{"type": "image_url", "image_url": {"url": url}}]);
    let body =
        json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": content}]});
    assert!(chat(&server, &body).await.body.contains("seen"));
    let content = json!([{"type": "input_image", "image_url": url}]);
    let body =
        json!({"model": "m", "stream": true, "input": [{"role": "user", "content": content}]});
    assert!(responses(&server, &body).await.body.contains("seen"));
    let none = messages(&server, &messages_body(json!("hi"))).await;
    assert!(!none.body.contains("seen"));
    let broken = json!({"type": "base64", "media_type": "image/png", "data": "aGk="});
    let answer = messages(
        &server,
        &messages_body(json!([{"type": "image", "source": broken}])),
    )
    .await;
    assert_eq!(answer.status, 400);
}
