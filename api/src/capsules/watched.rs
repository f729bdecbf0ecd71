//! A save or a restore as its caller sees it: what the log says of it, and between that how far it is.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use cocoonbox_events::{
    LogId, OffsetKey, Payload, Recorded, SnapshotEvent, Store, StreamName, limits::PAGE_EVENTS_MAX,
};
use cocoonbox_projections::Views;
use cocoonbox_proto::control::v1::{
    RestoreProgress, SaveProgress, restore_progress, save_progress,
};
use futures::{Stream, stream};
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};

use super::{Progress, browse::Shelf, failure, progress::Step, shown};
use crate::{status, stream as offsets};

/// How often a caller hears how far it is.
const TELL: Duration = Duration::from_millis(200);

/// Follows one save or restore.
pub(super) struct Watched {
    pub(super) store: Arc<dyn Store>,
    pub(super) views: Views,
    pub(super) progress: Progress,
    pub(super) shelf: Shelf,
    pub(super) account: LogId,
    pub(super) stream: StreamName,
    pub(super) box_id: String,
    /// Of the save or the restore; both have one id where one is for the other.
    pub(super) id: String,
    /// Of the stream, behind which to look.
    pub(super) seq: u64,
    /// Where the request stands.
    pub(super) key: OffsetKey,
    pub(super) stop: CancellationToken,
}

/// One thing to tell.
#[expect(
    clippy::large_enum_variant,
    reason = "one at a time, never in a collection"
)]
enum News {
    Waiting,
    Step(Step),
    Event(SnapshotEvent, OffsetKey),
}

struct State {
    watched: Watched,
    events: VecDeque<(SnapshotEvent, OffsetKey)>,
    told: Option<Step>,
    is_new: bool,
}

impl Watched {
    /// Messages of a save, to the one that says how it came out.
    pub(super) fn save(self) -> impl Stream<Item = Result<SaveProgress, Status>> + Send + use<> {
        stream::try_unfold(Some(State::new(self)), |state| async {
            let Some(mut state) = state else {
                return Ok(None);
            };
            loop {
                let news = state.next().await?;
                if let Some((step, is_last)) = state.of_save(news).await? {
                    let message = SaveProgress {
                        offset_key: state.watched.key.to_string(),
                        step: Some(step),
                    };
                    return Ok(Some((message, (!is_last).then_some(state))));
                }
            }
        })
    }

    /// Messages of a restore.
    pub(super) fn restore(
        self,
    ) -> impl Stream<Item = Result<RestoreProgress, Status>> + Send + use<> {
        stream::try_unfold(Some(State::new(self)), |state| async {
            let Some(mut state) = state else {
                return Ok(None);
            };
            loop {
                let news = state.next().await?;
                if let Some((step, is_last)) = state.of_restore(news).await? {
                    let message = RestoreProgress {
                        offset_key: state.watched.key.to_string(),
                        step: Some(step),
                    };
                    return Ok(Some((message, (!is_last).then_some(state))));
                }
            }
        })
    }
}

impl State {
    fn new(watched: Watched) -> Self {
        Self {
            watched,
            events: VecDeque::new(),
            told: None,
            is_new: true,
        }
    }

    async fn next(&mut self) -> Result<News, Status> {
        if std::mem::take(&mut self.is_new) {
            return Ok(News::Waiting);
        }
        loop {
            if let Some((event, key)) = self.events.pop_front() {
                self.watched.key = key;
                return Ok(News::Event(event, key));
            }
            let store = self.watched.store.clone();
            let log = store.current(self.watched.account);
            let log = log.map_err(status::from_read)?;
            let mut bell = store.doorbell(log).map_err(status::from_read)?;
            bell.mark_unchanged();
            if self.read(log).await? {
                continue;
            }
            let step = self.watched.progress.of(&self.watched.id);
            if step.is_some() && step != self.told {
                self.told = step;
                return Ok(News::Step(step.unwrap_or_default()));
            }
            tokio::select! {
                () = self.watched.stop.cancelled() => return Err(stopping()),
                _ = bell.changed() => {}
                () = tokio::time::sleep(TELL) => {}
            }
        }
    }

