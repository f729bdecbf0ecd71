//! Whether somebody attends to a box: a call into it that goes on, or an open stream of its events.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use bytes::Bytes;
use futures::Stream;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Duration, Instant};

/// Who attends to a box.
#[derive(Clone, Debug)]
pub struct Attention(Arc<Mutex<Attended>>);

#[derive(Debug)]
struct Attended {
    calls: usize,
    /// When the last one ended.
    since: Instant,
}

/// A call that goes on. Dropping it ends it.
#[derive(Debug)]
pub struct Attending(Attention);

/// A body or stream during which its box is attended to.
#[derive(Debug)]
pub struct Held<T> {
    inner: T,
    _attending: Attending,
}

impl Default for Attention {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Attended {
            calls: 0,
            since: Instant::now(),
        })))
    }
}

impl Attention {
    /// Begins a call.
    pub fn begin(&self) -> Attending {
        self.change(|attended| attended.calls += 1);
        Attending(self.clone())
    }

    /// Returns for how long nobody has attended to the box; `None` while somebody does.
    pub fn absent_for(&self) -> Option<Duration> {
        let attended = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (attended.calls == 0).then(|| attended.since.elapsed())
    }

    fn change(&self, change: impl FnOnce(&mut Attended)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Attending {
    /// Goes on for as long as `inner` lives.
    pub fn hold<T>(self, inner: T) -> Held<T> {
        Held {
            inner,
            _attending: self,
        }
    }
}

impl Drop for Attending {
    fn drop(&mut self) {
        self.0.change(|attended| {
            attended.calls -= 1;
            attended.since = Instant::now();
        });
    }
}

impl<T: Body<Data = Bytes> + Unpin> Body for Held<T> {
    type Data = Bytes;
    type Error = T::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, T::Error>>> {
        Pin::new(&mut self.inner).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl<T: Stream + Unpin> Stream for Held<T> {
    type Item = T::Item;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T::Item>> {
        Pin::new(&mut self.inner).poll_next(context)
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_box_is_attended_to_until_the_last_call_has_ended() {
        let attention = Attention::default();
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(attention.absent_for(), Some(Duration::from_secs(3)));
        let call = attention.begin();
        let mut watched = attention.begin().hold(futures::stream::iter([1]));
        drop(call);
        assert_eq!(attention.absent_for(), None);
        assert_eq!(watched.next().await, Some(1));
        drop(watched);
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(attention.absent_for(), Some(Duration::from_secs(2)));
    }
}
