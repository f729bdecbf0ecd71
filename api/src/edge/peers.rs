//! Connections to the other api processes, for calls to boxes that they drive.

use std::{
    collections::HashMap,
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::body::Body;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// A process of the same fleet answers in milliseconds or is gone.
const CONNECT: Duration = Duration::from_secs(2);
/// A process that is held up is noticed in twice this time; its boxes are taken over about then.
const PING: Duration = Duration::from_secs(5);
/// One stalled call may hold this much of the connection's window, so that a thousand stalled calls do not stop
/// the others.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 256 * 1024 * 1024;
/// Addresses that are kept. Processes come and go; past it those without a connection are forgotten.
const ADDRESSES_MAX: usize = 64;

type Slot = Arc<tokio::sync::Mutex<Option<SendRequest<Body>>>>;

/// One connection to each process that was asked for.
pub struct Peers {
    slots: Mutex<HashMap<String, Slot>>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Peers {
    /// Connections end when `stop` is cancelled.
    pub fn new(stop: CancellationToken, tasks: TaskTracker) -> Self {
        Self {
            slots: Mutex::default(),
            stop,
            tasks,
        }
    }

    /// Returns a connection that is up. What is sent over it may still break; what is not sent is not lost.
    pub(super) async fn connected(&self, address: &str) -> io::Result<SendRequest<Body>> {
        let slot = self.slot(address);
        // One attempt at a time: the others wait for it and share what comes of it.
        let mut slot = slot.lock().await;
        if let Some(sender) = &mut *slot
            && sender.ready().await.is_ok()
        {
            return Ok(sender.clone());
        }
        *slot = None;
        let connecting = tokio::time::timeout(CONNECT, self.connect(address));
        let sender = connecting.await??;
        Ok(slot.insert(sender).clone())
    }

    async fn connect(&self, address: &str) -> io::Result<SendRequest<Body>> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let mut builder = Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .keep_alive_interval(PING)
            .keep_alive_timeout(PING)
            .keep_alive_while_idle(true);
        let handshake = builder.handshake(TokioIo::new(stream)).await;
        let (sender, connection) = handshake.map_err(io::Error::other)?;
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                ended = connection => {
                    if let Err(error) = ended {
                        tracing::debug!(%error, "connection to another api process broke");
                    }
                }
            }
        });
        Ok(sender)
    }

    fn slot(&self, address: &str) -> Slot {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() >= ADDRESSES_MAX && !slots.contains_key(address) {
            slots.retain(|_, slot| slot.try_lock().is_ok_and(|slot| slot.is_some()));
        }
        slots.entry(address.to_owned()).or_default().clone()
    }
}
