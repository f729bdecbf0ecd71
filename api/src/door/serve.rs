//! The listener of one box and what its connections share.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{Method, Request, Response, Version, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::activity::{Activity, Metered};
use super::body::Body;
use super::guard::Lookups;
use super::refusal::Refusal;
use super::target::Target;
use super::{Channel, Dialer, DoorLimits, Resolver, SystemResolver, TcpDialer, WebPolicy};
use super::{tunnel, web};
use crate::gateway::Gateway;

/// Bytes that wait for a slow reader, and a read's worth of a request.
const BUFFER_BYTES_MAX: usize = 64 << 10;

/// Browsers send some KiB of cookies; the buffer's limit alone would be exceeded by a read or two.
const HEAD_BYTES_MAX: usize = 32 << 10;

const HEADERS_MAX: usize = 128;

/// Connections beyond a box's limit that are told so at a time; further ones are just closed.
const BUSY_ANSWERS_MAX: usize = 32;

/// For a connection beyond the limit to ask and be told.
const BUSY_ANSWER_TIME: Duration = Duration::from_secs(2);

/// After an accept that failed, most likely for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What the doors of all boxes share.
pub struct DoorServices {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) web: WebPolicy,
    pub(crate) own: Vec<SocketAddr>,
    pub(crate) limits: DoorLimits,
    pub(crate) resolver: Arc<dyn Resolver>,
    pub(crate) dialer: Arc<dyn Dialer>,
}

impl DoorServices {
    /// `own` are the addresses that the api listens on; no box reaches them through its door.
    pub fn new(gateway: Arc<Gateway>, web: WebPolicy, own: Vec<SocketAddr>) -> Self {
        Self {
            gateway,
            web,
            own,
            limits: DoorLimits::default(),
            resolver: Arc::new(SystemResolver::default()),
            dialer: Arc::new(TcpDialer),
        }
    }

    pub fn with_limits(mut self, limits: DoorLimits) -> Self {
        self.limits = limits;
        self
    }

    pub fn with_resolver(mut self, resolver: Arc<dyn Resolver>) -> Self {
        self.resolver = resolver;
        self
    }

    pub fn with_dialer(mut self, dialer: Arc<dyn Dialer>) -> Self {
        self.dialer = dialer;
        self
    }
}

/// One box's door.
pub(crate) struct Door {
    pub(crate) channel: Channel,
    pub(crate) services: Arc<DoorServices>,
    pub(crate) lookups: Lookups,
    pub(crate) tasks: TaskTracker,
    pub(crate) stop: CancellationToken,
}

/// Serves a box's door until told to stop; then cuts what is open and returns when all is gone.
///
/// Everything that comes in by `listener` is taken to come from `channel`.
pub async fn serve(
    listener: TcpListener,
    channel: Channel,
    services: Arc<DoorServices>,
    stop: CancellationToken,
) {
    let limits = services.limits.clone();
    let tasks = TaskTracker::new();
    let slots = Arc::new(Semaphore::new(limits.connections));
    let busy_slots = Arc::new(Semaphore::new(BUSY_ANSWERS_MAX));
    let lookups = Lookups {
        permits: Arc::new(Semaphore::new(limits.lookups)),
        tasks: tasks.clone(),
        stop: stop.clone(),
    };
    let door = Arc::new(Door {
        channel,
        services,
        lookups,
        tasks: tasks.clone(),
        stop: stop.clone(),
    });
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, r#box = door.channel.box_id, "door did not accept");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        if let Ok(slot) = Arc::clone(&slots).try_acquire_owned() {
            tasks.spawn(Arc::clone(&door).connection(stream, Arc::new(slot)));
        } else if let Ok(slot) = Arc::clone(&busy_slots).try_acquire_owned() {
            let refusal = Refusal::Busy(limits.connections);
            let stop = stop.clone();
            tasks.spawn(async move {
                let _slot = slot;
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = refuse(stream, refusal) => {}
                }
            });
        }
    }
    drop(listener);
    tasks.close();
    tasks.wait().await;
}

/// Answers one request with a refusal and closes.
async fn refuse(stream: TcpStream, refusal: Refusal) {
    let service = service_fn(move |_request: Request<Incoming>| {
        let mut response = refusal.response();
        let close = http::HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
        async move { Ok::<_, Infallible>(response) }
    });
    let connection = http1::Builder::new()
        .keep_alive(false)
        .max_buf_size(BUFFER_BYTES_MAX)
        .max_header_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    // Whether it heard us is its own affair.
    let _answered = timeout(BUSY_ANSWER_TIME, connection).await;
}

impl Door {
    async fn connection(self: Arc<Self>, stream: TcpStream, slot: Arc<OwnedSemaphorePermit>) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "nodelay not set");
        }
        let limits = &self.services.limits;
        let activity = Activity::new();
        let socket = TokioIo::new(Metered::new(stream, activity.clone()));
        // A reader of HTTP/1.0 may take the close of the connection for the end of the answer.
        let ends_by_close = AtomicBool::new(false);
        let service = service_fn(|request: Request<Incoming>| {
            ends_by_close.store(request.version() == Version::HTTP_10, Ordering::Relaxed);
            let answer = Arc::clone(&self).answer(request, Arc::clone(&slot));
            async { Ok::<_, Infallible>(answer.await) }
        });
        let mut connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.header)
            .max_buf_size(BUFFER_BYTES_MAX)
            .max_header_size(HEAD_BYTES_MAX)
            .max_headers(HEADERS_MAX)
            .serve_connection(socket, service)
            .with_upgrades();
        let served = tokio::select! {
            () = self.stop.cancelled() => return,
            () = activity.idle(limits.connection_idle) => return,
            served = &mut connection => served,
        };
        if let Err(error) = served {
            tracing::debug!(%error, r#box = self.channel.box_id, "door connection broke");
            if ends_by_close.load(Ordering::Relaxed)
                && let Some(parts) = connection.into_parts()
            {
                tunnel::reset_on_close(parts.io.inner().get_ref());
            }
        }
    }

    async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        slot: Arc<OwnedSemaphorePermit>,
    ) -> Response<Body> {
        self.route(request, slot).await.unwrap_or_else(|refusal| {
            tracing::debug!(
                reason = refusal.reason(),
                r#box = self.channel.box_id,
                "egress refused"
            );
            refusal.response()
        })
    }

    async fn route(
        self: &Arc<Self>,
        request: Request<Incoming>,
        slot: Arc<OwnedSemaphorePermit>,
    ) -> Result<Response<Body>, Refusal> {
        if request.method() == Method::CONNECT {
            return tunnel::open(self, request, slot).await;
        }
        match request.uri().scheme_str() {
            None => return Err(Refusal::OriginForm),
            Some("http") => {}
            Some("https") => return Err(Refusal::UseConnect),
            Some(_) => return Err(Refusal::Scheme),
        }
        let authority = request.uri().authority().ok_or(Refusal::OriginForm)?;
        let target = Target::parse(authority, Some(80))?;
        if !target.is_gateway() {
            return web::forward(self, target, request).await;
        }
        if target.port != 80 {
            return Err(Refusal::GatewayForm);
        }
        Ok(self.services.gateway.answer(&self.channel, request).await)
    }
}
