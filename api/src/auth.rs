//! Who calls: a device token, a share's secret, or the operator on the api's own socket.

use std::{sync::Arc, time::Duration};

use axum::{
    body::Body,
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use cocoonbox_proto::log::v1::{Actor, actor};
use http::Extensions;
use tonic::{Code, Status};

use crate::{
    accounts::Accounts,
    revocable::Revocable,
    screen,
    shares::{Guest, SHARE, Shares},
    status,
};

const DELETE_USER: &str = "/cocoonbox.control.v1.Users/Delete";
const REVOKE_TOKEN: &str = "/cocoonbox.control.v1.Users/RevokeToken";
/// All that guests may call. Here and nowhere else it is decided, before any service is asked.
const FOR_GUESTS: [&str; 2] = ["/cocoonbox.control.v1.Shares/Look", screen::SCREEN];

/// What tells who calls.
#[derive(Clone)]
pub struct Known {
    pub accounts: Arc<Accounts>,
    pub shares: Arc<Shares>,
}

/// Whoever sent a request, as far as the edge could tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caller {
    User {
        user_id: String,
        token_id: String,
        admin: bool,
    },
    /// Whoever has the secret of a share: they look at one screen, and are refused everything else.
    Guest(Box<Guest>),
    /// Over the unix socket, as the user that the api runs as, or root.
    Host,
    /// No token, or one that opens nothing. Most calls refuse it.
    Nobody(Denied),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    NoToken,
    BadToken,
    /// The vault could not be asked.
    Unavailable,
}

/// Marks requests of connections that came in by the unix socket from its owner.
#[derive(Clone, Copy, Debug)]
pub struct HostConnection;

/// Marks requests whose token came in a browser's cookie: what such a session is answered, scripts can read.
#[derive(Clone, Copy, Debug)]
pub struct BrowserSession;

/// Puts the [`Caller`] into the request's extensions.
pub async fn identify(State(known): State<Known>, mut request: Request, next: Next) -> Response {
    let accounts = &known.accounts;
    let token = request
        .headers()
        .get(http::header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| {
            value
                .strip_prefix("Bearer ")
                .or_else(|| value.strip_prefix("bearer "))
        });
    let host = request.extensions().get::<HostConnection>().is_some();
    let caller = match token {
        Some(token) => accounts.caller(token).await,
        None if host => Caller::Host,
        None => Caller::Nobody(Denied::NoToken),
    };
    // Whoever brings a secret is a guest, whatever else they bring: it never adds to what a user may do.
    if request.headers().contains_key(SHARE) {
        return as_guest(&known, &caller, request, next).await;
    }
    let revoked = match &caller {
        // Who deletes themself or revokes the token in use ends their own token, and has to hear of it.
        Caller::User { .. } if [DELETE_USER, REVOKE_TOKEN].contains(&request.uri().path()) => None,
        Caller::User {
            token_id, user_id, ..
        } => Some(accounts.revoked(token_id, user_id)),
        Caller::Guest(_) | Caller::Host | Caller::Nobody(_) => None,
    };
    request.extensions_mut().insert(caller);
    let answer = next.run(request).await;
    match revoked {
        Some(revoked) => {
            answer.map(|body| Body::new(Revocable::new(body, revoked.cancelled_owned())))
        }
        None => answer,
    }
}

/// Lets a guest through to what guests may call, for as long as the share lasts.
async fn as_guest(known: &Known, caller: &Caller, mut request: Request, next: Next) -> Response {
    if !FOR_GUESTS.contains(&request.uri().path()) {
        return only_look().into_http();
    }
    let secret = request.headers().get(SHARE);
    let secret = secret.and_then(|secret| secret.to_str().ok()).unwrap_or("");
    let admitted = match known.shares.admit(secret, caller).await {
        Ok(admitted) => admitted,
        Err(refused) => return Status::from(refused).into_http(),
    };
    // Whoever is let in as a user stays for no longer than as that user.
    let signed_out = match caller {
        Caller::User {
            token_id, user_id, ..
        } => Some(known.accounts.revoked(token_id, user_id)),
        Caller::Guest(_) | Caller::Host | Caller::Nobody(_) => None,
    };
    let (ended, left) = (admitted.ended, admitted.left);
    let over = async move {
        tokio::select! {
            () = ended.cancelled() => {}
            () = at_the_end_of(left) => {}
            () = async {
                match signed_out {
                    Some(signed_out) => signed_out.cancelled().await,
                    None => std::future::pending().await,
                }
            } => {}
        }
    };
    let caller = Caller::Guest(Box::new(admitted.guest));
    request.extensions_mut().insert(caller);
    let answer = next.run(request).await;
    answer.map(|body| Body::new(Revocable::new(body, over)))
}

async fn at_the_end_of(left: Option<Duration>) {
    match left {
        Some(left) => tokio::time::sleep(left).await,
        None => std::future::pending().await,
    }
}

pub fn only_look() -> Status {
    status::status(
        Code::PermissionDenied,
        "GUESTS_ONLY_LOOK",
        "a share's secret opens the screen of its box, to look at, and nothing else",
    )
}

impl Caller {
    pub fn of(extensions: &Extensions) -> Self {
        extensions
            .get::<Self>()
            .cloned()
            .unwrap_or(Self::Nobody(Denied::NoToken))
    }

    /// Returns the user's id, or refuses.
    pub fn user(&self) -> Result<&str, Status> {
        match self {
            Self::User { user_id, .. } => Ok(user_id),
            Self::Guest(_) => Err(only_look()),
            Self::Host => Err(status::status(
                Code::Unauthenticated,
                "TOKEN_REQUIRED",
                "this call needs a user's token, also on the host",
            )),
            Self::Nobody(denied) => Err(denied.status()),
        }
    }

    /// Refuses everyone but admins and the operator.
    pub fn admin(&self) -> Result<(), Status> {
        match self {
            Self::Host | Self::User { admin: true, .. } => Ok(()),
            Self::User { .. } => Err(status::status(
                Code::PermissionDenied,
                "ADMINS_ONLY",
                "only admins may do this",
            )),
            Self::Guest(_) => Err(only_look()),
            Self::Nobody(denied) => Err(denied.status()),
        }
    }

    /// Refuses everyone but the operator.
    pub fn host(&self) -> Result<(), Status> {
        if *self == Self::Host {
            return Ok(());
        }
        Err(status::status(
            Code::PermissionDenied,
            "HOST_ONLY",
            "only over the api's unix socket, without a token",
        ))
    }

    pub fn actor(&self) -> Actor {
        match self {
            Self::User { user_id, .. } => Actor {
                kind: actor::Kind::User.into(),
                id: user_id.clone(),
            },
            Self::Guest(guest) => Actor {
                kind: actor::Kind::Guest.into(),
                id: guest.share_id.clone(),
            },
            Self::Host | Self::Nobody(_) => Actor {
                kind: actor::Kind::Host.into(),
                id: String::new(),
            },
        }
    }
}

impl Denied {
    pub fn status(self) -> Status {
        match self {
            Self::NoToken => status::status(
                Code::Unauthenticated,
                "TOKEN_REQUIRED",
                "no token: send metadata `authorization: Bearer <token>`",
            ),
            Self::BadToken => status::status(
                Code::Unauthenticated,
                "TOKEN_INVALID",
                "this token is unknown or was revoked",
            ),
            Self::Unavailable => status::status(
                Code::Unavailable,
                "UNAVAILABLE",
                "tokens cannot be checked now",
            ),
        }
    }
}
