//! The way of a request through the gateway.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use tokio_util::task::TaskTracker;

use super::call::{Call, Writer};
use super::config::{Error, GatewayConfig, Vendor};
use super::hold::UsageSink;
use super::meter::Meter;
use super::outbound::{BODY_BYTES_MAX, Outbound, Sending};
use super::passing::Passing;
use super::scrub::Scrub;
use super::secret::Secret;
use super::wire::{COUNT_PATH, Failure, Outage, Route, Wire};
use crate::door::{Body, BoxError, Channel, Cut, content_length, text};

/// For a vendor to accept a connection, TLS included.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// Between two pieces of an answer, and before the first. A large model may think for minutes before it
/// answers a call that is not streamed; vendors give up after ten.
const SILENCE_MAX: Duration = Duration::from_mins(10);

const ANTHROPIC_VERSION: HeaderName = HeaderName::from_static("anthropic-version");

/// For calls that name no version: the one whose wire the agent speaks.
const ANTHROPIC_VERSION_DEFAULT: &str = "2023-06-01";

/// What a box may say to a vendor. Anything that names an account, an organisation or a key is not
/// among it.
const REQUEST_HEADERS: [HeaderName; 4] = [
    header::CONTENT_TYPE,
    header::ACCEPT,
    HeaderName::from_static("anthropic-beta"),
    ANTHROPIC_VERSION,
];

/// What a vendor may say to a box. Cookies and names of the operator's account are not among it.
const RESPONSE_HEADERS: [&str; 12] = [
    "cache-control",
    "content-length",
    "content-type",
    "date",
    "openai-processing-ms",
    "openai-version",
    "request-id",
    "retry-after",
    "retry-after-ms",
    "x-request-id",
    "x-should-retry",
    "content-encoding",
];

const RESPONSE_PREFIXES: [&str; 2] = ["anthropic-ratelimit-", "x-ratelimit-"];

/// Passes model calls on. Cheap to share behind an `Arc`.
pub struct Gateway {
    client: reqwest::Client,
    anthropic: Option<Upstream>,
    openai: Option<Upstream>,
    writer: Writer,
}

/// A vendor whose configuration was checked.
struct Upstream {
    base_url: String,
    key: Secret,
    credential: Option<(HeaderName, HeaderValue)>,
}

impl Gateway {
    /// Checks the configuration.
    pub fn new(config: GatewayConfig, sink: Arc<dyn UsageSink>) -> Result<Self, Error> {
        // Another one that is installed already is as good.
        drop(rustls::crypto::ring::default_provider().install_default());
        let upstream = |vendor: Option<Vendor>, wire| {
            vendor.map(|vendor| Upstream::new(vendor, wire)).transpose()
        };
        let anthropic = upstream(config.anthropic, Wire::Anthropic)?;
        let openai = upstream(config.openai, Wire::OpenAi)?;
        let mut client = reqwest::Client::builder()
            // A redirect would carry the key to wherever it points.
            .redirect(reqwest::redirect::Policy::none())
            // The proxy of the operator's shell is not part of the configuration.
            .no_proxy()
            .connect_timeout(CONNECT_MAX)
            .read_timeout(SILENCE_MAX)
            .tcp_nodelay(true)
            .user_agent(concat!("cocoonbox/", env!("CARGO_PKG_VERSION")));
        if ![&anthropic, &openai]
            .into_iter()
            .flatten()
            .any(Upstream::needs_tls)
        {
            // A host without CA certificates may have no vendor, or one on loopback.
            client = client.tls_certs_only([]);
        }
        Ok(Self {
            client: client.build().map_err(Error::Client)?,
            anthropic,
            openai,
            writer: Writer {
                sink,
                tasks: TaskTracker::new(),
            },
        })
    }

