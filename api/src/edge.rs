//! The edge: who may call which box, and the call on its way, frame by frame, undecoded.
//!
//! A box that another api process drives is called through that process: the call goes there with the caller's
//! own credentials, which are checked again. While nobody drives a box that runs, calls wait.

mod hop;
mod peers;

use std::{sync::Arc, time::Duration};

use axum::{Router, body::Body, extract::State, response::Response};
use cocoonbox_events::Store;
use cocoonbox_projections::Views;
use cocoonbox_proto::{
    agent::v1::{HelloRequest, HelloResponse, session_client::SessionClient},
    control::v1::State as BoxState,
};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Uri, header::InvalidHeaderValue};
use hyper::{body::Incoming, client::conn::http2::SendRequest};
use tokio::time::Instant;
use tonic::{Code, Status};
use tower::ServiceExt;

pub use self::{hop::Hop, peers::Peers};
use crate::{
    accounts::Accounts,
    auth::Caller,
    channel::{BoxChannel, Channels},
    credential, fresh,
    lease::{self, Owners},
    screen,
    shares::{Guest, SHARE},
    status, stream,
};

/// Metadata that names the box.
pub const BOX_ID: &str = "box_id";
/// Tells the box who calls, for its log; only the edge sets it.
const USER: HeaderName = HeaderName::from_static("x-cocoonbox-user");
const AGENT_PREFIX: &str = "/cocoonbox.agent.v1.";
/// Between the api and the box only.
const API_ONLY: [&str; 3] = [
    "/cocoonbox.agent.v1.BoxLog/",
    "/cocoonbox.agent.v1.Fence/",
    "/cocoonbox.agent.v1.Saves/",
];
/// Answered beside the box, by the process that drives it.
const BESIDE: [&str; 2] = ["/cocoonbox.agent.v1.Control/", screen::SCREEN];
/// Of a caller's headers only these reach a box: everything else could carry a secret or a lie.
const PASSED: [&str; 8] = [
    "content-type",
    "te",
    "grpc-timeout",
    "grpc-encoding",
    "grpc-accept-encoding",
    "user-agent",
    "traceparent",
    "x-cocoonbox-command",
];

/// What the process that drives the box needs besides, to decide for itself whose call it is.
const CREDENTIALS: [&str; 3] = ["authorization", BOX_ID, SHARE];
/// How long a call waits for a box that runs and that nobody drives: until a killed process's lease has run out and
/// another has taken the box over, with some to spare.
const COMING: Duration = Duration::from_secs(15);
/// A call that was passed on waits less: whoever did so knows more by then.
const COMING_HERE: Duration = Duration::from_secs(3);
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Routes calls to boxes.
pub struct Edge {
    pub accounts: Arc<Accounts>,
    pub store: Arc<dyn Store>,
    pub views: Views,
    pub channels: Channels,
    pub owners: Owners,
    pub peers: Peers,
    pub hop: Hop,
    /// Answers what is asked beside boxes that are driven here.
    pub beside: Router,
}

/// Where a call to a box goes at this moment.
enum Way {
    /// Into the box.
    Here(BoxChannel),
    /// To the api process that drives the box.
    There(SendRequest<Body>),
}

/// Why there is no way at this moment.
enum Blocked {
    /// The box runs, and whoever is to drive it is on its way.
    Coming,
    Asleep,
}

/// Forwards whatever no service of the api's own has taken.
pub async fn forward(State(edge): State<Arc<Edge>>, request: Request<Body>) -> Response {
    let result = edge.route(request).await;
    result.unwrap_or_else(Status::into_http)
}

impl Edge {
    /// Returns the box's owner check: the id if this caller may use the box.
    pub async fn authorise(&self, caller: &Caller, headers: &HeaderMap) -> Result<String, Status> {
        let user = caller.user()?;
        let box_id = box_id(headers)?;
        self.owns(user, &box_id).await?;
        Ok(box_id)
    }

    /// Refuses whoever's box it is not.
    pub async fn owns(&self, user: &str, box_id: &str) -> Result<(), Status> {
        let is_owner = || async {
            let owner = self.views.box_owner(box_id).await;
            let owner = owner.map_err(|error| status::internal(&error))?;
            Ok::<_, Status>(owner.is_some_and(|(owner, _)| owner == user))
        };
        // It may have been made a moment ago, over another process.
        let is_theirs = is_owner().await?
            || (self.owners.are_shared() && {
                self.catch_up(user).await?;
                is_owner().await?
            });
        // Someone else's box and no box at all are told apart to nobody.
        if is_theirs {
            Ok(())
        } else {
            Err(no_such_box(box_id))
        }
    }

