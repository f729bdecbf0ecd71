//! What watchers of boxes and of operations are sent.

use cocoonbox_projections::{OperationEventRow, Views};
use cocoonbox_proto::control::v1::{Box as BoxMessage, ListBoxesResponse, OperationEvent, Phase};
use futures::Stream;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};

use super::{LOOK_AGAIN, Reader, STEPS_PAGE, view};
use crate::status;

/// Sends the list whenever it differs from the one sent before.
pub(super) struct Watcher {
    pub(super) boxes: Reader,
    pub(super) user: String,
    /// The list that the client has.
    pub(super) known: Option<Vec<BoxMessage>>,
    pub(super) changed: tokio::sync::watch::Receiver<u64>,
    pub(super) stop: CancellationToken,
}

impl Watcher {
    pub(super) fn into_stream(
        self,
    ) -> impl Stream<Item = Result<ListBoxesResponse, Status>> + Send {
        futures::stream::unfold(Some(self), |watcher| async {
            let mut watcher = watcher?;
            match watcher.next().await {
                Ok(list) => Some((Ok(list), Some(watcher))),
                Err(status) => Some((Err(status), None)),
            }
        })
    }

    async fn next(&mut self) -> Result<ListBoxesResponse, Status> {
        loop {
            self.changed.mark_unchanged();
            let (list, _) = self.boxes.snapshot(&self.user).await?;
            if self.known.as_ref() != Some(&list.boxes) {
                self.known = Some(list.boxes.clone());
                return Ok(list);
            }
            wait(&mut self.changed, &self.stop).await?;
        }
    }
}

/// The steps of one operation, until it has ended.
pub(super) struct Steps {
    pub(super) views: Views,
    pub(super) user: String,
    pub(super) id: String,
    pub(super) after: u64,
    pub(super) ready: std::vec::IntoIter<OperationEventRow>,
    pub(super) ended: bool,
    pub(super) changed: tokio::sync::watch::Receiver<u64>,
    pub(super) stop: CancellationToken,
}

impl Steps {
    pub(super) fn into_stream(self) -> impl Stream<Item = Result<OperationEvent, Status>> + Send {
        futures::stream::unfold(Some(self), |steps| async {
            let mut steps = steps?;
            match steps.next().await {
                Ok(Some(step)) => Some((Ok(step), Some(steps))),
                Ok(None) => None,
                Err(status) => Some((Err(status), None)),
            }
        })
    }

    async fn next(&mut self) -> Result<Option<OperationEvent>, Status> {
        loop {
            if let Some(row) = self.ready.next() {
                self.after = row.pos;
                let step = OperationEvent::from(row);
                self.ended = matches!(step.phase(), Phase::Done | Phase::FailedPhase);
                return Ok(Some(step));
            }
            if self.ended {
                return Ok(None);
            }
            self.changed.mark_unchanged();
            // Asked before the steps are read, so that the last step is among them if it has ended.
            let row = self
                .views
                .operation(&self.user, &self.id)
                .await
                .map_err(view)?;
            let read = self
                .views
                .operation_events(&self.user, &self.id, self.after, STEPS_PAGE)
                .await;
            let steps = read.map_err(view)?;
            if steps.is_empty() {
                // Resumed behind the last step of an operation that has ended: nothing is left.
                if row.is_some_and(|row| row.ended) {
                    return Ok(None);
                }
                wait(&mut self.changed, &self.stop).await?;
            }
            self.ready = steps.into_iter();
        }
    }
}

async fn wait(
    changed: &mut tokio::sync::watch::Receiver<u64>,
    stop: &CancellationToken,
) -> Result<(), Status> {
    tokio::select! {
        () = stop.cancelled() => Err(status::status(
            Code::Unavailable,
            "STOPPING",
            "the server is stopping; resume later",
        )),
        _ = tokio::time::timeout(LOOK_AGAIN, changed.changed()) => Ok(()),
    }
}
