//! Signing in and out: a sign-in link is exchanged for a token, which the browser holds as a cookie.

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use tonic::{Code, Status};

use super::{Console, origin::COOKIE};
use crate::{accounts::Account, auth::Caller, users::from_account};

/// Long enough to open a link that was just made, on another device if need be.
const LINK_US: i64 = 10 * 60 * 1_000_000;
/// Browsers keep cookies for 400 days at most. A token lives until it is revoked, here or in the list of tokens.
const COOKIE_S: u64 = 400 * 24 * 60 * 60;
const LABEL_BYTES_MAX: usize = 60;

#[derive(Deserialize)]
pub(super) struct Link {
    link: String,
    /// What the browser calls itself, for the list of tokens.
    #[serde(default)]
    label: String,
}

#[derive(Serialize)]
struct Session {
    user_id: String,
    name: String,
    admin: bool,
    /// What `Users.RevokeToken` takes to end this session.
    token_id: String,
}

#[derive(Serialize)]
struct Refusal {
    reason: &'static str,
    message: String,
}

/// Says who is signed in.
pub(super) async fn show(State(console): State<Console>, headers: HeaderMap) -> Response {
    match signed_in(&console, &headers).await {
        Ok((account, token_id)) => Json(session(&account, token_id)).into_response(),
        Err(refusal) => refusal,
    }
}

/// Exchanges a link for a session.
pub(super) async fn begin(
    State(console): State<Console>,
    headers: HeaderMap,
    Json(asked): Json<Link>,
) -> Response {
    let mut label = format!("console, {}", asked.label);
    let end = (0..=LABEL_BYTES_MAX.min(label.len())).rev();
    let end = end.into_iter().find(|at| label.is_char_boundary(*at));
    label.truncate(end.unwrap_or_default());
    label.retain(|letter| !letter.is_control());
    let after_us = console.clock.now_us() - LINK_US;
    let exchanged =
        console
            .accounts
            .exchange(&asked.link, label.trim_end_matches([',', ' ']), after_us);
    match exchanged.await {
        Ok(issued) => {
            let cookie = cookie(&headers, &issued.token.reveal(), COOKIE_S);
            let body = Json(session(&issued.account, issued.token_id));
            ([(header::SET_COOKIE, cookie)], body).into_response()
        }
        Err(error) => refuse(&from_account(error)),
    }
}

/// Revokes the session's token.
pub(super) async fn end(State(console): State<Console>, headers: HeaderMap) -> Response {
    let (account, token_id) = match signed_in(&console, &headers).await {
        Ok(signed_in) => signed_in,
        Err(refusal) => return refusal,
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
        Err(error) => refuse(&from_account(error)),
    }
}

async fn signed_in(console: &Console, headers: &HeaderMap) -> Result<(Account, String), Response> {
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
        return Err(refuse(
            &denied.unwrap_or_else(|| Status::unauthenticated("")),
        ));
    };
    let account = console.accounts.account(&user_id).await;
    match account {
        Ok(account) => Ok((account, token_id)),
        Err(error) => Err(refuse(&from_account(error))),
    }
}

fn session(account: &Account, token_id: String) -> Session {
    Session {
        user_id: account.user_id.clone(),
        name: account.state.name.clone(),
        admin: account.state.admin,
        token_id,
    }
}

/// Out of reach of scripts and of other pages. Behind a TLS proxy that says so it is kept from plain HTTP as well.
fn cookie(headers: &HeaderMap, token: &str, max_age_s: u64) -> String {
    let proto = headers.get("x-forwarded-proto");
    let secure = if proto.is_some_and(|proto| proto == "https") {
        "; Secure"
    } else {
        ""
    };
    format!("{COOKIE}={token}; Path=/; HttpOnly; SameSite=Strict; Max-Age={max_age_s}{secure}")
}

fn refuse(status: &Status) -> Response {
    let (code, reason) = match status.code() {
        Code::Unauthenticated => (StatusCode::UNAUTHORIZED, "SIGNED_OUT"),
        Code::FailedPrecondition | Code::NotFound => (StatusCode::FORBIDDEN, "NO_SUCH_LINK"),
        Code::InvalidArgument => (StatusCode::BAD_REQUEST, "BAD_REQUEST"),
        Code::Unavailable | Code::ResourceExhausted => {
            (StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE")
        }
        _ => (StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL"),
    };
    let message = status.message().to_owned();
    (code, Json(Refusal { reason, message })).into_response()
}