    /// Asks the box something on a caller's behalf, through whichever process drives it. `None` if it sleeps.
    pub async fn hello(
        &self,
        box_id: &str,
        headers: &HeaderMap,
    ) -> Option<Result<HelloResponse, Status>> {
        match self.way(box_id).await? {
            Way::Here(channel) => {
                let mut client = SessionClient::new(channel.transport.clone());
                let answer = client.hello(channel.sign(HelloRequest {})).await;
                Some(answer.map(tonic::Response::into_inner))
            }
            Way::There(peer) => {
                let (hop, headers) = (self.hop.mark(box_id).ok()?, headers.clone());
                let through = tower::service_fn(move |request: Request<tonic::body::Body>| {
                    let (parts, body) = request.into_parts();
                    let mut request = Request::from_parts(parts, Body::new(body));
                    copy(&headers, request.headers_mut(), &CREDENTIALS);
                    pass_on(peer.clone(), request, Ok(hop.clone()))
                });
                let answer = SessionClient::new(through).hello(HelloRequest {}).await;
                Some(answer.map(tonic::Response::into_inner))
            }
        }
    }

    async fn way(&self, box_id: &str) -> Option<Way> {
        if let Some(channel) = self.channels.get(box_id) {
            return Some(Way::Here(channel));
        }
        let lease = self.owners.holder(&lease::name_of(box_id)).await.ok()??;
        if lease.holder == *self.owners.me() {
            return None;
        }
        let connected = self.peers.connected(&lease.holder.address).await;
        connected.ok().map(Way::There)
    }

    async fn route(&self, mut request: Request<Body>) -> Result<Response, Status> {
        let path = request.uri().path().to_owned();
        if !path.starts_with(AGENT_PREFIX) {
            return Err(status::status(
                Code::Unimplemented,
                "NO_SUCH_METHOD",
                "no such method",
            ));
        }
        let caller = Caller::of(request.extensions());
        let guest = match &caller {
            Caller::Guest(guest) => Some(guest),
            Caller::User { .. } | Caller::Host | Caller::Nobody(_) => None,
        };
        let box_id = match guest {
            Some(guest) => of_guest(guest, request.headers_mut())?,
            None => self.authorise(&caller, request.headers()).await?,
        };
        if API_ONLY.iter().any(|prefix| path.starts_with(prefix)) {
            return Err(status::status(
                Code::PermissionDenied,
                "API_ONLY",
                "this service is between the api and the box",
            ));
        }
        let user = match guest {
            Some(guest) => &guest.owner_id,
            None => caller.user()?,
        };
        let is_passed_on = self.hop.is_marked(request.headers(), &box_id);
        let deadline = Instant::now() + if is_passed_on { COMING_HERE } else { COMING };
        loop {
            match self.way(&box_id).await {
                Some(Way::Here(channel)) if BESIDE.iter().any(|one| path.starts_with(one)) => {
                    request.extensions_mut().insert(channel);
                    // A guest is no reason for a box to stay awake: a page that somebody forgot would keep it so.
                    let attending = match guest {
                        Some(_) => None,
                        None => Some(self.channels.attention(&box_id).begin()),
                    };
                    let Ok(answer) = self.beside.clone().oneshot(request).await;
                    let Some(attending) = attending else {
                        return Ok(answer);
                    };
                    return Ok(answer.map(|body| Body::new(attending.hold(body))));
                }
                // Guests are let through to what is beside a box only; nothing of theirs goes into it.
                Some(Way::Here(_)) if guest.is_some() => return Err(no_such_box(&box_id)),
                Some(Way::Here(channel)) => {
                    let attending = self.channels.attention(&box_id).begin();
                    let answer = send(channel, user, request, &path).await?;
                    return Ok(answer.map(|body| Body::new(attending.hold(body))));
                }
                Some(Way::There(peer)) if !is_passed_on => {
                    let hop = self.hop.mark(&box_id);
                    return pass_on(peer, request, hop)
                        .await
                        .map(|answer| answer.map(Body::new));
                }
                // Whoever passed it on believed that the box is driven here. It is about to be, or not any more.
                Some(Way::There(_)) | None => {}
            }
            match self.blocked(user, &box_id).await? {
                Blocked::Asleep => return Err(asleep(&box_id)),
                Blocked::Coming if Instant::now() >= deadline => return Err(no_driver(&box_id)),
                Blocked::Coming => {
                    drop(tokio::time::timeout(LOOK_AGAIN, self.owners.changed()).await);
                }
            }
        }
    }

    /// Says why there is no way to a box, from what is in its account log at this moment.
    async fn blocked(&self, user: &str, box_id: &str) -> Result<Blocked, Status> {
        self.catch_up(user).await?;
        let row = self.views.box_(user, box_id).await;
        let row = row.map_err(|error| status::internal(&error))?;
        Ok(match row.map(|row| row.state()) {
            Some(BoxState::Running) => Blocked::Coming,
            _ => Blocked::Asleep,
        })
    }

