//! One call of any service in a WebSocket.
//!
//! The path names the method, the query the box. Each binary message is one message of the call, either way; the
//! text `end` says that no more come from the browser. The last thing that the browser is told is a text, the
//! status as JSON: `{"code": 0, "message": "", "details": ""}`, where `details` is the base64 of
//! `grpc-status-details-bin`.

use std::time::Duration;

use axum::{
    body::Body,
    extract::{
        FromRequestParts as _, Path, Query, Request, State,
        ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code},
    },
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _, stream::SplitSink};
use http::{HeaderMap, HeaderValue, header};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use serde::{Deserialize, Serialize};
use tokio::{sync::mpsc, time::Instant};
use tonic::Code;
use tower::ServiceExt as _;

use super::{
    Console,
    frames::{Frames, framed},
    origin::Shared,
};
use crate::{auth::BrowserSession, edge::BOX_ID, shares::SHARE};

/// Of one message, either way: the largest that a stream of ours carries, with room.
const MESSAGE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Messages of the browser that the call has not taken.
const WAITING_MAX: usize = 8;
/// A browser that is gone without a word is noticed within two of these.
const PING: Duration = Duration::from_secs(20);
const END: &str = "end";

#[derive(Deserialize)]
pub(super) struct Target {
    #[serde(default)]
    box_id: String,
}

#[derive(Serialize)]
struct Ended {
    code: i32,
    message: String,
    details: String,
}

impl Ended {
    fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
            details: String::new(),
        }
    }
}

/// Opens a call.
pub(super) async fn open(
    State(console): State<Console>,
    Path((service, method)): Path<(String, String)>,
    Query(target): Query<Target>,
    request: Request,
) -> Response {
    let call = http::Request::post(format!("/{service}/{method}"));
    start(console, call, target, request).await
}

/// Opens a call of a guest's. It brings the share's secret or an empty one, so that it is never taken for a call of
/// whoever is signed in besides.
pub(super) async fn open_shared(
    State(console): State<Console>,
    Path((_, service, method)): Path<(String, String, String)>,
    Query(target): Query<Target>,
    request: Request,
) -> Response {
    let secret = request.extensions().get::<Shared>();
    let secret = secret.map(|Shared(secret)| secret.clone());
    let none = || HeaderValue::from_static("");
    let call = http::Request::post(format!("/{service}/{method}"));
    let call = call.header(SHARE, secret.unwrap_or_else(none));
    start(console, call, target, request).await
}

async fn start(
    console: Console,
    call: http::request::Builder,
    target: Target,
    request: Request,
) -> Response {
    let (mut parts, _) = request.into_parts();
    let authorization = parts.headers.get(header::AUTHORIZATION).cloned();
    let upgrade = match WebSocketUpgrade::from_request_parts(&mut parts, &console).await {
        Ok(upgrade) => upgrade,
        Err(refused) => return refused.into_response(),
    };
    let mut call = call
        .header(header::CONTENT_TYPE, "application/grpc")
        .header(header::TE, "trailers");
    if !target.box_id.is_empty() {
        call = call.header(BOX_ID, target.box_id);
    }
    if let Some(token) = authorization {
        call = call.header(header::AUTHORIZATION, token);
    }
    if let Some(session) = parts.extensions.get::<BrowserSession>() {
        call = call.extension(*session);
    }
    upgrade
        .max_message_size(MESSAGE_BYTES_MAX)
        .max_frame_size(MESSAGE_BYTES_MAX)
        .on_upgrade(move |socket| carry(console, socket, call))
}

