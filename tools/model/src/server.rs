//! The HTTP/1.1 server: finds the step, lets the fault strike, answers.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::response::Response;
use axum::routing::{get, post};
use axum::serve::ListenerExt as _;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::fault::{Attempts, Failure, Fault, Strike, strike};
use crate::playback::{Act, plan, play};
use crate::reply::{Reply, Seed};
use crate::request_log::{Recorded, RequestLog};
use crate::script::Script;
use crate::wire::Wire;

/// A conversation with pictures can be tens of megabytes; beyond this it is a mistake.
const BODY_BYTES_MAX: usize = 64 << 20;

/// How long a shutdown waits for clients that do not read their answer.
const SHUTDOWN_MAX: Duration = Duration::from_secs(2);

/// A running server. Dropping it stops it without waiting.
#[derive(Debug)]
pub struct Server {
    addr: SocketAddr,
    shared: Arc<Shared>,
    task: Option<JoinHandle<std::io::Result<()>>>,
}

#[derive(Debug)]
struct Shared {
    script: Script,
    attempts: Mutex<Attempts>,
    log: RequestLog,
    answers: AtomicU64,
    /// Every body under way holds a copy.
    open: Arc<()>,
    stop: CancellationToken,
}

/// Why a server does not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("address `{addr}` cannot be listened on")]
    Listen {
        addr: SocketAddr,
        #[source]
        source: std::io::Error,
    },
}

impl Error {
    /// Returns whether the same call may succeed later: the address may become free.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Listen { .. } => true,
        }
    }
}

