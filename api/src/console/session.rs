//! Signing in and out: a sign-in link is exchanged for a token, which the browser holds as a cookie. Passkeys get the
//! same (`passkeys.rs`).

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::{Console, origin::COOKIE};
use crate::{accounts::Account, auth::Caller, users::from_account};

/// Long enough to open a link that was just made, on another device if need be.
const LINK_US: i64 = 10 * 60 * 1_000_000;
/// Browsers keep cookies for 400 days at most. A token lives until it is revoked, here or in the list of tokens.
pub(super) const COOKIE_S: u64 = 400 * 24 * 60 * 60;
const LABEL_BYTES_MAX: usize = 60;

#[derive(Deserialize)]
pub(super) struct Link {
    link: String,
    /// What the browser calls itself, for the list of tokens.
    #[serde(default)]
    label: String,
}

#[derive(Serialize)]
pub(super) struct Session {
    user_id: String,
    name: String,
    admin: bool,
    /// What `Users.RevokeToken` takes to end this session.
    token_id: String,
}

/// What a browser is told when it gets nothing.
#[derive(Debug, Serialize)]
pub(super) struct Refusal {
    #[serde(skip)]
    pub(super) code: StatusCode,
    pub(super) reason: String,
    pub(super) message: String,
}

/// Says who is signed in.
pub(super) async fn show(State(console): State<Console>, headers: HeaderMap) -> Response {
    match signed_in(&console, &headers).await {
        Ok((account, token_id)) => Json(session(&account, token_id)).into_response(),
        Err(refusal) => refusal.into_response(),
    }
}

/// Exchanges a link for a session.
pub(super) async fn begin(
    State(console): State<Console>,
    headers: HeaderMap,
    Json(asked): Json<Link>,
) -> Response {
    let label = label(&asked.label);
    let after_us = console.clock.now_us() - LINK_US;
    let exchanged = console.accounts.exchange(&asked.link, &label, after_us);
    match exchanged.await {
        Ok(issued) => {
            let cookie = cookie(&headers, &issued.token.reveal(), COOKIE_S);
            let body = Json(session(&issued.account, issued.token_id));
            ([(header::SET_COOKIE, cookie)], body).into_response()
        }
        Err(error) => Refusal::from(&from_account(error)).into_response(),
    }
}

/// Names a browser's session in the list of tokens, after what it calls itself.
pub(super) fn label(browser: &str) -> String {
    let mut label = format!("console, {browser}");
    let end = (0..=LABEL_BYTES_MAX.min(label.len())).rev();
    let end = end.into_iter().find(|at| label.is_char_boundary(*at));
    label.truncate(end.unwrap_or_default());
    label.retain(|letter| !letter.is_control());
    label.truncate(label.trim_end_matches([',', ' ']).len());
    label
}

/// Revokes the session's token.
pub(super) async fn end(State(console): State<Console>, headers: HeaderMap) -> Response {
    let (account, token_id) = match signed_in(&console, &headers).await {
        Ok(signed_in) => signed_in,
        Err(refusal) => return refusal.into_response(),
    };
    let caller = Caller::User {
        user_id: account.user_id.clone(),
        token_id: token_id.clone(),
        admin: account.state.admin,
    };
    let revoked = console
        .accounts
        .revoke(&account.user_id, &token_id, &caller);
    match revoked.await {
        Ok(_) => {
            let cookie = cookie(&headers, "", 0);
            ([(header::SET_COOKIE, cookie)], StatusCode::NO_CONTENT).into_response()
        }
        Err(error) => Refusal::from(&from_account(error)).into_response(),
    }
}

pub(super) async fn signed_in(
    console: &Console,
    headers: &HeaderMap,
) -> Result<(Account, String), Refusal> {
    let token = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let caller = match token {
        Some(token) => console.accounts.caller(token).await,
        None => Caller::Nobody(crate::auth::Denied::NoToken),
    };
    let Caller::User {
        user_id, token_id, ..
    } = caller
    else {
        let denied = caller.user().err();
        let denied = denied.unwrap_or_else(|| Status::unauthenticated(""));
        return Err(Refusal::from(&denied));
    };
    let account = console.accounts.account(&user_id).await;
    match account {
        Ok(account) => Ok((account, token_id)),
        Err(error) => Err(Refusal::from(&from_account(error))),
    }
}

pub(super) fn session(account: &Account, token_id: String) -> Session {
    Session {
        user_id: account.user_id.clone(),
        name: account.state.name.clone(),
        admin: account.state.admin,
        token_id,
    }
}

/// Out of reach of scripts and of other pages.
pub(super) fn cookie(headers: &HeaderMap, token: &str, max_age_s: u64) -> String {
    let secure = secure(headers);
    format!("{COOKIE}={token}; Path=/; HttpOnly; SameSite=Strict; Max-Age={max_age_s}{secure}")
}

/// Behind a TLS proxy that says so a cookie is kept from plain HTTP as well.
pub(super) fn secure(headers: &HeaderMap) -> &'static str {
    let proto = headers.get("x-forwarded-proto");
    if proto.is_some_and(|proto| proto == "https") {
        "; Secure"
    } else {
        ""
    }
}

impl From<&Status> for Refusal {
    fn from(status: &Status) -> Self {
        let code = match status.code() {
            Code::Unauthenticated => StatusCode::UNAUTHORIZED,
            Code::FailedPrecondition
            | Code::NotFound
            | Code::PermissionDenied
            | Code::AlreadyExists => StatusCode::FORBIDDEN,
            Code::InvalidArgument => StatusCode::BAD_REQUEST,
            Code::Unavailable | Code::ResourceExhausted | Code::Aborted => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let info = status.get_details_error_info();
        Self {
            code,
            reason: info.map_or_else(|| "INTERNAL".to_owned(), |info| info.reason),
            message: status.message().to_owned(),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.code, Json(self)).into_response()
    }
}
