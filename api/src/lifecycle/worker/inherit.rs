//! The disks that a fork begins with.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use cocoonbox_commands::boxes::{self, Phase};
use cocoonbox_events::{Fold, StreamName};
use cocoonbox_machines::{BoxId, Fill};

use super::{Fault, Worker};
use crate::capsules;

/// Asks work on another thread to end when nobody waits for it any more.
#[derive(Default)]
struct Asked(Arc<AtomicBool>);

impl Drop for Asked {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Worker {
    /// Gives a fork the disks that it begins with, unless it has disks. `false`: something else is wanted by now.
    pub(super) async fn inherit(&mut self, id: &BoxId) -> Result<bool, Fault> {
        let Some(origin) = self.inherits_from().cloned() else {
            return Ok(true);
        };
        if self.context.machines.get(id).await?.is_some() {
            return Ok(true);
        }
        match origin.snapshot_id.clone() {
            Some(snapshot_id) => self.fill_disks(id, snapshot_id).await,
            None => self.copy_disks(id, &origin).await.map(|()| true),
        }
    }

    /// What the box's disks are to be made from, until it has run once.
    pub(super) fn inherits_from(&self) -> Option<&boxes::Origin> {
        let state = &self.fold.state;
        state
            .origin
            .as_ref()
            .filter(|_| state.agent_version.is_empty())
    }

    /// Makes disks with the files of a snapshot. They appear when all of them are there.
    async fn fill_disks(&mut self, id: &BoxId, snapshot_id: String) -> Result<bool, Fault> {
        let (cancelled, failed) = (Asked::default(), Arc::<Mutex<_>>::default());
        let whole = capsules::Whole {
            place: self.context.capsules.clone(),
            user: self.fold.state.user_id.clone(),
            snapshot_id,
            cancelled: cancelled.0.clone(),
        };
        let slot = failed.clone();
        let fill: Fill = Box::new(move |folders| {
            whole.give(folders).map_err(|error| {
                let words = std::io::Error::other(error.to_string());
                *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                words
            })
        });
        let (machines, bell) = (self.context.machines.clone(), self.bell.clone());
        let made = machines.make(id, self.context.limits.disk_bytes, fill);
        tokio::pin!(made);
        loop {
            tokio::select! {
                made = &mut made => {
                    let failed = failed.lock().unwrap_or_else(PoisonError::into_inner).take();
                    return match failed {
                        Some(error) => Err(Fault::Snapshot(error)),
                        None => Ok(made.map(|()| true)?),
                    };
                }
                () = bell.notified() => {
                    self.fold.refresh(&*self.context.store).await?;
                    if !matches!(self.fold.state.phase, Phase::Starting { .. }) {
                        return Ok(false);
                    }
                }
            }
        }
    }

    /// Copies the disks of the box that this one was made from: as they were at the moment that the fork's history says.
    async fn copy_disks(&self, id: &BoxId, origin: &boxes::Origin) -> Result<(), Fault> {
        let context = &self.context;
        let source = BoxId::new(origin.box_id.clone())?;
        let stream = StreamName::new(format!("box/{source}")).map_err(|_| Fault::Origin)?;
        let before = self.origin(&stream, origin).await?;
        // Made anew by every attempt: disks that were copied while the source moved on are removed below.
        context.machines.copy(&source, id).await?;
        let after = self.origin(&stream, origin).await;
        if after.as_ref().is_ok_and(|after| *after == before) {
            return Ok(());
        }
        context.machines.delete(id).await?;
        after.and(Err(Fault::Origin))
    }

    /// The last life of a fork's source, if it sleeps where the fork's history parts from its own.
    async fn origin(
        &self,
        stream: &StreamName,
        origin: &boxes::Origin,
    ) -> Result<Option<String>, Fault> {
        let store = &*self.context.store;
        let mut source = Fold::<boxes::State>::new(self.fold.log, stream.clone());
        source.refresh(store).await?;
        let state = source.state;
        let pos = store.tail(origin.at.log).map(|tail| tail.pos).ok();
        let is_there = state.phase == Phase::Hibernated
            && state.box_log == Some(origin.at.log)
            && pos == Some(origin.at.pos);
        if is_there {
            Ok(state.last_wake)
        } else {
            Err(Fault::Origin)
        }
    }
}
