//! A request body on its way to the vendor: unchanged, counted, and its model read in passing.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use super::scan::Member;
use crate::door::BoxError;

/// The largest request. Vendors' own limits are about this.
pub(crate) const BODY_BYTES_MAX: u64 = 32 << 20;

/// Why a body could not be sent; asked after the sending failed.
#[derive(Debug, Default)]
pub(crate) struct Fate {
    pub(crate) too_large: AtomicBool,
    pub(crate) broken: AtomicBool,
}

#[derive(Debug)]
pub(crate) struct Outbound<B> {
    inner: B,
    sent_bytes: u64,
    model: Arc<Mutex<Member>>,
    fate: Arc<Fate>,
}

#[derive(Debug, thiserror::Error)]
#[error("request body is larger than {BODY_BYTES_MAX} bytes")]
struct TooLarge;

impl<B> Outbound<B> {
    pub(crate) fn new(inner: B, model: Arc<Mutex<Member>>, fate: Arc<Fate>) -> Self {
        Self {
            inner,
            sent_bytes: 0,
            model,
            fate,
        }
    }
}

impl<B> http_body::Body for Outbound<B>
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
        let frame = match Pin::new(&mut self.inner).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => frame,
            Poll::Ready(Some(Err(error))) => {
                self.fate.broken.store(true, Ordering::Relaxed);
                return Poll::Ready(Some(Err(error.into())));
            }
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Pending => return Poll::Pending,
        };
        // Trailers are headers, and headers from the box pass by name only.
        let Ok(data) = frame.into_data() else {
            return Poll::Ready(None);
        };
        self.sent_bytes = self.sent_bytes.saturating_add(data.len() as u64);
        if self.sent_bytes > BODY_BYTES_MAX {
            self.fate.too_large.store(true, Ordering::Relaxed);
            return Poll::Ready(Some(Err(TooLarge.into())));
        }
        self.model
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .feed(&data);
        Poll::Ready(Some(Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
