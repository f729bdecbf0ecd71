//! An answer on its way to the box: each chunk as it arrives, metered in passing, without the key.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::Frame;

use super::call::Call;
use super::scrub::Scrub;
use crate::door::BoxError;

pub(crate) struct Passing {
    inner: reqwest::Body,
    scrub: Scrub,
    call: Option<Call>,
    /// Bytes still to come, where the vendor said how many.
    left_bytes: Option<u64>,
    ended: bool,
}

impl Passing {
    /// `call` is absent for answers that are not metered.
    pub(crate) fn new(
        inner: reqwest::Body,
        scrub: Scrub,
        call: Option<Call>,
        length: Option<u64>,
    ) -> Self {
        Self {
            inner,
            scrub,
            call,
            left_bytes: length,
            ended: false,
        }
    }

    fn end(&mut self) -> Bytes {
        self.ended = true;
        if let Some(call) = self.call.take() {
            call.ended();
        }
        self.scrub.finish()
    }
}

impl http_body::Body for Passing {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        loop {
            if self.ended {
                return Poll::Ready(None);
            }
            let data = match Pin::new(&mut self.inner).poll_frame(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(frame))) => frame.into_data(),
                Poll::Ready(Some(Err(error))) => {
                    // What the scrub still holds may be half a key; it goes nowhere.
                    self.ended = true;
                    self.call = None;
                    return Poll::Ready(Some(Err(error.without_url().into())));
                }
                Poll::Ready(None) => {
                    let last = self.end();
                    if last.is_empty() {
                        return Poll::Ready(None);
                    }
                    return Poll::Ready(Some(Ok(Frame::data(last))));
                }
            };
            // Trailers stay here: they are headers that nobody has looked at.
            let Ok(data) = data else { continue };
            if let Some(call) = &mut self.call {
                call.feed(&data);
            }
            let length = data.len() as u64;
            self.left_bytes = self.left_bytes.map(|left| left.saturating_sub(length));
            let mut passed = self.scrub.feed(data);
            if self.left_bytes == Some(0) {
                // The server stops asking when the length it announced is reached.
                let last = self.end();
                if !last.is_empty() {
                    passed = [passed, last].concat().into();
                }
            }
            if !passed.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(passed))));
            }
        }
    }
}
