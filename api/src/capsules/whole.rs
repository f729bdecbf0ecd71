//! All that a snapshot holds, for a box that has nothing yet.

use std::sync::{Arc, atomic::AtomicBool};

use cocoonbox_machines::UserFolder;
use tokio::sync::watch;

use super::{Place, PlaceError, progress::Step, restore::Job};

/// A snapshot to make a box from.
pub struct Whole {
    pub place: Place,
    pub user: String,
    pub snapshot_id: String,
    pub cancelled: Arc<AtomicBool>,
}

impl Whole {
    /// Writes the files into folders that nobody else can reach yet. Blocks.
    pub fn give(&self, folders: &[UserFolder]) -> Result<(), PlaceError> {
        let job = Job {
            place: &self.place,
            user: &self.user,
            restore_id: "",
            snapshot_id: &self.snapshot_id,
            paths: &[],
            folders,
            step: &watch::Sender::new(Step::default()),
            cancelled: &self.cancelled,
        };
        let done = job.everything()?;
        if done.problems > 0 {
            tracing::warn!(
                snapshot = self.snapshot_id,
                problems = done.problems,
                "some files of a fork are not as they were saved"
            );
        }
        Ok(())
    }
}
