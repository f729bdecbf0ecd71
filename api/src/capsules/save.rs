//! One save, on a thread that may block.

use std::{
    sync::{Arc, atomic::AtomicBool},
    thread,
};

use cocoonbox_capsule::{
    Capsule, Error, Snapshot,
    save::{self, Saved},
    snapshot::{self, Counts},
};
use cocoonbox_events::{Clock, Parent};
use cocoonbox_machines::UserFolder;
use cocoonbox_proto::log::v1::{SnapshotCommitted, SnapshotMoment};
use tokio::sync::watch;

use super::{Place, PlaceError, progress::Step};

/// A sweep that overtook a save is over by the next try.
const TRIES: usize = 3;

/// What to save.
#[derive(Clone)]
pub(super) struct Job {
    pub(super) place: Place,
    pub(super) user: String,
    /// By which the save before is found.
    pub(super) box_id: String,
    pub(super) folders: Vec<UserFolder>,
    pub(super) only_if_changed: bool,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) step: watch::Sender<Step>,
    pub(super) cancelled: Arc<AtomicBool>,
    /// What all of the user's may take in the store.
    pub(super) quota_bytes: Option<u64>,
}

impl Job {
    /// Saves. What is kept was read back.
    pub(super) fn run(&self) -> Result<Saved, PlaceError> {
        let capsule = self.place.open_or_make(&self.user)?;
        let mut tries = 0;
        loop {
            tries += 1;
            match self.try_once(&capsule) {
                Err(PlaceError::Capsule(Error::Overtaken { .. })) if tries < TRIES => {}
                saved => return saved,
            }
        }
    }

    /// Removes the record of a save that must not be kept after all. What it stored is given up by a sweep.
    pub(super) fn take_back(&self, snapshot: &Snapshot) -> Result<(), PlaceError> {
        let capsule = self.place.open(&self.user)?;
        let object = snapshot::object(snapshot.id);
        capsule.store().delete(&object).map_err(Error::from)?;
        Ok(())
    }

    fn try_once(&self, capsule: &Capsule) -> Result<Saved, PlaceError> {
        let room = match self.quota_bytes {
            None => None,
            Some(quota) => {
                let (_, used) = capsule.usage()?;
                Some(quota.checked_sub(used).ok_or(PlaceError::Quota(quota))?)
            }
        };
        let now_ns = || self.clock.now_us().saturating_mul(1_000);
        let mut progress = |counts: &Counts| {
            self.step.send_replace(Step {
                files: counts.files,
                bytes: counts.bytes,
                bytes_read: counts.bytes_read,
            });
        };
        let roots = self.folders.iter().map(|one| one.path.as_bytes().to_vec());
        let mut options = save::Options::new(roots.collect(), &now_ns, &mut progress);
        let places = self.folders.iter();
        options.places = places
            .map(|one| (one.path.as_bytes().to_vec(), one.place.clone()))
            .collect();
        options.label = self.box_id.clone().into_bytes();
        options.cache = Some(self.place.cache().to_owned());
        options.only_if_changed = self.only_if_changed;
        options.reads_back = true;
        options.bytes_max = room;
        options.cancelled = Some(&self.cancelled);
        // Half of the host: boxes run on it, too.
        options.threads = thread::available_parallelism().map_or(1, |all| all.get().div_ceil(2));
        match (save::save(capsule, options), self.quota_bytes) {
            (Err(Error::NoRoom), Some(quota)) => Err(PlaceError::Quota(quota)),
            (saved, _) => Ok(saved?),
        }
    }
}

/// What is written into the log of a snapshot that is kept.
pub(super) fn committed(snapshot: &Snapshot, save_id: &str, at: Parent) -> SnapshotCommitted {
    let counts = &snapshot.counts;
    let parent = snapshot.parent.map(|parent| parent.to_string());
    SnapshotCommitted {
        save_id: save_id.to_owned(),
        snapshot_id: snapshot.id.to_string(),
        parent_id: parent.unwrap_or_default(),
        // The decider knows.
        reason: String::new(),
        tool_call_id: String::new(),
        at: Some(SnapshotMoment {
            log: at.log.as_bytes().to_vec(),
            pos: at.pos,
            chain: at.chain.0.to_vec(),
        }),
        started_ms: snapshot.started_ns / 1_000_000,
        ended_ms: snapshot.ended_ns / 1_000_000,
        files: counts.files,
        directories: counts.directories,
        bytes: counts.bytes,
        files_changed: counts.files_changed,
        bytes_added: counts.bytes_added,
        left_out: snapshot.excluded.count,
        not_saved: snapshot.skipped.count,
        unsettled: snapshot.unsettled.count,
    }
}
