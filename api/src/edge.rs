//! The edge: who may call which box, and the call on its way, frame by frame, undecoded.

use std::sync::Arc;

use axum::{body::Body, extract::State, response::Response};
use cocoonbox_projections::Views;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Uri};
use tonic::{Code, Status};
use tower::ServiceExt;

use crate::{
    auth::Caller,
    channel::{BoxChannel, Channels},
    credential, status,
};

/// Metadata that names the box.
pub const BOX_ID: &str = "box_id";
/// Tells the box who calls, for its log; only the edge sets it.
const USER: HeaderName = HeaderName::from_static("x-cocoonbox-user");
const AGENT_PREFIX: &str = "/cocoonbox.agent.v1.";
/// Between the api and the box only.
const API_ONLY: [&str; 1] = ["/cocoonbox.agent.v1.BoxLog/"];
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

/// Routes calls to boxes.
pub struct Edge {
    pub views: Views,
    pub channels: Channels,
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
        // Someone else's box and no box at all are told apart to nobody.
        match self.views.box_owner(&box_id).await {
            Ok(Some((owner, _))) if owner == user => Ok(box_id),
            Ok(_) => Err(no_such_box(&box_id)),
            Err(error) => Err(status::internal(&error)),
        }
    }

    async fn route(&self, request: Request<Body>) -> Result<Response, Status> {
        let path = request.uri().path().to_owned();
        if !path.starts_with(AGENT_PREFIX) {
            return Err(status::status(
                Code::Unimplemented,
                "NO_SUCH_METHOD",
                "no such method",
            ));
        }
        let caller = Caller::of(request.extensions());
        let box_id = self.authorise(&caller, request.headers()).await?;
        if API_ONLY.iter().any(|prefix| path.starts_with(prefix)) {
            return Err(status::status(
                Code::PermissionDenied,
                "API_ONLY",
                "this service is between the api and the box",
            ));
        }
        let channel = self.channels.get(&box_id).ok_or_else(|| asleep(&box_id))?;
        send(channel, caller.user()?, request, &path).await
    }
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
    *forwarded.uri_mut() = Uri::builder()
        .scheme("http")
        .authority("agent.cocoonbox")
        .path_and_query(path)
        .build()
        .map_err(|error| status::internal(&error))?;
    for name in PASSED {
        if let Some(value) = parts.headers.get(name) {
            forwarded
                .headers_mut()
                .insert(HeaderName::from_static(name), value.clone());
        }
    }
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
