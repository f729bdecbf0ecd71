//! A client that hides nothing: status, headers, bytes, and whether the stream broke.

use std::net::SocketAddr;

use cocoonbox_model::{Script, Server};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::{HeaderMap, Method, Request};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
    /// Whether the connection dropped before the body ended.
    pub(crate) broken: bool,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// Returns the parsed `data:` of every event that has one, `[DONE]` left out.
    pub(crate) fn events(&self) -> Vec<Value> {
        self.body
            .lines()
            .filter_map(|line| line.strip_prefix("data: "))
            .filter(|data| *data != "[DONE]")
            .map(|data| {
                serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {data}"))
            })
            .collect()
    }
}

pub(crate) async fn serve(toml: &str) -> Server {
    Server::start_local(Script::parse(toml).unwrap())
        .await
        .unwrap()
}

pub(crate) async fn get(server: &Server, path: &str, headers: &[(&str, &str)]) -> Answer {
    send(server, Method::GET, path, headers, String::new()).await
}

pub(crate) async fn messages(server: &Server, body: &Value) -> Answer {
    messages_at(server.addr(), body).await
}

pub(crate) async fn messages_at(addr: SocketAddr, body: &Value) -> Answer {
    let headers = [
        ("x-api-key", "sk-test"),
        ("anthropic-version", "2023-06-01"),
    ];
    send_to(
        addr,
        Method::POST,
        "/v1/messages",
        &headers,
        body.to_string(),
    )
    .await
}

pub(crate) async fn chat(server: &Server, body: &Value) -> Answer {
    let headers = [("authorization", "Bearer sk-test")];
    send(
        server,
        Method::POST,
        "/v1/chat/completions",
        &headers,
        body.to_string(),
    )
    .await
}

pub(crate) async fn responses(server: &Server, body: &Value) -> Answer {
    let headers = [("authorization", "Bearer sk-test")];
    let body = body.to_string();
    send(server, Method::POST, "/v1/responses", &headers, body).await
}

pub(crate) async fn send(
    server: &Server,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: String,
) -> Answer {
    send_to(server.addr(), method, path, headers, body).await
}

async fn send_to(
    addr: SocketAddr,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: String,
) -> Answer {
    let stream = TcpStream::connect(addr).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .unwrap();
    let connection = tokio::spawn(connection);
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "model.test");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(Bytes::from(body))).unwrap();
    let response = sender.send_request(request).await.unwrap();
    let (head, mut body) = response.into_parts();
    let mut bytes = Vec::new();
    let mut broken = false;
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => bytes.extend_from_slice(frame.data_ref().unwrap()),
            Err(_) => {
                broken = true;
                break;
            }
        }
    }
    connection.abort();
    Answer {
        status: head.status.as_u16(),
        headers: head.headers,
        body: String::from_utf8(bytes).unwrap(),
        broken,
    }
}