impl Server {
    /// Plays a script on an address; port 0 takes a free one. Needs a tokio runtime.
    pub async fn start(script: Script, addr: SocketAddr) -> Result<Self, Error> {
        let listen = |source| Error::Listen { addr, source };
        let listener = TcpListener::bind(addr).await.map_err(listen)?;
        let bound = listener.local_addr().map_err(listen)?;
        let shared = Arc::new(Shared {
            script,
            attempts: Mutex::default(),
            log: RequestLog::default(),
            answers: AtomicU64::new(0),
            open: Arc::default(),
            stop: CancellationToken::new(),
        });
        let router = Router::new()
            .route("/healthz", get(|| async { "ok" }))
            .route("/v1/models", get(models))
            .route("/v1/messages", post(messages))
            .route("/v1/chat/completions", post(chat_completions))
            .route("/v1/responses", post(responses))
            .fallback(not_found)
            .with_state(Arc::clone(&shared));
        // Without it, small events wait for the acknowledgement of the one before.
        let listener = listener.tap_io(|stream| {
            if let Err(error) = stream.set_nodelay(true) {
                tracing::warn!(%error, "nodelay not set");
            }
        });
        let stop = shared.stop.clone();
        let serve = axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned());
        let task = tokio::spawn(serve.into_future());
        Ok(Self {
            addr: bound,
            shared,
            task: Some(task),
        })
    }

    /// Plays a script on a free port of the loopback interface.
    pub async fn start_local(script: Script) -> Result<Self, Error> {
        Self::start(script, SocketAddr::from(([127, 0, 0, 1], 0))).await
    }

    /// Returns the address that the server listens on.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns the base URL without a trailing slash: `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Returns the latest requests to the model endpoints, oldest first.
    ///
    /// A request is in the list before the client sees the first byte of the answer.
    pub fn requests(&self) -> Vec<Recorded> {
        self.shared.log.all()
    }

    /// Returns how many answers are being streamed: neither said to their end nor given up by their reader.
    pub fn streams_open(&self) -> usize {
        Arc::strong_count(&self.shared.open) - 1
    }

    /// Stops listening, breaks off the streams that pause and waits for the others, but not for long.
    pub async fn shutdown(mut self) {
        self.shared.stop.cancel();
        if let Some(task) = self.task.take() {
            let abort = task.abort_handle();
            if tokio::time::timeout(SHUTDOWN_MAX, task).await.is_err() {
                abort.abort();
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop.cancel();
    }
}

async fn models(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let wire = Wire::of_headers(request.headers());
    answer_json(
        wire,
        &shared.request_id(),
        200,
        &wire.models(&shared.script.models),
    )
}

async fn messages(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    shared.answer(Wire::Anthropic, request).await
}

async fn chat_completions(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    shared.answer(Wire::OpenAi, request).await
}

async fn responses(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    shared.answer(Wire::Responses, request).await
}

async fn not_found(
    State(shared): State<Arc<Shared>>,
    method: Method,
    uri: Uri,
    request: Request,
) -> Response {
    let wire = Wire::of_headers(request.headers());
    let failure = Failure::new(404, format!("Unknown request URL: {method} {}", uri.path()));
    refuse(wire, &shared.request_id(), &failure)
}

impl Shared {
    async fn answer(&self, wire: Wire, request: Request) -> Response {
        let request_id = self.request_id();
        let mut record = Recorded::new(request.method(), request.uri().path(), request.headers());
        let response = match self.respond(wire, &request_id, request, &mut record).await {
            Ok(response) => response,
            Err(failure) => refuse(wire, &request_id, &failure),
        };
        record.status = response.status().as_u16();
        tracing::info!(
            path = record.path,
            status = record.status,
            conversation = record.position.map(|position| position.conversation),
            step = record.position.map(|position| position.step),
            attempt = record.attempt,
            "answered"
        );
        self.log.push(record);
        response
    }

    async fn respond(
        &self,
        wire: Wire,
        request_id: &str,
        request: Request,
        record: &mut Recorded,
    ) -> Result<Response, Failure> {
        let (head, body) = request.into_parts();
        let body = to_bytes(body, BODY_BYTES_MAX)
            .await
            .map_err(|_| Failure::of_status(413))?;
        let json: Value = serde_json::from_slice(&body).map_err(|error| {
            Failure::invalid(format!("The request body is not valid JSON: {error}"))
        })?;
        record.set_body(json.clone(), body.len());
        wire.admit(&head.headers, self.script.api_key.as_deref())?;
        let conversation = wire.read(json)?;
        let (position, step) = conversation.find(&self.script);
        let attempt = {
            let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
            attempts.count(&body)
        };
        record.position = position;
        record.attempt = attempt;
        let strike = strike(&step, attempt);
        if let Some(Strike {
            fault: Fault::Refuse(failure),
            ..
        }) = strike
        {
            return Err(failure);
        }
        let reply = Reply::new(
            &self.script,
            &step,
            &conversation,
            &Seed::new(&body, attempt),
        );
        if !conversation.stream {
            let whole = wire.whole(&reply, &conversation);
            return self.whole(wire, request_id, &whole, strike.as_ref());
        }
        let look = strike
            .as_ref()
            .map(|strike| (strike, wire.fault_frames(strike, request_id)));
        let acts = plan(wire.frames(&reply, &conversation), reply.chunk_delay, look);
        Ok(answer(
            wire,
            request_id,
            200,
            "text/event-stream; charset=utf-8",
            self.body(acts),
        ))
    }

    /// Answers in one piece. Faults strike in the middle of the body.
    fn whole(
        &self,
        wire: Wire,
        request_id: &str,
        reply: &Value,
        strike: Option<&Strike>,
    ) -> Result<Response, Failure> {
        let body = bytes::Bytes::from(reply.to_string());
        let half = body.slice(..body.len() / 2);
        let body = match strike.map(|strike| &strike.fault) {
            None | Some(Fault::Refuse(_) | Fault::Repeat) => Body::from(body),
            Some(Fault::Garbage) => Body::from(half),
            Some(Fault::Cut { .. }) => self.body(vec![Act::Send(half), Act::Cut]),
            Some(Fault::Stall { length, .. }) => {
                self.body(vec![Act::Pause(*length), Act::Send(body)])
            }
            Some(Fault::Report(failure)) => {
                return Err(Failure {
                    status: wire.overload_status(),
                    ..failure.clone()
                });
            }
        };
        Ok(answer(wire, request_id, 200, "application/json", body))
    }

    fn body(&self, acts: Vec<Act>) -> Body {
        Body::from_stream(play(acts, self.stop.clone(), Arc::clone(&self.open)))
    }

    fn request_id(&self) -> String {
        format!("req_{:024}", self.answers.fetch_add(1, Ordering::Relaxed))
    }
}

fn refuse(wire: Wire, request_id: &str, failure: &Failure) -> Response {
    let body = wire.error(failure, request_id);
    let mut response = answer_json(wire, request_id, failure.status, &body);
    let headers = response.headers_mut();
    if let Some(seconds) = failure.retry_after {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    if let Some(ms) = failure.retry_after_ms {
        headers.insert("retry-after-ms", HeaderValue::from(ms));
    }
    let reason = failure.reason.as_deref().map(HeaderValue::from_str);
    if let Some(Ok(reason)) = reason {
        headers.insert("x-cocoonbox-reason", reason);
    }
    response
}

fn answer_json(wire: Wire, request_id: &str, status: u16, body: &Value) -> Response {
    answer(
        wire,
        request_id,
        status,
        "application/json",
        Body::from(body.to_string()),
    )
}

fn answer(
    wire: Wire,
    request_id: &str,
    status: u16,
    content_type: &'static str,
    body: Body,
) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status)
        .expect("scripts are held to known statuses, the rest is constant");
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.extend(wire.headers(request_id));
    response
}
