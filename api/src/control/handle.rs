//! The way to a desk, and the desks by box.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use cocoonbox_commands::control::Command;
use cocoonbox_proto::{agent::v1::ControlState, log::v1::Actor};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::{Code, Status};

use super::refusal::closing;
use crate::status;

/// Of one box at once; each holds a connection into it.
const VIEWERS_MAX: usize = 32;
/// Guests beside them, so that no number of guests keeps the owner out.
const GUESTS_MAX: usize = 16;

/// What a viewer has to know of its display.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Standing {
    pub state: ControlState,
    /// Whose input passes; empty: nobody's.
    pub lease_id: String,
}

/// Something asked of a desk.
pub(super) enum Ask {
    Execute {
        display: u32,
        command: Command,
        actor: Actor,
        reply: Option<oneshot::Sender<Result<ControlState, Status>>>,
    },
    Attach {
        display: u32,
        lease_id: String,
        user_id: String,
        reply: oneshot::Sender<Result<Attachment, Status>>,
    },
}

/// One viewer may send input for as long as its lease is the one that stands.
#[derive(Debug)]
pub struct Attachment {
    pub lease_id: String,
    /// Dropped when no key of the viewer is down any more: agents wait for that.
    pub let_go: DropGuard,
}

/// Asks one box's desk.
#[derive(Clone)]
pub struct Handle {
    pub(super) asks: mpsc::Sender<Ask>,
    pub(super) standing: Arc<[watch::Receiver<Standing>]>,
    pub(super) viewers: Arc<Semaphore>,
    pub(super) guests: Arc<Semaphore>,
    pub(super) wake_id: String,
    /// The desk is closed, and what goes on by its word has to end.
    pub over: CancellationToken,
}

/// The desks of the boxes that this process drives, by box id.
#[derive(Clone, Default)]
pub struct Desks {
    open: Arc<RwLock<HashMap<String, Handle>>>,
}

impl Handle {
    pub(super) fn new(
        asks: mpsc::Sender<Ask>,
        standing: Arc<[watch::Receiver<Standing>]>,
        wake_id: String,
        over: CancellationToken,
    ) -> Self {
        Self {
            asks,
            standing,
            viewers: Arc::new(Semaphore::new(VIEWERS_MAX)),
            guests: Arc::new(Semaphore::new(GUESTS_MAX)),
            wake_id,
            over,
        }
    }

    /// Watches a display, if there can be such a one.
    pub fn standing(&self, display: u32) -> Option<watch::Receiver<Standing>> {
        self.standing.get(usize::try_from(display).ok()?).cloned()
    }

    /// Carries a command out and returns how the display stands then.
    pub async fn execute(
        &self,
        display: u32,
        command: Command,
        actor: Actor,
    ) -> Result<ControlState, Status> {
        let (reply, answer) = oneshot::channel();
        let ask = Ask::Execute {
            display,
            command,
            actor,
            reply: Some(reply),
        };
        self.asks.send(ask).await.map_err(|_| closing())?;
        answer.await.map_err(|_| closing())?
    }

    /// Hands a command in that nobody waits for. It is lost where there is no room: it is one that comes again.
    pub(crate) fn mention(&self, display: u32, command: Command, actor: Actor) {
        let ask = Ask::Execute {
            display,
            command,
            actor,
            reply: None,
        };
        drop(self.asks.try_send(ask));
    }

    /// Lets a viewer send input under a lease.
    pub async fn attach(
        &self,
        display: u32,
        lease_id: String,
        user_id: String,
    ) -> Result<Attachment, Status> {
        let (reply, answer) = oneshot::channel();
        let ask = Ask::Attach {
            display,
            lease_id,
            user_id,
            reply,
        };
        self.asks.send(ask).await.map_err(|_| closing())?;
        answer.await.map_err(|_| closing())?
    }

    /// Takes a place among the box's viewers, or among its guests.
    pub fn place(&self, is_guest: bool) -> Result<OwnedSemaphorePermit, Status> {
        let (places, max) = if is_guest {
            (&self.guests, GUESTS_MAX)
        } else {
            (&self.viewers, VIEWERS_MAX)
        };
        let place = Arc::clone(places).try_acquire_owned();
        place.map_err(|_| {
            status::status(
                Code::ResourceExhausted,
                "TOO_MANY_VIEWERS",
                format!("{max} viewers look at this box already"),
            )
        })
    }
}

impl Desks {
    pub fn get(&self, box_id: &str) -> Option<Handle> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.get(box_id).cloned()
    }

    pub fn insert(&self, box_id: &str, handle: Handle) {
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        open.insert(box_id.to_owned(), handle);
    }

    /// Removes the desk of this life of the box; a later one is left alone.
    pub fn remove(&self, box_id: &str, wake_id: &str) {
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        let is_this = |handle: &Handle| handle.wake_id == wake_id;
        if open.get(box_id).is_some_and(is_this) {
            open.remove(box_id);
        }
    }
}