    /// Answers a request that came by a box's door. Who asks is `channel`; no header is asked.
    pub async fn answer<B>(&self, channel: &Channel, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send + Sync + Unpin + 'static,
        B::Error: Into<BoxError>,
    {
        let is_too_large = request.body().size_hint().lower() > BODY_BYTES_MAX;
        let (wire, answered) = match Route::of(request.method(), request.uri().path()) {
            Route::Call(wire) | Route::Count(wire) if is_too_large => {
                (Some(wire), Err(Failure::BodyTooLarge(BODY_BYTES_MAX)))
            }
            Route::Health => return text(StatusCode::OK, "ok\n".to_owned()),
            Route::Call(wire) => (Some(wire), self.call(wire, channel, request).await),
            Route::Models(wire) => (Some(wire), self.models(wire, request).await),
            Route::Count(wire) => (Some(wire), self.count(wire, request).await),
            Route::NotFound(wire) => (wire, Err(Failure::NotFound)),
            Route::WrongMethod(wire) => (Some(wire), Err(Failure::WrongMethod)),
        };
        answered.unwrap_or_else(|failure| {
            tracing::info!(
                reason = failure.reason(),
                vendor = wire.map(Wire::vendor),
                r#box = channel.box_id,
                "model request not served"
            );
            failure.response(wire)
        })
    }

    /// Waits until every record of a call that has ended is written. Call it after the doors are shut.
    pub async fn drained(&self) {
        self.writer.tasks.close();
        self.writer.tasks.wait().await;
    }

    async fn call<B>(
        &self,
        wire: Wire,
        channel: &Channel,
        request: Request<B>,
    ) -> Result<Response<Body>, Failure>
    where
        B: http_body::Body<Data = Bytes> + Send + Sync + Unpin + 'static,
        B::Error: Into<BoxError>,
    {
        let upstream = self.upstream(wire)?;
        let (head, body) = request.into_parts();
        let sending = Arc::new(Sending::default());
        let writer = self.writer.clone();
        let mut call = Call::begin(wire, channel, &head.headers, Arc::clone(&sending), writer);
        let admitted = self.writer.sink.admits(&call.scope(), channel).await;
        if let Err(refusal) = admitted {
            call.refused();
            return Err(Failure::Refused(refusal));
        }
        let url = upstream.url(wire.call_path(), head.uri.query());
        let outbound = Outbound::new(body, Some(call.asker()), Arc::clone(&sending));
        let sent = self
            .client
            .request(Method::POST, url)
            .headers(upstream.request_headers(wire, &head.headers))
            .body(reqwest::Body::wrap(outbound))
            .send()
            .await;
        let response = match sent {
            Ok(response) => response,
            Err(error) => {
                let failure = explain(wire, &error, &sending);
                match failure {
                    Failure::Refused(_) => call.refused(),
                    // It may be at it all the same.
                    Failure::Timeout(_) => drop(call),
                    _ => call.undone(),
                }
                return Err(failure);
            }
        };
        let meter = if is_event_stream(response.headers()) {
            Meter::of_events(wire)
        } else {
            Meter::of_json(wire)
        };
        call.answered(response.status(), meter);
        upstream.pass(wire, response, Some(call))
    }

    /// Passes on what is not metered and has a body.
    async fn count<B>(&self, wire: Wire, request: Request<B>) -> Result<Response<Body>, Failure>
    where
        B: http_body::Body<Data = Bytes> + Send + Sync + Unpin + 'static,
        B::Error: Into<BoxError>,
    {
        let upstream = self.upstream(wire)?;
        let (head, body) = request.into_parts();
        let sending = Arc::new(Sending::default());
        let outbound = Outbound::new(body, None, Arc::clone(&sending));
        let sent = self
            .client
            .request(Method::POST, upstream.url(COUNT_PATH, head.uri.query()))
            .headers(upstream.request_headers(wire, &head.headers))
            .body(reqwest::Body::wrap(outbound))
            .send()
            .await;
        let response = sent.map_err(|error| explain(wire, &error, &sending))?;
        upstream.pass(wire, response, None)
    }

    async fn models<B>(&self, wire: Wire, request: Request<B>) -> Result<Response<Body>, Failure> {
        let upstream = self.upstream(wire)?;
        let sent = self
            .client
            .request(
                Method::GET,
                upstream.url("/v1/models", request.uri().query()),
            )
            .headers(upstream.request_headers(wire, request.headers()))
            .send()
            .await;
        let response = sent.map_err(|error| explain(wire, &error, &Sending::default()))?;
        upstream.pass(wire, response, None)
    }

    fn upstream(&self, wire: Wire) -> Result<&Upstream, Failure> {
        let upstream = match wire {
            Wire::Anthropic => &self.anthropic,
            Wire::OpenAi | Wire::Responses => &self.openai,
        };
        upstream.as_ref().ok_or_else(|| wire.not_configured())
    }
}

impl Upstream {
    fn new(vendor: Vendor, wire: Wire) -> Result<Self, Error> {
        let name = wire.vendor();
        let bad_url = || Error::BaseUrl { vendor: name };
        let url = reqwest::Url::parse(&vendor.base_url).map_err(|_| bad_url())?;
        let plain = url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none();
        if !matches!(url.scheme(), "http" | "https") || !plain {
            return Err(bad_url());
        }
        let base_url = url.as_str().trim_end_matches('/');
        let base_url = base_url.strip_suffix("/v1").unwrap_or(base_url).to_owned();
        let (credential, value) = match wire {
            Wire::Anthropic => (HeaderName::from_static("x-api-key"), vendor.key.clone()),
            Wire::OpenAi | Wire::Responses => (
                header::AUTHORIZATION,
                Secret::new(format!("Bearer {}", vendor.key.reveal())),
            ),
        };
        let value = HeaderValue::from_str(value.reveal());
        let mut value = value.map_err(|_| Error::Key { vendor: name })?;
        value.set_sensitive(true);
        Ok(Self {
            base_url,
            credential: (!vendor.key.is_empty()).then_some((credential, value)),
            key: vendor.key,
        })
    }

