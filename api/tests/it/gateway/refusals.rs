//! Calls that get no answer, or not the one they asked for.

use std::sync::Arc;

use cocoonbox_api::gateway::{Error, Gateway, GatewayConfig, Secret, Vendor};
use cocoonbox_model::{Script, Server};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;

use super::{
    ANTHROPIC, OPENAI, SCRIPT, ask, body, both, chunk, door, door_to, head, only, post,
    read_request,
};
use crate::door::{Records, within};

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
