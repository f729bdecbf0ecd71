//! Notices when a socket has been silent for too long.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// When the last byte went through, in either direction.
#[derive(Clone, Debug)]
pub(crate) struct Activity(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    start: Instant,
    last_ms: AtomicU64,
    expired: AtomicBool,
}

impl Activity {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Inner {
            start: Instant::now(),
            last_ms: AtomicU64::new(0),
            expired: AtomicBool::new(false),
        }))
    }

    fn touch(&self) {
        let elapsed_ms = u64::try_from(self.0.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.0.last_ms.store(elapsed_ms, Ordering::Relaxed);
    }

    /// Returns once nothing has moved for `limit`.
    ///
    /// It does not depend on anyone polling the socket: a copy that waits for a slow reader does not
    /// poll the side it reads from.
    pub(crate) async fn idle(&self, limit: Duration) {
        loop {
            let last = Duration::from_millis(self.0.last_ms.load(Ordering::Relaxed));
            let deadline = self.0.start + last + limit;
            if Instant::now() >= deadline {
                self.0.expired.store(true, Ordering::Relaxed);
                return;
            }
            tokio::time::sleep_until(deadline).await;
        }
    }

    /// Returns whether [`Self::idle`] came to its end.
    pub(crate) fn is_expired(&self) -> bool {
        self.0.expired.load(Ordering::Relaxed)
    }
}

/// A socket that reports its bytes.
#[derive(Debug)]
pub(crate) struct Metered<S> {
    socket: S,
    activity: Activity,
}

impl<S> Metered<S> {
    pub(crate) fn new(socket: S, activity: Activity) -> Self {
        Self { socket, activity }
    }

    pub(crate) fn get_ref(&self) -> &S {
        &self.socket
    }

    fn note<T>(&self, poll: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if matches!(poll, Poll::Ready(Ok(_))) {
            self.activity.touch();
        }
        poll
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.socket).poll_read(cx, buf);
        self.note(poll)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.socket).poll_write(cx, buf);
        self.note(poll)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.socket).poll_write_vectored(cx, bufs);
        self.note(poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn bytes_in_either_direction_put_the_end_off() {
        let (near, mut far) = tokio::io::duplex(64);
        let activity = Activity::new();
        let mut near = Metered::new(near, activity.clone());
        let begun = Instant::now();
        let (pause, limit) = (Duration::from_millis(40), Duration::from_millis(60));
        let traffic = async {
            tokio::time::sleep(pause).await;
            near.write_all(b"a").await.unwrap();
            tokio::time::sleep(pause).await;
            far.write_all(b"b").await.unwrap();
            near.read_u8().await.unwrap();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = traffic => unreachable!("traffic never ends"),
            () = activity.idle(limit) => {}
        }
        assert!(activity.is_expired());
        assert!(begun.elapsed() >= limit);
        let last = Duration::from_millis(activity.0.last_ms.load(Ordering::Relaxed));
        assert!(
            begun.elapsed() >= last + limit,
            "the limit counts from the last byte"
        );
    }
}
