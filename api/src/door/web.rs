//! Plain `http://` requests: one connection for each, to the address that was checked.

use http::header::{self, HeaderValue};
use http::{Request, Response, StatusCode, Uri, Version};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;

use super::activity::{Activity, Metered};
use super::body::{Body, Cut};
use super::guard::reach;
use super::headers::strip;
use super::refusal::Refusal;
use super::serve::Door;
use super::target::Target;

/// Head of an answer and read buffer. Pages with many cookies have heads of some tens of KiB.
const BUFFER_BYTES_MAX: usize = 256 << 10;

const HEADERS_MAX: usize = 256;

pub(crate) async fn forward(
    door: &Door,
    target: Target,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, Refusal> {
    let stream = reach(&door.services, &door.lookups, &target).await?;
    readdress(&mut request, &target)?;

    let activity = Activity::new();
    let socket = TokioIo::new(Metered::new(stream, activity.clone()));
    let broken = || Refusal::Unreachable(target.to_string());
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(BUFFER_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .handshake(socket)
        .await
        .map_err(|_| broken())?;
    let stop = door.stop.clone();
    let idle = door.services.limits.idle;
    let watch = activity.clone();
    door.tasks.spawn(async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = watch.idle(idle) => {}
            // How it ended is seen by who reads the answer.
            _ = connection => {}
        }
    });
    let answered = sender.send_request(request).await;
    let response = answered.map_err(|_| {
        if activity.is_expired() {
            Refusal::Timeout(target.to_string())
        } else {
            broken()
        }
    })?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        // Nobody asked: the request's upgrade header was not passed on.
        return Err(broken());
    }
    let (mut head, body) = response.into_parts();
    strip(&mut head.headers);
    head.version = Version::HTTP_11;
    head.extensions.clear();
    Ok(Response::from_parts(head, Cut::new(body).boxed_unsync()))
}

/// Turns a proxy's request into an origin's. `Host` follows from the URI, whatever the box sent.
fn readdress(request: &mut Request<Incoming>, target: &Target) -> Result<(), Refusal> {
    let path = request
        .uri()
        .path_and_query()
        .map_or("/", |path| path.as_str());
    *request.uri_mut() = path.parse::<Uri>().map_err(|_| Refusal::OriginForm)?;
    *request.version_mut() = Version::HTTP_11;
    request.extensions_mut().clear();
    let host = if target.port == 80 {
        target.host.to_string()
    } else {
        target.to_string()
    };
    let host = HeaderValue::from_str(&host).map_err(|_| Refusal::OriginForm)?;
    let headers = request.headers_mut();
    strip(headers);
    headers.remove(header::EXPECT);
    // The body knows its length; hyper writes the header from it.
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(header::HOST, host);
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    Ok(())
}
