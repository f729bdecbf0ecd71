//! The model gateway, through a box's door, against scripted and hand-made vendors.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use cocoonbox_api::door::WebPolicy;
use cocoonbox_api::gateway::{Error, Gateway, GatewayConfig, Secret, Vendor};
use cocoonbox_model::{Script, Server};
use cocoonbox_proto::log::v1::UsageModelCalled;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};

use crate::door::{Records, TestDoor, channel, origin, read_all, read_until, within};

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

const STREAM_HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                           transfer-encoding: chunked\r\n\r\n";

const START: &str = "data: {\"type\":\"message_start\",\"message\":{\"usage\":\
                     {\"input_tokens\":7,\"output_tokens\":1}}}\n\n";

const STOP: &str = "data: {\"type\":\"message_stop\"}\n\n";

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

/// A vendor that says the first event, waits to be told, and goes on with `rest`.
async fn gated(rest: &'static str) -> (TestDoor, oneshot::Sender<()>) {
    let (go, gate) = oneshot::channel::<()>();
    let gate = Arc::new(Mutex::new(Some(gate)));
    let door = door_to(move |mut stream| {
        let gate = gate.lock().unwrap().take().unwrap();
        async move {
            read_request(&mut stream).await;
            stream.write_all(STREAM_HEAD.as_bytes()).await.unwrap();
            stream.write_all(chunk(START).as_bytes()).await.unwrap();
            // An error means that the test has let go of the gate: then nothing more is said.
            if gate.await.is_ok() {
                stream.write_all(rest.as_bytes()).await.unwrap();
            } else {
                let _closed = stream.read_to_end(&mut Vec::new()).await;
            }
        }
    })
    .await;
    (door, go)
}

#[tokio::test]
async fn a_chunk_arrives_before_the_vendor_has_finished() {
    let rest = format!("{}0\r\n\r\n", chunk(STOP));
    let (door, go) = gated(rest.leak()).await;
    let mut stream = door.connect().await;
    stream
        .write_all(post(ANTHROPIC, "{\"model\":\"m\"}").as_bytes())
        .await
        .unwrap();
    let so_far = read_until(&mut stream, "}}}\n\n\r\n").await;
    assert!(so_far.contains("message_start"), "{so_far}");
    assert!(door.records.all().is_empty(), "the call has not ended");
    go.send(()).unwrap();
    let rest = read_all(&mut stream).await;
    assert_eq!(unchunk(&rest).unwrap(), STOP);
    let usage = only(door.final_records(1).await);
    assert_eq!((usage.input_tokens, usage.complete), (7, true));
}

#[tokio::test]
async fn a_cut_vendor_is_a_cut_answer() {
    let (door, go) = gated("5\r\ncut").await;
    go.send(()).unwrap();
    let answer = door.ask(post(ANTHROPIC, "{\"model\":\"m\"}")).await;
    assert!(
        answer.contains("message_start"),
        "what came before the cut arrives: {answer}"
    );
    assert_eq!(unchunk(body(&answer)), None, "no clean end");
    let usage = only(door.final_records(1).await);
    assert_eq!(
        (usage.status, usage.input_tokens, usage.complete),
        (200, 7, false)
    );

    // With a length announced, too.
    let door = door_to(|mut stream| async move {
        read_request(&mut stream).await;
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{\"a\"")
            .await
            .unwrap();
    })
    .await;
    let answer = door.ask(post(OPENAI, "{\"model\":\"m\"}")).await;
    assert!(
        head(&answer).contains("content-length: 9") && body(&answer).len() < 9,
        "{answer}"
    );
    assert!(!only(door.final_records(1).await).complete);
}

#[tokio::test]
async fn a_clean_end_without_the_last_event_is_not_complete() {
    let (door, go) = gated("0\r\n\r\n").await;
    go.send(()).unwrap();
    let answer = door.ask(post(ANTHROPIC, "{\"model\":\"m\"}")).await;
    assert_eq!(unchunk(body(&answer)).unwrap(), START);
    assert!(!only(door.final_records(1).await).complete);
}

