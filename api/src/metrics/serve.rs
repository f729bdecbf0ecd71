//! Where metrics are asked for.

use axum::{
    Extension, Router,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::Scraper;
use crate::auth::HostConnection;

const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// `GET /metrics` in front of the other services of the operator's socket.
pub fn routes(scraper: Scraper, others: Router) -> Router {
    Router::new()
        .route("/metrics", get(for_operator))
        .with_state(scraper)
        .fallback_service(others)
}

/// Serves `GET /metrics` alone until stopped.
pub async fn listen(listener: TcpListener, scraper: Scraper, stop: CancellationToken) {
    let router = Router::new()
        .route("/metrics", get(answer))
        .with_state(scraper);
    let served = axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned());
    if let Err(error) = served.await {
        tracing::error!(%error, "metrics are not served any more");
    }
}

async fn for_operator(
    operator: Option<Extension<HostConnection>>,
    scraper: State<Scraper>,
) -> Response {
    if operator.is_none() {
        return StatusCode::FORBIDDEN.into_response();
    }
    answer(scraper).await
}

async fn answer(State(scraper): State<Scraper>) -> Response {
    ([(header::CONTENT_TYPE, TEXT)], scraper.scrape().await).into_response()
}
