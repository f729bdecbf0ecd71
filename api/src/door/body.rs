//! Bodies that stream, and how they break.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body::{Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty, Full};

pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What the door answers with: frames as they arrive, or an error that breaks the connection.
pub type Body = UnsyncBoxBody<Bytes, BoxError>;

pub(crate) fn empty() -> Body {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

pub(crate) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into())
        .map_err(|never| match never {})
        .boxed_unsync()
}

pub(crate) fn text(status: StatusCode, body: String) -> Response<Body> {
    let mut response = Response::new(full(body));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}

/// Passes a body on and lets an error wait for one turn.
///
/// The server drops what it has not yet written when a body fails. Being told to wait makes it write
/// first, so that what arrived before the cut is also what the reader gets before the cut.
#[derive(Debug)]
pub(crate) struct Cut<B> {
    inner: B,
    failed: Option<BoxError>,
}

impl<B> Cut<B> {
    pub(crate) fn new(inner: B) -> Self {
        Self {
            inner,
            failed: None,
        }
    }
}

impl<B> http_body::Body for Cut<B>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(error) = self.failed.take() {
            return Poll::Ready(Some(Err(error)));
        }
        match Pin::new(&mut self.inner).poll_frame(cx) {
            Poll::Ready(Some(Err(error))) => {
                self.failed = Some(error.into());
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Poll::Ready(Some(Ok(frame))) => Poll::Ready(Some(Ok(frame))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.failed.is_none() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::Request;
    use http_body_util::StreamBody;
    use hyper::body::Incoming;
    use hyper::service::service_fn;
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn what_came_before_a_cut_is_written_before_it() {
        let (mut near, far) = tokio::io::duplex(4096);
        let service = service_fn(|_request: Request<Incoming>| async {
            // The data and the error are there at the same moment.
            let frames: [Result<Frame<Bytes>, BoxError>; 2] = [
                Ok(Frame::data(Bytes::from_static(b"the last words"))),
                Err("cut".into()),
            ];
            let body = StreamBody::new(futures::stream::iter(frames));
            Ok::<_, Infallible>(Response::new(Cut::new(body)))
        });
        let server = hyper::server::conn::http1::Builder::new();
        let served = tokio::spawn(server.serve_connection(TokioIo::new(far), service));
        near.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            .await
            .unwrap();
        let mut answer = String::new();
        near.read_to_string(&mut answer).await.unwrap();
        assert!(answer.contains("the last words"), "{answer}");
        assert!(!answer.contains("\r\n0\r\n"), "it has no end: {answer}");
        assert!(served.await.unwrap().is_err());
    }
}