/// Carries a call until it ends, the browser leaves, or the api stops.
async fn carry(console: Console, socket: WebSocket, call: http::request::Builder) {
    let (mut out, mut from_browser) = socket.split();
    let (asked, messages) = mpsc::channel::<Bytes>(WAITING_MAX);
    let body = futures::stream::unfold(messages, |mut messages| async {
        let message = messages.recv().await?;
        Some((Ok::<_, axum::Error>(Frame::data(message)), messages))
    });
    let Ok(call) = call.body(Body::new(StreamBody::new(body))) else {
        let ended = Ended::new(
            Code::InvalidArgument,
            "the call's name or box is no such thing",
        );
        return finish(&mut out, &ended).await;
    };
    let (heard, mut hears) = mpsc::channel::<()>(1);
    let listen = async {
        let mut asked = Some(asked);
        while let Some(Ok(message)) = from_browser.next().await {
            // Full means that it was heard lately anyway.
            let _ = heard.try_send(());
            match message {
                Message::Binary(message) => {
                    if let Some(open) = &asked
                        && open.send(framed(&message)).await.is_err()
                    {
                        // The call takes no more; its status is on its way.
                        asked = None;
                    }
                }
                Message::Text(text) if text == END => asked = None,
                Message::Close(_) => return,
                _ => {}
            }
        }
    };
    let answer = async {
        let Ok(answer) = console.grpc.clone().oneshot(call).await;
        relay(&mut out, answer, &mut hears).await;
    };
    tokio::select! {
        // The browser is gone: dropping the call cancels it.
        () = listen => {}
        () = answer => {}
        () = console.stop.cancelled() => {}
    }
}

/// Hands the answer on, message by message, as fast as the browser takes them.
async fn relay(
    out: &mut SplitSink<WebSocket, Message>,
    answer: http::Response<Body>,
    heard: &mut mpsc::Receiver<()>,
) {
    let (parts, mut body) = answer.into_parts();
    if parts.headers.contains_key("grpc-status") {
        return finish(out, &told(&parts.headers)).await;
    }
    let mut frames = Frames::new(MESSAGE_BYTES_MAX);
    let mut silent_since = Instant::now();
    let mut ping = tokio::time::interval_at(silent_since + PING, PING);
    loop {
        let frame = tokio::select! {
            frame = body.frame() => frame,
            _ = heard.recv() => {
                silent_since = Instant::now();
                continue;
            }
            _ = ping.tick() => {
                if silent_since.elapsed() > 2 * PING
                    || out.send(Message::Ping(Bytes::new())).await.is_err()
                {
                    return;
                }
                continue;
            }
        };
        let frame = match frame {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => {
                let ended = Ended::new(Code::Unavailable, error.to_string());
                return finish(out, &ended).await;
            }
            None => {
                let ended = Ended::new(Code::Unavailable, "the stream ended without a status");
                return finish(out, &ended).await;
            }
        };
        let data = match frame.into_data() {
            Ok(data) => data,
            Err(frame) => {
                let trailers = frame.into_trailers().unwrap_or_default();
                return finish(out, &told(&trailers)).await;
            }
        };
        frames.take(&data);
        loop {
            match frames.next() {
                Ok(Some(message)) => {
                    if out.send(Message::Binary(message)).await.is_err() {
                        return;
                    }
                }
                Ok(None) => break,
                Err(bad) => {
                    let ended = Ended::new(Code::Internal, bad.to_string());
                    return finish(out, &ended).await;
                }
            }
        }
    }
}

async fn finish(out: &mut SplitSink<WebSocket, Message>, ended: &Ended) {
    let text = serde_json::to_string(ended).expect("numbers and strings");
    let close = CloseFrame {
        code: close_code::NORMAL,
        reason: "".into(),
    };
    if out.send(Message::Text(text.into())).await.is_ok() {
        drop(out.send(Message::Close(Some(close))).await);
    }
}

fn told(trailers: &HeaderMap) -> Ended {
    let status = tonic::Status::from_header_map(trailers);
    let details = trailers.get("grpc-status-details-bin");
    let (code, message) = status.map_or((Code::Unknown, String::new()), |status| {
        (status.code(), status.message().to_owned())
    });
    Ended {
        details: details.map(text).unwrap_or_default(),
        ..Ended::new(code, message)
    }
}

fn text(value: &HeaderValue) -> String {
    value.to_str().unwrap_or_default().to_owned()
}