#[tokio::test]
async fn a_caller_that_leaves_is_recorded_once() {
    // In the middle of the answer.
    let (door, gate) = gated("").await;
    let mut stream = door.connect().await;
    stream
        .write_all(post(ANTHROPIC, "{\"model\":\"m\"}").as_bytes())
        .await
        .unwrap();
    read_until(&mut stream, "}}}\n\n\r\n").await;
    drop(stream);
    let usage = only(door.final_records(1).await);
    assert_eq!(
        (usage.status, usage.input_tokens, usage.complete),
        (200, 7, false)
    );
    drop(gate);

    // Because its box is gone and the door is shut.
    let (door, gate) = gated("").await;
    let mut stream = door.connect().await;
    stream
        .write_all(post(ANTHROPIC, "{\"model\":\"m\"}").as_bytes())
        .await
        .unwrap();
    read_until(&mut stream, "}}}\n\n\r\n").await;
    let usage = only(door.final_records(0).await);
    assert_eq!((usage.input_tokens, usage.complete), (7, false));
    assert_eq!(unchunk(&read_all(&mut stream).await), None);
    drop(gate);

    // Before there is one. The vendor sees it leave.
    let (asked, mut was_asked) = mpsc::channel(1);
    let (left, mut has_left) = mpsc::channel(1);
    let door = door_to(move |mut stream| {
        let (asked, left) = (asked.clone(), left.clone());
        async move {
            read_request(&mut stream).await;
            asked.send(()).await.unwrap();
            let _closed = stream.read_to_end(&mut Vec::new()).await;
            left.send(()).await.unwrap();
        }
    })
    .await;
    let mut stream = door.connect().await;
    stream
        .write_all(post(OPENAI, "{\"model\":\"m\"}").as_bytes())
        .await
        .unwrap();
    within(was_asked.recv()).await.unwrap();
    drop(stream);
    within(has_left.recv()).await.unwrap();
    let usage = only(door.final_records(1).await);
    assert_eq!(
        (usage.status, usage.complete, usage.model.as_str()),
        (0, false, "m")
    );
}

#[tokio::test]
async fn a_vendor_that_refuses_is_passed_on_with_its_patience() {
    let script = "[[conversation]]\n[[conversation.step]]\ntext = 'x'\n\
                  fail = { status = 429, retry_after = 17, times = 1 }";
    for path in [ANTHROPIC, OPENAI] {
        let model = Server::start_local(Script::parse(script).unwrap())
            .await
            .unwrap();
        let door = door(both(&model.url())).await;
        let answer = door.ask(post(path, &ask("m", true).to_string())).await;
        assert!(answer.starts_with("HTTP/1.1 429 "), "{answer}");
        assert!(head(&answer).contains("retry-after: 17"), "{answer}");
        assert!(
            !answer.contains("x-cocoonbox-reason"),
            "it is the vendor's answer: {answer}"
        );
        assert_eq!(only(door.final_records(1).await).status, 429);
        model.shutdown().await;
    }
}

#[tokio::test]
async fn a_vendor_that_is_not_there_is_said_and_recorded() {
    let closed = {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    };
    let door = door(both(&format!("http://{closed}"))).await;
    let answer = door.ask(post(ANTHROPIC, "{\"model\":\"m\"}")).await;
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    assert!(
        answer.contains("x-cocoonbox-reason: MODEL_UNREACHABLE"),
        "{answer}"
    );
    assert!(
        !answer.contains(&closed.port().to_string()),
        "the operator's network stays theirs"
    );
    let usage = only(door.final_records(1).await);
    assert_eq!((usage.status, usage.complete), (0, false));
}

