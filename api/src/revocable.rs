//! Answers that end when the token they were asked with is revoked.
//!
//! Authority is checked when a call begins; a stream may go on for days. The owner of a leaked token who
//! revokes it must see the thief's streams and shells end, not just their next calls.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use axum::body::{Body, Bytes};
use http_body::{Frame, SizeHint};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// A body that breaks off, as an error, once its token is revoked.
pub struct Revocable {
    body: Body,
    revoked: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Revocable {
    pub fn new(body: Body, revoked: CancellationToken) -> Self {
        Self {
            body,
            revoked: Box::pin(revoked.cancelled_owned()),
        }
    }
}

impl http_body::Body for Revocable {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.revoked.as_mut().poll(cx).is_ready() {
            let error = io::Error::new(io::ErrorKind::PermissionDenied, "the token was revoked");
            return Poll::Ready(Some(Err(axum::Error::new(error))));
        }
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn breaks_off_when_revoked_and_not_before() {
        let revoked = CancellationToken::new();
        let endless = futures::stream::iter([Ok::<_, io::Error>(Bytes::from_static(b"a"))]);
        let endless = futures::StreamExt::chain(endless, futures::stream::pending());
        let mut body = Revocable::new(Body::from_stream(endless), revoked.clone());
        let first = body.frame().await.unwrap().unwrap();
        assert_eq!(first.into_data().unwrap(), "a");
        let next = tokio::spawn(async move { body.frame().await });
        revoked.cancel();
        assert!(next.await.unwrap().unwrap().is_err());
    }
}