    /// Waits until the views hold what the user's account log holds at this moment.
    async fn catch_up(&self, user: &str) -> Result<(), Status> {
        let log = self.accounts.log_of(user);
        let log = log.map_err(|error| status::internal(&error))?;
        let tail = fresh::tail(&*self.store, log).await;
        let tail = tail.map_err(status::from_read)?;
        let reached = self.views.at_least(&tail, stream::AT_LEAST).await;
        reached.map_err(|_| stream::behind())
    }
}

/// Sends a call to the process that drives the box, with the caller's own credentials.
async fn pass_on(
    mut peer: SendRequest<Body>,
    request: Request<Body>,
    hop: Result<HeaderValue, InvalidHeaderValue>,
) -> Result<http::Response<Incoming>, Status> {
    let (parts, body) = request.into_parts();
    let mut passed = Request::new(body);
    *passed.method_mut() = parts.method;
    *passed.version_mut() = http::Version::HTTP_2;
    *passed.uri_mut() = uri(parts.uri.path())?;
    copy(&parts.headers, passed.headers_mut(), &PASSED);
    copy(&parts.headers, passed.headers_mut(), &CREDENTIALS);
    let hop = hop.map_err(|error| status::internal(&error))?;
    passed.headers_mut().insert(hop::HEADER, hop);
    peer.send_request(passed).await.map_err(|error| {
        tracing::debug!(%error, "another api process did not answer");
        status::status(
            Code::Unavailable,
            "DRIVER_GONE",
            "the api process that drives the box is gone; try again",
        )
    })
}

fn copy(from: &HeaderMap, to: &mut HeaderMap, names: &[&'static str]) {
    for name in names {
        if let Some(value) = from.get(*name) {
            to.insert(HeaderName::from_static(name), value.clone());
        }
    }
}

fn uri(path: &str) -> Result<Uri, Status> {
    Uri::builder()
        .scheme("http")
        .authority("agent.cocoonbox")
        .path_and_query(path)
        .build()
        .map_err(|error| status::internal(&error))
}

async fn send(
    channel: BoxChannel,
    user: &str,
    request: Request<Body>,
    path: &str,
) -> Result<Response, Status> {
    let (parts, body) = request.into_parts();
    let mut forwarded = Request::new(tonic::body::Body::new(body));
    *forwarded.method_mut() = parts.method;
    *forwarded.version_mut() = http::Version::HTTP_2;
    *forwarded.uri_mut() = uri(path)?;
    copy(&parts.headers, forwarded.headers_mut(), &PASSED);
    let user = HeaderValue::from_str(user).map_err(|error| status::internal(&error))?;
    forwarded.headers_mut().insert(USER, user);
    let credential =
        HeaderValue::from_str(&channel.credential()).map_err(|error| status::internal(&error))?;
    forwarded
        .headers_mut()
        .insert(HeaderName::from_static(credential::HEADER), credential);
    let answer = channel
        .transport
        .oneshot(forwarded)
        .await
        .map_err(|error| {
            tracing::debug!(%error, "box did not answer");
            status::with(
                Code::Unavailable,
                "BOX_UNREACHABLE",
                "the box does not answer right now; try again",
                &[("box_id", &channel.box_id)],
            )
        })?;
    Ok(answer.map(Body::new))
}

/// Returns the box of a guest's share, and names it for whichever process the call goes on to. Another box than that is
/// no box.
fn of_guest(guest: &Guest, headers: &mut HeaderMap) -> Result<String, Status> {
    if headers.contains_key(BOX_ID) && box_id(headers)? != guest.box_id {
        return Err(status::with(
            Code::PermissionDenied,
            "GUESTS_ONLY_LOOK",
            "this share is of another box",
            &[("box_id", &box_id(headers)?)],
        ));
    }
    let value = HeaderValue::from_str(&guest.box_id).map_err(|error| status::internal(&error))?;
    headers.insert(HeaderName::from_static(BOX_ID), value);
    Ok(guest.box_id.clone())
}

/// Reads the box id from the metadata.
pub fn box_id(headers: &HeaderMap) -> Result<String, Status> {
    let value = headers
        .get(BOX_ID)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    if value.is_empty() {
        return Err(status::bad_field(
            BOX_ID,
            "name the box in metadata `box_id`",
        ));
    }
    cocoonbox_machines::BoxId::new(value)
        .map(|id| id.to_string())
        .map_err(|error| status::bad_field(BOX_ID, error.to_string()))
}

pub fn no_such_box(box_id: &str) -> Status {
    status::with(
        Code::NotFound,
        "NO_SUCH_BOX",
        "you have no such box",
        &[("box_id", box_id)],
    )
}

fn asleep(box_id: &str) -> Status {
    status::with(
        Code::FailedPrecondition,
        "BOX_NOT_RUNNING",
        "the box is not running; wake it with Ensure",
        &[("box_id", box_id)],
    )
}

fn no_driver(box_id: &str) -> Status {
    status::with(
        Code::Unavailable,
        "BOX_HAS_NO_DRIVER",
        "the box runs, but no api process drives it right now; try again",
        &[("box_id", box_id)],
    )
}