#[tokio::test]
async fn a_model_that_is_not_configured_names_the_setting() {
    let door = door(GatewayConfig::default()).await;
    let answer = door.ask(post(ANTHROPIC, "{}")).await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(
        answer.contains("x-cocoonbox-reason: MODEL_NOT_CONFIGURED"),
        "{answer}"
    );
    let error: Value = serde_json::from_str(body(&answer)).unwrap();
    assert_eq!(error["type"], "error");
    assert!(
        error["error"]["message"]
            .as_str()
            .unwrap()
            .contains("`ANTHROPIC_API_KEY`"),
        "{error}"
    );
    let answer = door.ask(post(OPENAI, "{}")).await;
    let error: Value = serde_json::from_str(body(&answer)).unwrap();
    assert_eq!(error["error"]["code"], "model_not_configured");
    assert!(
        error["error"]["message"]
            .as_str()
            .unwrap()
            .contains("`OPENAI_API_KEY`"),
        "{error}"
    );
    assert!(
        door.final_records(0).await.is_empty(),
        "no vendor was asked"
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

#[tokio::test]
async fn a_redirect_is_not_followed_and_not_shown() {
    let (seen, mut requests) = mpsc::channel(8);
    let door = door_to(move |mut stream| {
        let seen = seen.clone();
        async move {
            let (head, _) = read_request(&mut stream).await;
            seen.send(head).await.unwrap();
            // Of all redirects this is the one that needs no body, so that a client could follow it.
            let answer = "HTTP/1.1 303 Go\r\nlocation: /elsewhere\r\nconnection: close\r\n\
                          content-length: 0\r\n\r\n";
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    })
    .await;
    let answer = door.ask(post(ANTHROPIC, "{\"model\":\"m\"}")).await;
    assert!(
        answer.contains("x-cocoonbox-reason: MODEL_REDIRECTED"),
        "{answer}"
    );
    assert!(!answer.contains("elsewhere"), "{answer}");
    assert_eq!(only(door.final_records(1).await).status, 303);
    assert!(
        within(requests.recv())
            .await
            .unwrap()
            .contains("/v1/messages")
    );
    assert!(requests.try_recv().is_err(), "the vendor was asked twice");
}

#[tokio::test]
async fn bodies_are_bounded_announced_or_not() {
    let door = door_to(|mut stream| async move {
        let _closed = stream.read_to_end(&mut Vec::new()).await;
    })
    .await;
    let announced = "POST http://gateway.cocoonbox/anthropic/v1/messages HTTP/1.1\r\nhost: x\r\n\
                     content-length: 33554433\r\n\r\n";
    let answer = door.ask(announced).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    assert!(
        answer.contains("x-cocoonbox-reason: MODEL_BODY_TOO_LARGE"),
        "{answer}"
    );
    assert!(answer.contains("request_too_large"), "{answer}");

    let head = "POST http://gateway.cocoonbox/openai/v1/chat/completions HTTP/1.1\r\nhost: x\r\n\
                x-cocoonbox-call: turn-1/call-2\r\ntransfer-encoding: chunked\r\n\r\n";
    let mut stream = door.connect().await;
    stream.write_all(head.as_bytes()).await.unwrap();
    let (mut reading, mut writing) = stream.split();
    let megabyte = chunk(&"x".repeat(1 << 20));
    let send = async {
        // The door stops reading at the limit; writing may then fail.
        for _ in 0..40 {
            if writing.write_all(megabyte.as_bytes()).await.is_err() {
                break;
            }
        }
    };
    let read = async {
        let mut bytes = Vec::new();
        let _read = reading.read_to_end(&mut bytes).await;
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let ((), answer) = within(async { tokio::join!(send, read) }).await;
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 413 "),
        "{answer}"
    );
    let usage = only(door.final_records(1).await);
    assert_eq!((usage.status, usage.complete), (0, false));
}

#[tokio::test]
async fn lists_of_models_pass_and_other_paths_do_not() {
    let model = Server::start_local(Script::parse(SCRIPT).unwrap())
        .await
        .unwrap();
    let door = door(both(&model.url())).await;
    for vendor in ["anthropic", "openai"] {
        let get = |path: &str| {
            format!(
                "GET http://gateway.cocoonbox/{vendor}{path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
            )
        };
        let answer = door.ask(get("/v1/models")).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        for path in [
            "/v1/files",
            "/v1/messages/batches",
            "/v1/models/../files",
            "/metrics",
            "",
        ] {
            let answer = door.ask(get(path)).await;
            assert!(answer.starts_with("HTTP/1.1 404 "), "{path}: {answer}");
        }
        let answer = door.ask(get(if vendor == "openai" {
            OPENAI
        } else {
            ANTHROPIC
        }
        .trim_start_matches("/openai")
        .trim_start_matches("/anthropic")));
        assert!(answer.await.starts_with("HTTP/1.1 405 "));
    }
    assert!(door.final_records(0).await.is_empty());
    model.shutdown().await;
}

#[tokio::test]
async fn a_configuration_that_cannot_work_is_refused_at_the_start() {
    drop(rustls::crypto::ring::default_provider().install_default());
    let make = |base_url: &str, key: &str| {
        let vendor = Vendor {
            base_url: base_url.into(),
            key: Secret::new(key.into()),
        };
        let config = GatewayConfig {
            anthropic: None,
            openai: Some(vendor),
        };
        Gateway::new(config, Arc::new(Records::default())).map(drop)
    };
    assert!(make("http://api.example/prefix/v1/", "k").is_ok());
    for url in [
        "api.example",
        "ftp://api.example",
        "http://me:pw@api.example",
        "http://a/?k=v",
        "",
    ] {
        assert!(
            matches!(make(url, "k"), Err(Error::BaseUrl { vendor: "openai" })),
            "{url}"
        );
    }
    let error = make("http://a", "sk-\nsecret").unwrap_err();
    assert!(matches!(error, Error::Key { .. }));
    assert!(!format!("{error:?} {error}").contains("secret"));
}
