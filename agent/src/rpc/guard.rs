//! Checks every call before it reaches a service: who signed it, and whether the box still answers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
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

/// The service that goes on answering while the box is being stopped: the api fetches the last events
/// through it.
const BOX_LOG: &str = "/cocoonbox.agent.v1.BoxLog/";

/// Whether the box still answers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gate(Arc<AtomicBool>);

impl Gate {
    pub(crate) fn close(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    fn is_closed(&self) -> bool {
        self.0.load(Ordering::SeqCst)
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
        if self.gate.is_closed() && !request.uri().path().starts_with(BOX_LOG) {
            return Err(status::stopping());
        }
        Ok(())
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
