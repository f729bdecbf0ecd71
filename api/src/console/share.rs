//! A guest's session: the secret of a share, out of a link's fragment, is kept in a cookie of its own.
//!
//! The cookie goes with requests below `/share/<share>` only. So it never makes a guest of whoever uses the console in
//! the same browser, and two shares in two tabs do not get into each other's way.

use axum::Extension;
use axum::{
    Json,
    extract::{Path, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use cocoonbox_proto::control::v1::LookResponse;
use serde::{Deserialize, Serialize};
use tonic::Status;

use super::{Console, origin::Shared, session::Refusal};
use crate::{
    auth::{Caller, Denied},
    shares::NotAdmitted,
};

/// Holds a share's secret.
pub(super) const COOKIE: &str = "cocoonbox_share";
/// Everything that guests' pages ask for lies below.
pub(super) const PATH: &str = "/share/";

#[derive(Deserialize)]
pub(super) struct Link {
    secret: String,
}

/// What a guest looks at.
#[derive(Serialize)]
pub(super) struct Look {
    share_id: String,
    box_id: String,
    box_name: String,
    /// Name of a `cocoonbox.control.v1.State`.
    state: &'static str,
    label: String,
    expires_at_ms: i64,
}

/// Exchanges a link's secret for a session.
pub(super) async fn begin(
    State(console): State<Console>,
    headers: HeaderMap,
    Json(link): Json<Link>,
) -> Response {
    match console.look(&link.secret, &headers).await {
        Ok(look) => {
            let cookie = cookie(&headers, &look.share_id, &link.secret, "");
            ([(header::SET_COOKIE, cookie)], Json(look)).into_response()
        }
        Err(refused) => refusal(refused),
    }
}

/// Says what the session's share shows.
pub(super) async fn show(
    State(console): State<Console>,
    headers: HeaderMap,
    shared: Option<Extension<Shared>>,
) -> Response {
    let secret = shared.map(|Extension(Shared(secret))| secret);
    match console.look(text(secret.as_ref()), &headers).await {
        Ok(look) => Json(look).into_response(),
        Err(refused) => refusal(refused),
    }
}

/// Forgets the session. The share stays as it is.
pub(super) async fn end(Path(share_id): Path<String>, headers: HeaderMap) -> Response {
    let is_id = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    if !share_id.bytes().all(is_id) {
        return StatusCode::NOT_FOUND.into_response();
    }
    let cookie = cookie(&headers, &share_id, "", "; Max-Age=0");
    ([(header::SET_COOKIE, cookie)], StatusCode::NO_CONTENT).into_response()
}

impl Console {
    async fn look(&self, secret: &str, headers: &HeaderMap) -> Result<Look, NotAdmitted> {
        let token = headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        let caller = match token {
            Some(token) => self.accounts.caller(token).await,
            None => Caller::Nobody(Denied::NoToken),
        };
        let admitted = self.shares.admit(secret, &caller).await?;
        Ok(self.shares.look(&admitted.guest).await?.into())
    }
}

impl From<LookResponse> for Look {
    fn from(look: LookResponse) -> Self {
        Self {
            state: look.state().as_str_name(),
            share_id: look.share_id,
            box_id: look.box_id,
            box_name: look.box_name,
            label: look.label,
            expires_at_ms: look.expires_at_ms,
        }
    }
}

/// Kept until the browser is closed: who borrows one leaves nothing in it, and the link opens it again.
fn cookie(headers: &HeaderMap, share_id: &str, secret: &str, age: &str) -> String {
    let secure = super::session::secure(headers);
    format!("{COOKIE}={secret}; Path={PATH}{share_id}; HttpOnly; SameSite=Strict{age}{secure}")
}

fn refusal(refused: NotAdmitted) -> Response {
    Refusal::from(&Status::from(refused)).into_response()
}

fn text(secret: Option<&HeaderValue>) -> &str {
    secret.and_then(|secret| secret.to_str().ok()).unwrap_or("")
}
