//! Checks every call before it reaches a service: who signed it, and whether the box still answers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll},
};

use cocoonbox_events::Clock;
use futures::future::{Either, Ready, ready};
use http::{Request, Response};
use tonic::{Status, body::Body};
use tower::{Layer, Service};

use super::status;
use crate::{credential, identity::IdentityFile};

/// The service that always answers: the api releases the box through it, and fetches the last events
/// while the box is being stopped.
const BOX_LOG: &str = "/cocoonbox.agent.v1.BoxLog/";
/// Says whether the box is released.
const HELLO: &str = "/cocoonbox.agent.v1.Session/Hello";

/// Whether the box answers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gate(Arc<AtomicU8>);

const PAUSED: u8 = 0;
const OPEN: u8 = 1;
const CLOSED: u8 = 2;

impl Gate {
    /// Lets calls through, unless the box is being stopped already.
    pub(crate) fn open(&self) {
        let (set, seen) = (Ordering::SeqCst, Ordering::SeqCst);
        self.0.compare_exchange(PAUSED, OPEN, set, seen).ok();
    }

    /// Refuses calls from here on.
    pub(crate) fn close(&self) {
        self.0.store(CLOSED, Ordering::SeqCst);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.0.load(Ordering::SeqCst) == OPEN
    }

    fn check(&self, path: &str) -> Result<(), Status> {
        match self.0.load(Ordering::SeqCst) {
            _ if path.starts_with(BOX_LOG) => Ok(()),
            OPEN => Ok(()),
            PAUSED if path == HELLO => Ok(()),
            PAUSED => Err(status::not_released()),
            _ => Err(status::stopping()),
        }
    }
}

/// Puts the checks in front of every service.
#[derive(Clone)]
pub(crate) struct GuardLayer {
    pub(crate) identity: IdentityFile,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) gate: Gate,
}

#[derive(Clone)]
pub(crate) struct Guard<S> {
    inner: S,
    layer: GuardLayer,
}

impl<S> Layer<S> for GuardLayer {
    type Service = Guard<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Guard {
            inner,
            layer: self.clone(),
        }
    }
}

impl GuardLayer {
    fn check<B>(&self, request: &Request<B>) -> Result<(), Status> {
        let text = request.headers().get(credential::HEADER);
        // A header that is no text is one that does not parse.
        let text = text.map(|text| text.to_str().unwrap_or_default());
        let now_s = self.clock.now_us().div_euclid(1_000_000);
        credential::verify(text, &self.identity.current(), now_s).map_err(status::credential)?;
        self.gate.check(request.uri().path())
    }
}

impl<S, B> Service<Request<B>> for Guard<S>
where
    S: Service<Request<B>, Response = Response<Body>>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Either<S::Future, Ready<Result<Response<Body>, S::Error>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        match self.layer.check(&request) {
            Ok(()) => Either::Left(self.inner.call(request)),
            Err(status) => Either::Right(ready(Ok(status.into_http()))),
        }
    }
}
