//! Users whom other processes deleted: what this one keeps open of them goes too.
//!
//! Views are each process's own, and so is a key that is kept open. The directory says who was deleted, also
//! while this process was down: it is read from its beginning at each start. Whoever is forgotten already
//! costs a look-up.

use std::{sync::Arc, time::Duration};

use cocoonbox_events::{
    DirectoryEvent, LogId, LogKind, Payload, ReadError, Store, limits::PAGE_EVENTS_MAX,
};
use cocoonbox_installation::{Keys, KeysError};
use cocoonbox_projections::{ForgetError, Views, forget_for_good, is_forgotten};
use tokio_util::sync::CancellationToken;

use crate::status::describe;

/// A doorbell can be lost, and what failed is tried again.
const SWEEP: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
pub enum ElsewhereError {
    #[error("reading the directory")]
    Read(#[from] ReadError),
    #[error("dropping a key")]
    Keys(#[from] KeysError),
    #[error("forgetting in the views")]
    Forget(#[from] ForgetError),
}

/// Follows the directory.
pub struct Elsewhere {
    store: Arc<dyn Store>,
    keys: Arc<dyn Keys>,
    views: Views,
    cursor: Option<(LogId, u64)>,
}

impl Elsewhere {
    pub fn new(store: Arc<dyn Store>, keys: Arc<dyn Keys>, views: Views) -> Self {
        Self {
            store,
            keys,
            views,
            cursor: None,
        }
    }

    /// Runs until stopped.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut bell = self.store.any_doorbell();
        let mut is_failing = false;
        while !stop.is_cancelled() {
            bell.mark_unchanged();
            let followed = tokio::select! {
                () = stop.cancelled() => return,
                followed = self.follow() => followed,
            };
            match followed {
                Ok(()) => is_failing = false,
                Err(error) if !is_failing => {
                    is_failing = true;
                    let error = describe(&error);
                    tracing::warn!(error, "a deleted user is not forgotten here yet");
                }
                Err(error) => tracing::debug!(error = describe(&error), "still not forgotten"),
            }
            tokio::select! {
                () = stop.cancelled() => {}
                _ = tokio::time::timeout(SWEEP, bell.changed()) => {}
            }
        }
    }

    /// Forgets whoever was removed since the last look. After an error the same event is met again.
    async fn follow(&mut self) -> Result<(), ElsewhereError> {
        let logs = self.store.logs().into_iter();
        // A rewound one goes on in another, which has its history as well.
        let system = logs
            .filter(|log| log.kind == LogKind::System)
            .find(|log| log.moved_to.is_none());
        let Some(system) = system else {
            return Ok(());
        };
        let mut after = match self.cursor {
            Some((log, pos)) if log == system.id => pos,
            _ => 0,
        };
        while after < system.tail.pos {
            let page = self.store.read(system.id, after, PAGE_EVENTS_MAX).await?;
            if page.events.is_empty() {
                break;
            }
            for event in page.events {
                after = event.pos;
                if let Ok(Some(Payload::Directory(DirectoryEvent::UserRemoved(removed)))) =
                    event.payload()
                {
                    self.forget(&removed.user_id).await?;
                }
                self.cursor = Some((system.id, after));
            }
        }
        Ok(())
    }

    async fn forget(&self, user: &str) -> Result<(), ElsewhereError> {
        if is_forgotten(&self.views, user).await? {
            return Ok(());
        }
        // Gone in the store; a key that is kept open here would have the content taken in again.
        self.keys.destroy(user).await?;
        forget_for_good(&self.store, &self.views, user).await?;
        tracing::info!(
            user,
            "a user whom another process deleted is forgotten here"
        );
        Ok(())
    }
}
