//! How far saves and restores are that this process does. For people only: what counts is in the log.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

/// How far one is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) files: u64,
    pub(super) bytes: u64,
    /// What had to be read of a save; 0 in a restore.
    pub(super) bytes_read: u64,
}

/// All that are under way here. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<Mutex<HashMap<String, watch::Receiver<Step>>>>);

/// One that is under way, until it is dropped.
#[derive(Debug)]
pub(super) struct UnderWay {
    all: Progress,
    id: String,
    step: watch::Sender<Step>,
}

impl Progress {
    pub(super) fn begin(&self, id: &str) -> UnderWay {
        let (step, seen) = watch::channel(Step::default());
        self.lock().insert(id.to_owned(), seen);
        UnderWay {
            all: self.clone(),
            id: id.to_owned(),
            step,
        }
    }

    /// How far a save or restore is; `None` if it is not under way here.
    pub(super) fn of(&self, id: &str) -> Option<Step> {
        self.lock().get(id).map(|seen| *seen.borrow())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, watch::Receiver<Step>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UnderWay {
    pub(super) fn sender(&self) -> watch::Sender<Step> {
        self.step.clone()
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.all.lock().remove(&self.id);
    }
}
