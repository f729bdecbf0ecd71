//! Answers that end when the token or the share that they were asked with does.
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

/// A body that breaks off, as an error, once what it was asked with has ended.
pub struct Revocable {
    body: Body,
    over: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Revocable {
    /// `over` resolves when that is so.
    pub fn new(body: Body, over: impl Future<Output = ()> + Send + 'static) -> Self {
        Self {
            body,
            over: Box::pin(over),
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
        if self.over.as_mut().poll(cx).is_ready() {
            let what = "the token was revoked, or the share has ended";
            let error = io::Error::new(io::ErrorKind::PermissionDenied, what);
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
    use tokio_util::sync::CancellationToken;

    use super::*;

    #[tokio::test]
    async fn breaks_off_when_revoked_and_not_before() {
        let revoked = CancellationToken::new();
        let endless = futures::stream::iter([Ok::<_, io::Error>(Bytes::from_static(b"a"))]);
        let endless = futures::StreamExt::chain(endless, futures::stream::pending());
        let mut body = Revocable::new(
            Body::from_stream(endless),
            revoked.clone().cancelled_owned(),
        );
        let first = body.frame().await.unwrap().unwrap();
        assert_eq!(first.into_data().unwrap(), "a");
        let next = tokio::spawn(async move { body.frame().await });
        revoked.cancel();
        assert!(next.await.unwrap().unwrap().is_err());
    }
}