    /// Reads on in the stream. Whether there was anything.
    async fn read(&mut self, log: LogId) -> Result<bool, Status> {
        let watched = &mut self.watched;
        let page = watched
            .store
            .read_stream(log, &watched.stream, watched.seq, PAGE_EVENTS_MAX);
        let page = page.await.map_err(status::from_read)?;
        for event in &page.events {
            watched.seq = event.seq;
            if let Some(found) = of(event, &watched.id) {
                self.events.push_back((found, event.offset_key()));
            }
        }
        Ok(!page.events.is_empty())
    }

    async fn of_save(&mut self, news: News) -> Result<Option<(save_progress::Step, bool)>, Status> {
        use save_progress::Step as Shown;
        Ok(match news {
            News::Waiting => Some((Shown::Waiting(save_progress::Waiting {}), false)),
            News::Step(step) => Some((Shown::Reading(reading(step)), false)),
            News::Event(SnapshotEvent::Committed(kept), key) => {
                let saved = self.saved(&kept.snapshot_id, key, false).await?;
                Some((Shown::Saved(saved), true))
            }
            News::Event(SnapshotEvent::Unchanged(same), key) => {
                let saved = self.saved(&same.snapshot_id, key, true).await?;
                Some((Shown::Saved(saved), true))
            }
            News::Event(SnapshotEvent::Failed(failed), _) => {
                return Err(refused(
                    "the box was not saved",
                    &failed.reason,
                    &failed.detail,
                ));
            }
            News::Event(..) => None,
        })
    }

    async fn of_restore(
        &mut self,
        news: News,
    ) -> Result<Option<(restore_progress::Step, bool)>, Status> {
        use restore_progress::Step as Shown;
        let words = "nothing was restored";
        Ok(match news {
            News::Event(SnapshotEvent::Restored(done), key) => {
                self.seen(key).await?;
                let row = self.row(&done.restore_id).await?;
                let restored = restore_progress::Restored {
                    snapshot: row,
                    target: done.target,
                    files: done.files,
                    bytes: done.bytes,
                    replaced: done.replaced,
                    kept: done.kept,
                    problems: done.problems,
                    undo_snapshot_id: done.undo_snapshot_id,
                    restore_id: done.restore_id,
                    removed: done.removed,
                    stayed: done.stayed,
                };
                Some((Shown::Restored(restored), true))
            }
            News::Event(SnapshotEvent::RestoreFailed(failed), _) => {
                return Err(refused(words, &failed.reason, &failed.detail));
            }
            // The save before it: a failed one fails the restore, which says so itself.
            News::Event(SnapshotEvent::Failed(_), _) => None,
            News::Step(step) if step.bytes_read == 0 => {
                let writing = restore_progress::Writing {
                    files: step.files,
                    bytes: step.bytes,
                };
                Some((Shown::Writing(writing), false))
            }
            news => {
                let step = self.of_save(news).await?;
                let saving = step.map(|(step, _)| SaveProgress {
                    offset_key: self.watched.key.to_string(),
                    step: Some(step),
                });
                saving.map(|saving| (Shown::Saving(saving), false))
            }
        })
    }

    /// What a save came to, with what its record says of files that are not in it.
    async fn saved(
        &self,
        id: &str,
        key: OffsetKey,
        unchanged: bool,
    ) -> Result<save_progress::Saved, Status> {
        self.seen(key).await?;
        let rows = self.rows().await?;
        let row = rows.into_iter().find(|row| row.id == id);
        let (shelf, id) = (self.watched.shelf.clone(), id.to_owned());
        let record = tokio::task::spawn_blocking(move || shelf.open(&id).map(|(_, record)| record));
        let record = record.await.map_err(|error| status::internal(&error))?;
        let record = record.map_err(failure::answer)?;
        Ok(save_progress::Saved {
            snapshot: row.map(Into::into),
            unchanged,
            left_out: shown::notes(&record.excluded),
            not_saved: shown::notes(&record.skipped),
            unsettled: shown::notes(&record.unsettled),
        })
    }

