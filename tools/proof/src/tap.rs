//! A loopback server that passes requests on as they are and keeps every byte of both ways.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::Result;
use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures::StreamExt;
use tokio::{net::TcpListener, task::JoinHandle, time::Instant};

const BODY_BYTES_MAX: usize = 64 << 20;

/// Where a tap passes to.
#[derive(Clone, Debug)]
pub(crate) enum Next {
    /// A server, at this base URL.
    Server(String),
    /// A box's door, and the gateway's path of the vendor behind it.
    Door {
        address: SocketAddr,
        vendor: &'static str,
    },
}

/// A request and its answer.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    pub(crate) path: String,
    pub(crate) request: Bytes,
    pub(crate) answer: Vec<u8>,
    pub(crate) status: u16,
    pub(crate) arrived: Instant,
    pub(crate) ended: Instant,
}

/// A running tap.
pub(crate) struct Tap {
    pub(crate) address: SocketAddr,
    inner: Arc<Inner>,
    serving: JoinHandle<()>,
}

struct Inner {
    next: Next,
    client: reqwest::Client,
    seen: Mutex<Vec<Exchange>>,
}

impl Tap {
    pub(crate) async fn start(next: Next) -> Result<Self> {
        let mut client = reqwest::Client::builder()
            .tls_certs_only([])
            .tcp_nodelay(true);
        client = match &next {
            Next::Server(_) => client.no_proxy(),
            Next::Door { address, .. } => {
                client.proxy(reqwest::Proxy::http(format!("http://{address}"))?)
            }
        };
        let inner = Arc::new(Inner {
            next,
            client: client.build()?,
            seen: Mutex::default(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let router = Router::new().fallback(pass).with_state(Arc::clone(&inner));
        let serving = tokio::spawn(async move {
            axum::serve(listener, router).await.ok();
        });
        Ok(Self {
            address,
            inner,
            serving,
        })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Every exchange so far, in the order in which they came.
    pub(crate) fn seen(&self) -> Vec<Exchange> {
        self.inner
            .seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// How long the client took from the end of an answer to its next request, for each step.
    pub(crate) fn steps(&self) -> Vec<Duration> {
        let calls: Vec<_> = self.seen().into_iter().filter(Exchange::is_call).collect();
        calls
            .windows(2)
            .map(|pair| pair[1].arrived.saturating_duration_since(pair[0].ended))
            .collect()
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Exchange {
    /// Whether a model was asked, with tools.
    pub(crate) fn is_call(&self) -> bool {
        self.status == 200 && String::from_utf8_lossy(&self.request).contains("\"tools\"")
    }
}

async fn pass(State(inner): State<Arc<Inner>>, request: Request) -> Response {
    let arrived = Instant::now();
    let (head, body) = request.into_parts();
    let Ok(body) = to_bytes(body, BODY_BYTES_MAX).await else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let path = head
        .uri
        .path_and_query()
        .map_or("/", |path| path.as_str())
        .to_owned();
    // Our agent names the vendor, as in a box; others do not.
    let plain = ["/anthropic", "/openai"]
        .iter()
        .find_map(|vendor| path.strip_prefix(vendor));
    let plain = plain.unwrap_or(&path).to_owned();
    let url = match &inner.next {
        Next::Server(base) => format!("{base}{plain}"),
        Next::Door { vendor, .. } => format!("http://gateway.cocoonbox/{vendor}{plain}"),
    };
    let mut headers = head.headers.clone();
    strip(&mut headers);
    let asked = inner
        .client
        .request(head.method, url)
        .headers(headers)
        .body(body.clone());
    let answer = match asked.send().await {
        Ok(answer) => answer,
        Err(error) => return (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    };
    let status = answer.status();
    let mut headers = answer.headers().clone();
    strip(&mut headers);
    let index = {
        let mut seen = inner.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.push(Exchange {
            path: plain,
            request: body,
            answer: Vec::new(),
            status: status.as_u16(),
            arrived,
            ended: arrived,
        });
        seen.len() - 1
    };
    let stream = answer.bytes_stream().inspect(move |piece| {
        let mut seen = inner.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(piece) = piece {
            seen[index].answer.extend_from_slice(piece);
        }
        seen[index].ended = Instant::now();
    });
    let mut response = Response::new(Body::from_stream(stream));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// What belongs to one connection.
fn strip(headers: &mut HeaderMap) {
    for name in [
        header::HOST,
        header::CONTENT_LENGTH,
        header::CONNECTION,
        header::TRANSFER_ENCODING,
    ] {
        headers.remove(name);
    }
}
