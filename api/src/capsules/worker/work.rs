//! Saves and restores of a worker: what is done between two words in the log.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use cocoonbox_capsule::{Error, Snapshot, save::Saved};
use cocoonbox_commands::{
    boxes::Phase,
    snapshot::{Command, Restore, Save},
};
use cocoonbox_events::Parent;
use cocoonbox_machines::UserFolder;
use cocoonbox_proto::log::v1::SnapshotRestored;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Fault, Worker};
use crate::{
    capsules::{
        PlaceError, failure,
        restore::{self, Done},
        save::{self, Job},
    },
    lease::Tenure,
    status::describe,
};

impl Worker {
    pub(super) async fn save(
        &mut self,
        save: Save,
        folders: Vec<UserFolder>,
        stop: &CancellationToken,
    ) -> Result<(), Fault> {
        let permits = self.parts.permits.clone();
        let _permit = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            permit = permits.acquire_owned() => permit.map_err(|_| Fault::Lost)?,
        };
        // Read before the first file is: the files know at least what is up to here.
        let Some(at) = self.tail()? else {
            let detail = "the box has no log";
            return self.refuse("NO_FILES", detail).await.map(drop);
        };
        self.report(&Command::Begin {
            save_id: save.id.clone(),
            at,
        })
        .await?;
        self.looked = Instant::now();
        let under_way = self.parts.progress.begin(&save.id);
        let job = Job {
            place: self.parts.place.clone(),
            user: self.boxed.state.user_id.clone(),
            box_id: self.id.to_string(),
            folders,
            only_if_changed: save.only_if_changed,
            clock: self.parts.clock.clone(),
            step: under_way.sender(),
            cancelled: Arc::default(),
            quota_bytes: self.parts.quota_bytes,
        };
        let (of, cancelled) = (job.clone(), job.cancelled.clone());
        let saved = self.work(move || of.run(), &cancelled, stop).await?;
        drop(under_way);
        match saved {
            Ok(saved) => self.keep(&save, &job, saved, at).await,
            // Stopped, or left to another process, or the box is going: then all that is owed ends with it.
            Err(PlaceError::Capsule(Error::Cancelled)) => Ok(()),
            Err(error) => {
                let detail = describe(&error);
                tracing::warn!(box_id = %self.id, detail, "a box was not saved");
                self.report(&Command::Fail {
                    save_id: save.id,
                    reason: failure::reason(&error),
                    detail,
                })
                .await
            }
        }
    }

    /// Writes down what a save led to.
    async fn keep(
        &mut self,
        save: &Save,
        job: &Job,
        saved: Saved,
        at: Parent,
    ) -> Result<(), Fault> {
        // Disks that are removed are taken out of sight first. Where they are still in sight, everything that was
        // read was read of a whole box.
        let is_whole = self.parts.machines.folders(&self.id).await.is_ok();
        let is_known = |snapshot: &Snapshot| {
            let id = snapshot.id.to_string();
            self.fold.state.kept.contains_key(&id)
        };
        match saved {
            Saved::Kept(snapshot) if !is_whole => take_back(job, snapshot).await,
            Saved::Unchanged(snapshot) if is_known(&snapshot) => {
                self.report(&Command::Unchanged {
                    save_id: save.id.clone(),
                    snapshot_id: snapshot.id.to_string(),
                    at,
                })
                .await
            }
            // One that is in the store and not in the log: its save was cut off between the two.
            Saved::Unchanged(snapshot) | Saved::Kept(snapshot) => {
                let committed = save::committed(&snapshot, &save.id, at);
                self.report(&Command::Commit(committed)).await?;
                self.fold.refresh(&*self.parts.store).await?;
                if !self.fold.state.kept.contains_key(&snapshot.id.to_string()) {
                    // The box was deleted in between.
                    take_back(job, snapshot).await?;
                }
                Ok(())
            }
        }
    }

    pub(super) async fn restore(
        &mut self,
        restore: Restore,
        folders: Vec<UserFolder>,
        stop: &CancellationToken,
    ) -> Result<(), Fault> {
        let failed = |reason: &'static str, detail: String| Command::RestoreFailed {
            restore_id: restore.id.clone(),
            reason,
            detail,
        };
        if restore.paths.is_empty() {
            let detail = "what was to be restored was erased";
            return self.report(&failed("ERASED", detail.into())).await;
        }
        if restore.is_unsaved {
            let detail = "the files that would be replaced could not be saved first";
            return self.report(&failed("SAVE_FAILED", detail.into())).await;
        }
        let under_way = self.parts.progress.begin(&restore.id);
        let (place, user) = (self.parts.place.clone(), self.boxed.state.user_id.clone());
        let (step, cancelled) = (under_way.sender(), Arc::<AtomicBool>::default());
        let (of, flag) = (restore.clone(), cancelled.clone());
        let work = move || {
            let job = restore::Job {
                place: &place,
                user: &user,
                restore_id: &of.id,
                snapshot_id: &of.snapshot_id,
                paths: &of.paths,
                folders: &folders,
                step: &step,
                cancelled: &flag,
            };
            match &of.undoes {
                Some(undoes) => job.undo(&undoes.snapshot_id),
                None if of.in_place => job.in_place(),
                None => job.beside(),
            }
        };
        let done = self.work(work, &cancelled, stop).await?;
        drop(under_way);
        match done {
            Ok(done) => self.report(&Command::Restored(told(&restore, done))).await,
            Err(PlaceError::Capsule(Error::Cancelled)) => Ok(()),
            Err(error) => {
                let detail = describe(&error);
                tracing::warn!(box_id = %self.id, detail, "files were not restored");
                self.report(&failed(failure::reason(&error), detail)).await
            }
        }
    }

    /// Runs blocking work to its end, and asks it to end when it is not wanted any more.
    async fn work<T: Send + 'static>(
        &mut self,
        work: impl FnOnce() -> T + Send + 'static,
        cancelled: &AtomicBool,
        stop: &CancellationToken,
    ) -> Result<T, Fault> {
        let lost = self.tenure.as_ref().map(Tenure::lost);
        let task = tokio::task::spawn_blocking(work);
        tokio::pin!(task);
        loop {
            let lost = async {
                match &lost {
                    Some(lost) => lost.cancelled().await,
                    None => std::future::pending().await,
                }
            };
            let is_ended = tokio::select! {
                done = &mut task => return done.map_err(|_| Fault::Lost),
                () = stop.cancelled() => true,
                () = lost => true,
                () = self.wish.bell.notified() => {
                    // If it cannot be read now, the work goes on: that the box is gone is looked at again.
                    let _unread = self.boxed.refresh(&*self.parts.store).await;
                    let phase = &self.boxed.state.phase;
                    matches!(phase, Phase::Deleting { .. } | Phase::Deleted)
                }
            };
            if is_ended {
                cancelled.store(true, Ordering::SeqCst);
                return task.await.map_err(|_| Fault::Lost);
            }
        }
    }
}

async fn take_back(job: &Job, snapshot: Snapshot) -> Result<(), Fault> {
    let job = job.clone();
    let taken = tokio::task::spawn_blocking(move || job.take_back(&snapshot)).await;
    Ok(taken.map_err(|_| Fault::Lost)??)
}

fn told(restore: &Restore, done: Done) -> SnapshotRestored {
    SnapshotRestored {
        restore_id: restore.id.clone(),
        target: done.target,
        files: done.tally.files + done.tally.links + done.tally.symlinks,
        bytes: done.tally.bytes,
        replaced: done.replaced,
        kept: done.kept,
        problems: done.problems,
        undo_snapshot_id: restore.undo.clone().unwrap_or_default(),
        removed: done.removed,
        stayed: done.stayed,
    }
}