    /// Waits until the views know what is at a key, so that the caller can ask for it.
    async fn seen(&self, key: OffsetKey) -> Result<(), Status> {
        let seen = self.watched.views.at_least(&key, offsets::AT_LEAST).await;
        seen.map_err(|_| offsets::behind())
    }

    async fn rows(&self) -> Result<Vec<cocoonbox_projections::SnapshotRow>, Status> {
        let watched = &self.watched;
        let rows = watched
            .views
            .all_snapshots(&watched.shelf.user, &watched.box_id);
        rows.await.map_err(|error| status::internal(&error))
    }

    /// The snapshot that a restore is of.
    async fn row(
        &self,
        restore_id: &str,
    ) -> Result<Option<cocoonbox_proto::control::v1::Snapshot>, Status> {
        let watched = &self.watched;
        let log = watched
            .store
            .current(watched.account)
            .map_err(status::from_read)?;
        let mut seq = 0;
        loop {
            let page = watched
                .store
                .read_stream(log, &watched.stream, seq, PAGE_EVENTS_MAX);
            let page = page.await.map_err(status::from_read)?;
            let Some(last) = page.events.last() else {
                return Ok(None);
            };
            seq = last.seq;
            let asked = page
                .events
                .iter()
                .find_map(|event| match of(event, restore_id) {
                    Some(SnapshotEvent::RestoreRequested(asked)) => Some(asked.snapshot_id),
                    _ => None,
                });
            if let Some(id) = asked {
                let row = self.rows().await?.into_iter().find(|row| row.id == id);
                return Ok(row.map(Into::into));
            }
        }
    }
}

fn reading(step: Step) -> save_progress::Reading {
    save_progress::Reading {
        files: step.files,
        bytes: step.bytes,
        bytes_read: step.bytes_read,
    }
}

/// The event, if it is of this save or restore.
fn of(event: &Recorded, id: &str) -> Option<SnapshotEvent> {
    let Ok(Some(Payload::Snapshot(found))) = event.payload() else {
        return None;
    };
    let of = match &found {
        SnapshotEvent::SaveRequested(e) => &e.save_id,
        SnapshotEvent::SaveBegun(e) => &e.save_id,
        SnapshotEvent::Committed(e) => &e.save_id,
        SnapshotEvent::Unchanged(e) => &e.save_id,
        SnapshotEvent::Failed(e) => &e.save_id,
        SnapshotEvent::RestoreRequested(e) => &e.restore_id,
        SnapshotEvent::Restored(e) => &e.restore_id,
        SnapshotEvent::RestoreFailed(e) => &e.restore_id,
        SnapshotEvent::Pruned(_) | SnapshotEvent::Pinned(_) | SnapshotEvent::Unpinned(_) => {
            return None;
        }
    };
    (of == id).then_some(found)
}

fn refused(words: &str, reason: &str, detail: &str) -> Status {
    let code = match reason {
        "DISK_FULL" | "QUOTA_EXCEEDED" => Code::ResourceExhausted,
        "SNAPSHOT_DAMAGED" => Code::DataLoss,
        "NO_SUCH_FILE" | "USER_DELETED" => Code::NotFound,
        "NO_KEY" | "STORE_UNAVAILABLE" => Code::Unavailable,
        "FAILED" => Code::Internal,
        _ => Code::FailedPrecondition,
    };
    let message = match detail {
        "" => words.to_owned(),
        detail => format!("{words}: {detail}"),
    };
    status::status(code, reason, message)
}

fn stopping() -> Status {
    status::status(
        Code::Unavailable,
        "STOPPING",
        "the server is stopping; it is gone on with later, ask with the same command id",
    )
}