    fn needs_tls(&self) -> bool {
        self.base_url.starts_with("https")
    }

    fn url(&self, path: &str, query: Option<&str>) -> String {
        let query = query.map(|query| format!("?{query}")).unwrap_or_default();
        format!("{}{path}{query}", self.base_url)
    }

    fn request_headers(&self, wire: Wire, from_box: &HeaderMap) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for name in REQUEST_HEADERS {
            for value in from_box.get_all(&name) {
                headers.append(name.clone(), value.clone());
            }
        }
        if wire == Wire::Anthropic && !headers.contains_key(ANTHROPIC_VERSION) {
            headers.insert(
                ANTHROPIC_VERSION,
                HeaderValue::from_static(ANTHROPIC_VERSION_DEFAULT),
            );
        }
        // A compressed answer could be neither metered nor searched for the key.
        headers.insert(
            header::ACCEPT_ENCODING,
            HeaderValue::from_static("identity"),
        );
        if let Some((name, value)) = &self.credential {
            headers.insert(name, value.clone());
        }
        headers
    }

    fn pass(
        &self,
        wire: Wire,
        response: reqwest::Response,
        call: Option<Call>,
    ) -> Result<Response<Body>, Failure> {
        if response.status().is_redirection() {
            return Err(Failure::Redirected(wire.vendor()));
        }
        let (head, body) = http::Response::from(response).into_parts();
        let framed = head.headers.contains_key(header::TRANSFER_ENCODING);
        let length = if framed {
            None
        } else {
            content_length(&head.headers)
        };
        let passing = Passing::new(body, Scrub::new(self.key.reveal()), call, length);
        let mut response = Response::new(Cut::new(passing).boxed_unsync());
        *response.status_mut() = head.status;
        for (name, value) in &head.headers {
            let text = name.as_str();
            let known = RESPONSE_HEADERS.contains(&text)
                || RESPONSE_PREFIXES
                    .iter()
                    .any(|prefix| text.starts_with(prefix));
            let misleading = framed && *name == header::CONTENT_LENGTH;
            if known && !misleading && !self.is_in(value) {
                response.headers_mut().append(name, value.clone());
            }
        }
        Ok(response)
    }

    fn is_in(&self, value: &HeaderValue) -> bool {
        let key = self.key.reveal().as_bytes();
        !key.is_empty()
            && value
                .as_bytes()
                .windows(key.len())
                .any(|window| window == key)
    }
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    kind.is_some_and(|kind| {
        kind.trim_start()
            .to_ascii_lowercase()
            .starts_with("text/event-stream")
    })
}

fn explain(wire: Wire, error: &reqwest::Error, sending: &Sending) -> Failure {
    if let Some(refusal) = sending.refusal() {
        Failure::Refused(refusal)
    } else if sending.is_too_large() {
        Failure::BodyTooLarge(BODY_BYTES_MAX)
    } else if sending.is_broken() {
        Failure::BodyBroken
    } else if error.is_timeout() && !error.is_connect() {
        Failure::Timeout(wire.vendor())
    } else {
        Failure::Unreachable(wire.vendor(), Outage::of(error))
    }
}
