//! The model gateway, through a box's door, against scripted and hand-made vendors.

mod refusals;
mod stream;

use std::net::SocketAddr;

use cocoonbox_api::door::WebPolicy;
use cocoonbox_api::gateway::{GatewayConfig, Secret, Vendor};
use cocoonbox_model::{Script, Server};
use cocoonbox_proto::log::v1::UsageModelCalled;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use crate::door::{TestDoor, channel, origin, read_all, read_until, within};

const KEY: &str = "sk-operator-0123456789";

const ANTHROPIC: &str = "/anthropic/v1/messages";
const OPENAI: &str = "/openai/v1/chat/completions";

fn vendor(base_url: impl Into<String>) -> Vendor {
    Vendor {
        base_url: base_url.into(),
        key: Secret::new(KEY.into()),
    }
}

fn both(base_url: &str) -> GatewayConfig {
    GatewayConfig {
        anthropic: Some(vendor(base_url)),
        openai: Some(vendor(base_url)),
    }
}

async fn door(models: GatewayConfig) -> TestDoor {
    TestDoor::open(models, WebPolicy::default(), |services| services).await
}

/// A door to a vendor made of one function per connection.
async fn door_to<F, Fut>(serve: F) -> TestDoor
where
    F: Fn(TcpStream) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let address: SocketAddr = origin(serve).await;
    door(both(&format!("http://{address}"))).await
}

