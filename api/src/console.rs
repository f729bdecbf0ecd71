//! The console: the page that people see their boxes by, and what a browser needs beside gRPC.
//!
//! A browser speaks to the same services as everyone. It cannot read trailers, so calls with one answer come as
//! gRPC-Web. It keeps six HTTP/1 connections to a host, for all of its tabs, so each stream comes in a WebSocket,
//! which also goes both ways. It is known by a cookie that its scripts cannot read and that counts only in
//! requests of the page itself.

mod call;
mod files;
mod frames;
mod origin;
mod passkeys;
mod session;
mod share;

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    middleware,
    response::{IntoResponse, Response},
    routing::{any, get, post},
};
use cocoonbox_events::Clock;
use tokio_util::sync::CancellationToken;
use tonic_web::GrpcWebLayer;
use tower::{Layer as _, ServiceExt as _};

pub use self::passkeys::Passkeys;
use crate::{accounts::Accounts, shares::Shares};

/// What the console's own paths stand on.
#[derive(Clone)]
pub struct Console {
    pub accounts: Arc<Accounts>,
    pub shares: Arc<Shares>,
    pub clock: Arc<dyn Clock>,
    pub passkeys: Arc<Passkeys>,
    /// Every service, as other clients have it.
    pub grpc: Router,
    pub stop: CancellationToken,
}

/// Returns everything that TCP clients are answered: the page, its session, its streams, and gRPC.
pub fn routes(console: Console) -> Router {
    Router::new()
        // What is no page's request is a call, and is told so in gRPC's own way.
        .route("/", get(files::page).fallback(grpc))
        .route("/assets/{*path}", get(files::asset))
        .route("/manifest.webmanifest", get(files::manifest))
        .route("/icon.svg", get(files::icon))
        .route(
            "/console/session",
            get(session::show).post(session::begin).delete(session::end),
        )
        .route(
            "/console/passkeys",
            get(passkeys::places).post(passkeys::add),
        )
        .route(
            "/console/passkeys/registration",
            post(passkeys::ask_for_new),
        )
        .route("/console/passkeys/assertion", post(passkeys::ask_who))
        .route("/console/passkeys/session", post(passkeys::begin))
        .route("/console/call/{service}/{method}", any(call::open))
        .route("/share", get(files::page))
        .route("/share/session", post(share::begin))
        .route("/share/{share_id}", get(files::page))
        .route(
            "/share/{share_id}/session",
            get(share::show).delete(share::end),
        )
        .route(
            "/share/{share_id}/call/{service}/{method}",
            any(call::open_shared),
        )
        .fallback(grpc)
        .layer(middleware::from_fn(origin::admit))
        .with_state(console)
}

async fn grpc(State(console): State<Console>, request: Request) -> Response {
    let content_type = request.headers().get(http::header::CONTENT_TYPE);
    let is_web = content_type.is_some_and(|is| is.as_bytes().starts_with(b"application/grpc-web"));
    if is_web {
        let Ok(answer) = GrpcWebLayer::new()
            .layer(console.grpc)
            .oneshot(request)
            .await;
        return answer.map(Body::new);
    }
    let Ok(answer) = console.grpc.oneshot(request).await;
    answer.into_response()
}
