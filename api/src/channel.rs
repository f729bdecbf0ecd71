//! The way into running boxes: one connection to each box's agent, made in its network and for one of
//! its lives only.

use std::{
    collections::HashMap,
    io,
    sync::{Arc, RwLock},
    time::Duration,
};

use cocoonbox_events::{Clock, LogId, StreamName};
use cocoonbox_machines::{BoxId, Machines, WakeId};
use cocoonbox_proto::agent::v1::{HelloRequest, session_client::SessionClient};
use hyper_util::rt::TokioIo;
use tokio::sync::watch;
use tonic::transport::{Endpoint, Uri};

use crate::{attention::Attention, credential::Signer};

/// Where the agent listens in the box.
pub const AGENT_PORT: u16 = 7443;
/// A box's agent answers in milliseconds or is starting.
const CONNECT: Duration = Duration::from_secs(3);
/// One stalled call may hold this much of the connection's window, so that a thousand stalled calls
/// do not stop the others.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 256 * 1024 * 1024;
/// For a box to say what it has to do.
const HELLO: Duration = Duration::from_secs(2);

/// A box that runs.
#[derive(Clone)]
pub struct BoxChannel {
    pub user_id: String,
    pub box_id: String,
    pub wake_id: String,
    /// The log that the box writes; another one once it was rewound.
    log: watch::Sender<LogId>,
    /// HTTP/2 to the agent; reconnects by itself within the same life of the box.
    pub transport: tonic::transport::Channel,
    /// Why the box's log is not copied any more; empty while it is.
    pub fault: watch::Sender<String>,
    signer: Arc<Signer>,
    clock: Arc<dyn Clock>,
}

/// What a box has to do, by its own word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Busy {
    /// Those that wait for a person among them.
    pub(crate) agents: u32,
    pub(crate) jobs: u32,
}

/// What a channel is opened for.
#[derive(Clone, Debug)]
pub struct Life {
    pub user_id: String,
    pub box_id: BoxId,
    pub wake_id: String,
    pub log: LogId,
    /// The account log and the box's stream in it.
    pub account: LogId,
    pub stream: StreamName,
    /// Nothing was written in the box since it was last quiesced.
    pub is_untouched: bool,
}

/// The boxes that run, by id.
#[derive(Clone, Default)]
pub struct Channels {
    open: Arc<RwLock<HashMap<String, BoxChannel>>>,
    /// Of every box that was asked for: who watches one stays while it sleeps and wakes.
    attention: Arc<RwLock<HashMap<String, Attention>>>,
}

impl BoxChannel {
    /// Prepares a channel; connects when first used.
    pub fn new(
        life: &Life,
        machines: Arc<dyn Machines>,
        signer: Arc<Signer>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let (id, wake) = (life.box_id.clone(), WakeId(life.wake_id.clone()));
        let connector = tower::service_fn(move |_: Uri| {
            let (machines, id, wake) = (machines.clone(), id.clone(), wake.clone());
            async move {
                let stream = machines
                    .dial(&id, &wake, AGENT_PORT)
                    .await
                    .map_err(io::Error::other)?;
                stream.set_nodelay(true)?;
                Ok::<_, io::Error>(TokioIo::new(stream))
            }
        });
        let transport = Endpoint::from_static("http://agent.cocoonbox")
            .connect_timeout(CONNECT)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .connect_with_connector_lazy(connector);
        Self {
            user_id: life.user_id.clone(),
            box_id: life.box_id.to_string(),
            wake_id: life.wake_id.clone(),
            log: watch::Sender::new(life.log),
            transport,
            fault: watch::Sender::default(),
            signer,
            clock,
        }
    }

    /// The log that the box writes.
    pub fn log(&self) -> LogId {
        *self.log.borrow()
    }

    /// Notes that the box's log goes on as another one.
    pub(crate) fn go_on_in(&self, log: LogId) {
        self.log.send_replace(log);
    }

    /// Asks the box what it has to do. `None`: it does not answer, or writes its log not yet.
    pub(crate) async fn busy(&self) -> Option<Busy> {
        let mut client = SessionClient::new(self.transport.clone());
        let hello = tokio::time::timeout(HELLO, client.hello(self.sign(HelloRequest {}))).await;
        let hello = hello.ok()?.ok()?.into_inner();
        hello.released.then_some(Busy {
            agents: hello.agents_working,
            jobs: hello.jobs,
        })
    }

    /// Signs the edge's word for one call.
    pub fn credential(&self) -> String {
        self.signer
            .sign(&self.box_id, &self.wake_id, self.clock.now_us())
    }

    /// Adds the credential to a call of the api's own.
    pub fn sign<T>(&self, message: T) -> tonic::Request<T> {
        let mut request = tonic::Request::new(message);
        if let Ok(value) = self.credential().parse() {
            request
                .metadata_mut()
                .insert(crate::credential::HEADER, value);
        }
        request
    }
}

impl Channels {
    pub fn get(&self, box_id: &str) -> Option<BoxChannel> {
        self.open
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .get(box_id)
            .cloned()
    }

    /// Every box that is connected.
    pub fn all(&self) -> Vec<BoxChannel> {
        self.open
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .values()
            .cloned()
            .collect()
    }

    /// Who attends to a box, over this process.
    pub fn attention(&self, box_id: &str) -> Attention {
        self.attention
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .entry(box_id.to_owned())
            .or_default()
            .clone()
    }

    pub fn insert(&self, channel: BoxChannel) {
        let mut open = self
            .open
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        open.insert(channel.box_id.clone(), channel);
    }

    /// Removes the channel of this life; a later one is left alone.
    pub fn remove(&self, box_id: &str, wake_id: &str) {
        let mut open = self
            .open
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if open
            .get(box_id)
            .is_some_and(|channel| channel.wake_id == wake_id)
        {
            open.remove(box_id);
        }
    }
}