fn post(path: &str, body: &str) -> String {
    format!(
        "POST http://gateway.cocoonbox{path} HTTP/1.1\r\nhost: gateway.cocoonbox\r\n\
         content-type: application/json\r\nx-cocoonbox-call: turn-1/call-2\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn ask(model: &str, stream: bool) -> Value {
    let mut body = json!({
        "model": model, "stream": stream, "max_tokens": 100,
        "messages": [{ "role": "user", "content": "go" }],
    });
    if stream {
        body["stream_options"] = json!({ "include_usage": true });
    }
    body
}

fn head(answer: &str) -> &str {
    answer
        .split_once("\r\n\r\n")
        .unwrap_or_else(|| panic!("no head: {answer}"))
        .0
}

fn body(answer: &str) -> &str {
    answer
        .split_once("\r\n\r\n")
        .unwrap_or_else(|| panic!("no body: {answer}"))
        .1
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

/// Takes the chunks of a chunked body apart; `None` if its end is missing.
fn unchunk(mut body: &str) -> Option<String> {
    let mut whole = String::new();
    loop {
        let (size, rest) = body.split_once("\r\n")?;
        let size = usize::from_str_radix(size, 16).ok()?;
        if size == 0 {
            return Some(whole);
        }
        whole.push_str(rest.get(..size)?);
        body = rest.get(size + 2..)?;
    }
}

/// Takes the one record and checks what is the same in all.
#[track_caller]
fn only(records: Vec<(UsageModelCalled, cocoonbox_api::door::Channel)>) -> UsageModelCalled {
    assert_eq!(records.len(), 1, "{records:?}");
    let (usage, by) = records.into_iter().next().unwrap();
    assert_eq!(by, channel());
    assert_eq!(usage.box_id, "box-1");
    assert_eq!(usage.call_id, "turn-1/call-2");
    usage
}

async fn read_request(stream: &mut TcpStream) -> (String, Vec<u8>) {
    let head = read_until(stream, "\r\n\r\n").await;
    let length = head.to_ascii_lowercase().lines().find_map(|line| {
        line.strip_prefix("content-length: ")
            .map(|length| length.parse::<usize>().unwrap())
    });
    let mut body = vec![0; length.unwrap_or(0)];
    within(stream.read_exact(&mut body)).await.unwrap();
    (head, body)
}

const SCRIPT: &str = "api_key = 'sk-operator-0123456789'
    [[conversation]]
    [[conversation.step]]
    text = 'one two three four five six'
    usage = { input = 10, output = 5, cache_read = 100, cache_write = 7 }";

#[tokio::test]
async fn both_wires_pass_unchanged_and_are_metered() {
    for (path, vendor_path, vendor) in [
        (ANTHROPIC, "/v1/messages", "anthropic"),
        (OPENAI, "/v1/chat/completions", "openai"),
    ] {
        for stream in [true, false] {
            let model = Server::start_local(Script::parse(SCRIPT).unwrap())
                .await
                .unwrap();
            let door = door(both(&format!("{}/v1/", model.url()))).await;
            let request = ask("big-model", stream).to_string();
            let passed = door.ask(post(path, &request)).await;
            assert!(passed.starts_with("HTTP/1.1 200 "), "{passed}");
            let usage = only(door.final_records(1).await);

            assert_eq!(model.requests()[0].status, 200);
            model.shutdown().await;

            // The same bytes as without the gateway. A server counts attempts, so it is a fresh one.
            let direct = {
                let model = Server::start_local(Script::parse(SCRIPT).unwrap())
                    .await
                    .unwrap();
                let mut stream = TcpStream::connect(model.addr()).await.unwrap();
                let request = format!(
                    "POST {vendor_path} HTTP/1.1\r\nhost: x\r\nx-api-key: {KEY}\r\n\
                     authorization: Bearer {KEY}\r\nanthropic-version: 2023-06-01\r\n\
                     content-type: application/json\r\nconnection: close\r\n\
                     content-length: {}\r\n\r\n{request}",
                    request.len()
                );
                stream.write_all(request.as_bytes()).await.unwrap();
                read_all(&mut stream).await
            };
            let whole = |answer: &str| {
                if head(answer).contains("transfer-encoding: chunked") {
                    unchunk(body(answer)).unwrap()
                } else {
                    body(answer).to_owned()
                }
            };
            assert_eq!(whole(&passed), whole(&direct));

            assert_eq!(usage.vendor, vendor);
            assert_eq!(usage.model, "big-model");
            assert_eq!((usage.status, usage.complete), (200, true));
            assert_eq!((usage.output_tokens, usage.cache_read_tokens), (5, 100));
            let input = usage.input_tokens + usage.cache_write_tokens;
            assert_eq!(input, 17, "{usage:?}");
        }
    }
}

#[tokio::test]
async fn the_vendor_sees_the_operators_key_and_the_boxs_bytes() {
    let (seen, mut requests) = mpsc::channel(1);
    let door = door_to(move |mut stream| {
        let seen = seen.clone();
        async move {
            let request = read_request(&mut stream).await;
            seen.send(request).await.unwrap();
            let answer = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nset-cookie: a=b\r\n\
                          request-id: req-1\r\nanthropic-ratelimit-requests-remaining: 9\r\n\
                          anthropic-organization-id: org\r\nx-cocoonbox-reason: LIE\r\n\r\n{}";
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    })
    .await;
    let odd = " {\"b\":1,  \"a\":\"\\u00e9 \u{e9}\",\r\n\"model\" : \"m\"\t} ";
    for (path, key) in [
        (ANTHROPIC, format!("\r\nx-api-key: {KEY}\r\n")),
        (OPENAI, format!("\r\nauthorization: bearer {KEY}\r\n")),
    ] {
        let request = post(&format!("{path}?beta=true"), odd).replacen(
            "content-type",
            "x-api-key: own\r\nauthorization: Bearer own\r\nproxy-authorization: own\r\ncookie: own\r\n\
             x-stainless-os: own\r\nopenai-organization: own\r\nanthropic-beta: b1,b2\r\ncontent-type",
            1,
        );
        let answer = door.ask(request).await;
        let (head, body) = within(requests.recv()).await.unwrap();
        assert_eq!(body, odd.as_bytes(), "byte for byte");
        let head = head.to_ascii_lowercase();
        assert!(head.contains("?beta=true http/1.1\r\n"), "{head}");
        assert!(head.contains(&key), "{head}");
        assert!(head.contains("\r\nanthropic-beta: b1,b2\r\n"), "{head}");
        assert!(
            head.contains("\r\ncontent-type: application/json\r\n"),
            "{head}"
        );
        assert_eq!(
            head.contains("anthropic-version: 2023-06-01"),
            path == ANTHROPIC,
            "{head}"
        );
        for gone in [
            "own",
            "cookie",
            "x-stainless",
            "proxy",
            "x-cocoonbox",
            "gateway.cocoonbox",
        ] {
            assert!(!head.contains(gone), "{gone}: {head}");
        }
        for kept in [
            "request-id: req-1",
            "anthropic-ratelimit-requests-remaining: 9",
        ] {
            assert!(answer.contains(kept), "{answer}");
        }
        for gone in ["set-cookie", "organization", "LIE", KEY] {
            assert!(!answer.contains(gone), "{answer}");
        }
    }
    let records = door.final_records(2).await;
    assert!(
        records
            .iter()
            .all(|(usage, _)| usage.complete && usage.model == "m"),
        "{records:?}"
    );
}

#[tokio::test]
async fn a_vendor_that_repeats_the_key_is_silenced() {
    let door = door_to(|mut stream| async move {
        read_request(&mut stream).await;
        let (first, second) = KEY.split_at(9);
        let answer = format!(
            "HTTP/1.1 429 Too Many\r\ntransfer-encoding: chunked\r\nrequest-id: for-{KEY}\r\n\r\n{}",
            chunk(&format!("{{\"error\":\"limit for {first}"))
        );
        stream.write_all(answer.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        let rest = format!("{}0\r\n\r\n", chunk(&format!("{second}, sorry\"}}")));
        stream.write_all(rest.as_bytes()).await.unwrap();
    })
    .await;
    let answer = door.ask(post(ANTHROPIC, "{\"model\":\"m\"}")).await;
    let stars = "*".repeat(KEY.len());
    let expected = format!("{{\"error\":\"limit for {stars}, sorry\"}}");
    assert_eq!(unchunk(body(&answer)).unwrap(), expected);
    assert!(!answer.contains("request-id"), "{answer}");
    door.final_records(1).await;
}
