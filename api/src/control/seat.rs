//! One display: its lease by the log, and what goes on by it.

use std::time::Duration;

use cocoonbox_commands::control::{Lease, State};
use cocoonbox_events::{Fold, LogId, StreamName, id::BadStreamName};
use cocoonbox_proto::agent::v1::{ControlHolder, ControlState, HandBack};
use tokio::{sync::watch, time::timeout};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::{
    handle::{Attachment, Standing},
    refusal,
};

/// For a viewer to let its keys go. One that is held up by the box itself is not waited for longer.
const LET_GO: Duration = Duration::from_secs(1);

pub(super) struct Seat {
    pub(super) display: u32,
    pub(super) fold: Fold<State>,
    /// Of the lease whose input passes.
    admitted: Option<u64>,
    /// Cancelled when the viewer that sends input has let everything go.
    viewer: Option<CancellationToken>,
    standing: watch::Sender<Standing>,
}

impl Seat {
    pub(super) fn new(account: LogId, box_id: &str, display: u32) -> Result<Self, BadStreamName> {
        let stream = StreamName::new(format!("control/{box_id}/{display}"))?;
        let standing = Standing {
            state: ControlState {
                display,
                ..ControlState::default()
            },
            lease_id: String::new(),
        };
        Ok(Self {
            display,
            fold: Fold::new(account, stream),
            admitted: None,
            viewer: None,
            standing: watch::Sender::new(standing),
        })
    }

    pub(super) fn watch(&self) -> watch::Receiver<Standing> {
        self.standing.subscribe()
    }

    /// The lease that the log has. One that has run out is still there until that is written down.
    pub(super) fn lease(&self) -> Option<&Lease> {
        self.fold.state.lease.as_ref()
    }

    /// The lease whose input passes.
    pub(super) fn admitted(&self) -> Option<u64> {
        self.admitted
    }

    /// Lets the lease's input pass.
    pub(super) fn admit(&mut self) {
        self.admitted = self.lease().map(|lease| lease.fence);
        self.publish();
    }

    /// Ends the input of the lease that had it, and waits until nothing is pressed any more.
    pub(super) async fn end_input(&mut self) {
        self.admitted = None;
        self.publish();
        if let Some(viewer) = self.viewer.take() {
            // Late is better than never: the next one is told what counts.
            drop(timeout(LET_GO, viewer.cancelled()).await);
        }
    }

    /// Tells the viewers how the display stands.
    pub(super) fn publish(&self) {
        let lease_id = match (self.admitted, self.lease()) {
            (Some(fence), Some(lease)) if lease.fence == fence => lease.lease_id.clone(),
            _ => String::new(),
        };
        let standing = Standing {
            state: self.state(),
            lease_id,
        };
        self.standing.send_if_modified(|known| {
            let is_other = *known != standing;
            *known = standing;
            is_other
        });
    }

    pub(super) fn attach(&mut self, lease_id: &str, user_id: &str) -> Result<Attachment, Status> {
        let lease = self.lease().filter(|lease| {
            let is_theirs = lease.lease_id == lease_id && lease.user_id == user_id;
            is_theirs && self.admitted == Some(lease.fence)
        });
        if lease.is_none() {
            return Err(refusal::over());
        }
        let is_there = |viewer: &CancellationToken| !viewer.is_cancelled();
        if self.viewer.as_ref().is_some_and(is_there) {
            return Err(refusal::in_use());
        }
        let viewer = CancellationToken::new();
        self.viewer = Some(viewer.clone());
        Ok(Attachment {
            lease_id: lease_id.to_owned(),
            let_go: viewer.drop_guard(),
        })
    }

    pub(super) fn state(&self) -> ControlState {
        let holder = self.lease().map(|lease| ControlHolder {
            user_id: lease.user_id.clone(),
            label: lease.label.clone(),
            until_ms: lease.until_us / 1_000,
        });
        ControlState {
            display: self.display,
            holder,
            fence: self.fold.state.fence,
        }
    }

    pub(super) fn handed_back(&self) -> Option<HandBack> {
        let last = self.fold.state.last.as_ref()?;
        Some(HandBack {
            display: self.display,
            fence: last.lease.fence,
            label: last.lease.label.clone(),
            note: last.note.clone(),
        })
    }
}
