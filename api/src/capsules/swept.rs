//! A sweep as its caller sees it.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use cocoonbox_events::{
    CapsuleEvent, LogId, Payload, Recorded, Store, StreamName, limits::PAGE_EVENTS_MAX,
};
use cocoonbox_proto::control::v1::{PruneProgress, prune_progress};
use futures::{Stream, stream};
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};

use crate::status;

/// A doorbell can be missed only with the process; this is the second look.
const LOOK: Duration = Duration::from_secs(5);

/// Follows one sweep.
pub(super) struct Swept {
    pub(super) store: Arc<dyn Store>,
    pub(super) account: LogId,
    pub(super) stream: StreamName,
    pub(super) id: String,
    /// Of the stream, behind which to look.
    pub(super) seq: u64,
    pub(super) stop: CancellationToken,
}

impl Swept {
    /// What is planned, as often as it is begun, and what came of it.
    pub(super) fn into_stream(
        self,
    ) -> impl Stream<Item = Result<PruneProgress, Status>> + Send + use<> {
        stream::try_unfold(Some((self, VecDeque::new())), |state| async {
            let Some((mut swept, mut events)) = state else {
                return Ok(None);
            };
            loop {
                while let Some(event) = events.pop_front() {
                    if let Some((message, is_last)) = swept.told(&event)? {
                        let rest = (!is_last).then_some((swept, events));
                        return Ok(Some((message, rest)));
                    }
                }
                events = swept.next().await?;
            }
        })
    }

    async fn next(&mut self) -> Result<VecDeque<Recorded>, Status> {
        loop {
            let log = self.store.current(self.account);
            let log = log.map_err(status::from_read)?;
            let mut bell = self.store.doorbell(log).map_err(status::from_read)?;
            bell.mark_unchanged();
            let page = self
                .store
                .read_stream(log, &self.stream, self.seq, PAGE_EVENTS_MAX);
            let page = page.await.map_err(status::from_read)?;
            if let Some(last) = page.events.last() {
                self.seq = last.seq;
                return Ok(page.events.into());
            }
            tokio::select! {
                () = self.stop.cancelled() => return Err(stopping()),
                _ = bell.changed() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }

    /// What an event says of this sweep, and whether it is the last.
    fn told(&self, event: &Recorded) -> Result<Option<(PruneProgress, bool)>, Status> {
        let Ok(Some(Payload::Capsule(found))) = event.payload() else {
            return Ok(None);
        };
        let step = match found {
            CapsuleEvent::SweepPlanned(plan) if plan.sweep_id == self.id => {
                prune_progress::Step::Plan(prune_progress::Plan {
                    dropped: Vec::new(),
                    snapshots: plan.snapshots,
                    chunks_needed: plan.chunks_needed,
                    chunks_dead: plan.chunks_dead,
                    packs_given_up: plan.packs_given_up,
                    packs_rewritten: plan.packs_rewritten,
                    packs_deleted: plan.packs_deleted,
                    packs_waiting: plan.packs_waiting,
                })
            }
            CapsuleEvent::Swept(swept) if swept.sweep_id == self.id => {
                prune_progress::Step::Swept(prune_progress::Swept {
                    packs_deleted: swept.packs_deleted,
                    bytes_deleted: swept.bytes_deleted,
                    objects: swept.objects,
                    bytes: swept.bytes,
                })
            }
            CapsuleEvent::SweepFailed(failed) if failed.sweep_id == self.id => {
                let words = "nothing more was given back; the operator's log says why";
                return Err(status::status(
                    Code::FailedPrecondition,
                    &failed.reason,
                    words,
                ));
            }
            _ => return Ok(None),
        };
        let is_last = matches!(step, prune_progress::Step::Swept(_));
        let message = PruneProgress {
            offset_key: event.offset_key().to_string(),
            step: Some(step),
        };
        Ok(Some((message, is_last)))
    }
}

fn stopping() -> Status {
    status::status(
        Code::Unavailable,
        "STOPPING",
        "the server is stopping; it is gone on with later, ask with the same command id",
    )
}
