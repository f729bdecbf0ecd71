//! Connections: HTTP/2 with prior knowledge (and HTTP/1 for probes) over TCP and the unix socket.

use std::{io, sync::Arc, time::Duration};

use axum::{Router, extract::Request, middleware::Next, response::Response};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto::Builder,
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener, UnixStream},
    sync::Semaphore,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::Code;
use tower::ServiceExt as _;

use crate::{auth::HostConnection, status};

/// After a stop, calls under way have this long.
const GRACE: Duration = Duration::from_secs(3);
/// Accept errors (out of descriptors) pass; spinning on them does not help.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Connections at once; further ones wait to be accepted. Below the usual limit of open files, since boxes'
/// own connections need some.
const CONNECTIONS_MAX: usize = 4_096;
/// From an accepted connection to its first byte.
const FIRST_WORD: Duration = Duration::from_secs(10);
/// Calls of one connection at once.
const STREAMS_MAX: u32 = 2_000;
/// A client that reads one call slowly holds up at most this much, and its other calls not at all.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 16 * 1024 * 1024;
const HEADERS_BYTES_MAX: u32 = 64 * 1024;
/// A connection whose peer is gone is noticed within a minute.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// Serves TCP connections until stopped.
pub(super) async fn tcp(listener: TcpListener, router: Router, stop: CancellationToken) {
    let connections = TaskTracker::new();
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = async {
                let place = places.clone().acquire_owned().await;
                (listener.accept().await, place)
            } => accepted,
        };
        let (accepted, place) = accepted;
        match accepted {
            Ok((stream, _)) => {
                drop(stream.set_nodelay(true));
                let (router, stop) = (router.clone(), stop.clone());
                connections.spawn(async move {
                    let _place = place;
                    // Nothing times a connection on which nothing was said.
                    let spoke = tokio::time::timeout(FIRST_WORD, stream.peek(&mut [0])).await;
                    if matches!(spoke, Ok(Ok(1..))) {
                        serve(stream, router, stop).await;
                    }
                });
            }
            Err(error) => refuse(&error).await,
        }
    }
    connections.close();
    connections.wait().await;
}

/// Serves connections of the unix socket. Its owner and root are the operator.
pub(super) async fn unix(listener: UnixListener, router: Router, stop: CancellationToken) {
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let router = if is_operator(&stream) {
                    router.clone().layer(axum::Extension(HostConnection))
                } else {
                    router.clone()
                };
                connections.spawn(serve(stream, router, stop.clone()));
            }
            Err(error) => refuse(&error).await,
        }
    }
    connections.close();
    connections.wait().await;
}

/// Refuses what does not say that it is gRPC: it would be answered as if it had.
pub(super) async fn only_grpc(request: Request, next: Next) -> Response {
    let content_type = request.headers().get(http::header::CONTENT_TYPE);
    let is_grpc = content_type.is_some_and(|is| is.as_bytes().starts_with(b"application/grpc"));
    if is_grpc && request.method() == http::Method::POST {
        return next.run(request).await;
    }
    let what = "this port speaks gRPC: POST with content-type application/grpc";
    let mut answer = status::status(Code::InvalidArgument, "NOT_GRPC", what).into_http();
    *answer.status_mut() = http::StatusCode::UNSUPPORTED_MEDIA_TYPE;
    answer
}

fn is_operator(stream: &UnixStream) -> bool {
    let ours = rustix::process::geteuid().as_raw();
    stream
        .peer_cred()
        .is_ok_and(|peer| peer.uid() == 0 || peer.uid() == ours)
}

async fn refuse(error: &io::Error) {
    tracing::warn!(%error, "connection cannot be accepted");
    tokio::time::sleep(ACCEPT_PAUSE).await;
}

async fn serve<S>(stream: S, router: Router, stop: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(HEADERS_BYTES_MAX)
        .keep_alive_interval(KEEPALIVE);
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(KEEPALIVE);
    let service = TowerToHyperService::new(
        router.map_request(|request: http::Request<_>| request.map(axum::body::Body::new)),
    );
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    tokio::pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => {}
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            drop(tokio::time::timeout(GRACE, connection).await);
        }
    }
}
