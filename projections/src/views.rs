//! The handle that answers questions: typed reads, and waiting for what was just written.

mod error;
mod progress;
mod reads;

pub use error::{Behind, ViewsError};
pub use progress::Degraded;
pub use reads::Paged;

use std::{
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    time::Duration,
};

use cocoonbox_events::{LogId, OffsetKey};
use tokio::sync::watch;

use crate::{
    database::{Checkpoint, Database, OpenError},
    projection::{self, Projection},
    rows::{self, MemoryRows, Rows, SqliteRows},
};
use progress::Progress;

/// The views of one installation. Cheap to clone. Reads run off the async threads.
#[derive(Clone)]
pub struct Views {
    shared: Arc<Shared>,
}

struct Shared {
    projections: Vec<Box<dyn Projection>>,
    database: RwLock<Arc<Database>>,
    progress: Mutex<Progress>,
    changed: watch::Sender<u64>,
}

impl Views {
    /// Opens `views.db`, making it if it is absent. Blocks. Rows of projections that have another
    /// version in this build are dropped, and the runner builds them again.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        Self::open_with(path, projection::all())
    }

    /// The same with other projections than this build's own.
    pub fn open_with(
        path: &Path,
        projections: Vec<Box<dyn Projection>>,
    ) -> Result<Self, OpenError> {
        let (database, progress) = open(path, &projections)?;
        Ok(Self {
            shared: Arc::new(Shared {
                projections,
                database: RwLock::new(Arc::new(database)),
                progress: Mutex::new(progress),
                changed: watch::Sender::new(0),
            }),
        })
    }

    /// Waits until every projection that reads the key's log has taken in what is at the key. A
    /// projection that is degraded in that log is not waited for: ask [`Views::degraded`]. A log that no
    /// projection reads (a system log) is never reached.
    pub async fn at_least(&self, key: &OffsetKey, timeout: Duration) -> Result<(), Behind> {
        let mut changed = self.changed();
        let reached = async {
            loop {
                changed.mark_unchanged();
                if self.reached(key.log).is_some_and(|pos| pos >= key.pos) {
                    return;
                }
                // The sender lives in `self`, so this ends only with a change.
                let _ = changed.changed().await;
            }
        };
        tokio::time::timeout(timeout, reached)
            .await
            .map_err(|_| Behind {
                log: key.log,
                asked: key.pos,
                reached: self.reached(key.log).unwrap_or(0),
            })
    }

    /// Rings after every page that was taken in; the value only counts.
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.shared.changed.subscribe()
    }

    /// The position that every projection which reads this log has reached, degraded ones left out.
    /// `None` if the log has not been seen.
    pub fn reached(&self, log: LogId) -> Option<u64> {
        self.progress().reached(log)
    }

    /// Projections that stopped at an event which they cannot take in.
    pub fn degraded(&self) -> Vec<Degraded> {
        self.progress().degraded()
    }

    /// How far one projection is in one log.
    pub async fn checkpoint(
        &self,
        projection: &str,
        log: LogId,
    ) -> Result<Option<Checkpoint>, ViewsError> {
        let projection = projection.to_owned();
        self.blocking(move |database| {
            database.read(|connection| Ok(Checkpoint::load(connection, &projection, log)?))
        })
        .await
    }

    /// Every checkpoint and every row at one moment. For comparing; it reads all there is.
    pub(crate) async fn snapshot(&self) -> Result<(Vec<Checkpoint>, MemoryRows), ViewsError> {
        self.blocking(|database| {
            database.read(|connection| {
                let checkpoints = Checkpoint::load_all(connection)?;
                Ok((checkpoints, MemoryRows::load(connection)?))
            })
        })
        .await
    }

    pub(crate) fn projections(&self) -> &[Box<dyn Projection>] {
        &self.shared.projections
    }

    pub(crate) fn progress(&self) -> MutexGuard<'_, Progress> {
        self.shared
            .progress
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn ring(&self) {
        self.shared
            .changed
            .send_modify(|count| *count = count.wrapping_add(1));
    }

    pub(crate) fn database(&self) -> Arc<Database> {
        Arc::clone(
            &self
                .shared
                .database
                .read()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }

    /// Opens the file again if it was deleted or replaced under us. Blocks.
    pub(crate) fn reopen_if_gone(&self) -> Result<bool, OpenError> {
        let current = self.database();
        if !current.is_gone() {
            return Ok(false);
        }
        tracing::warn!(path = %current.path().display(), "views are gone and are built again");
        let (database, progress) = open(current.path(), &self.shared.projections)?;
        *self
            .shared
            .database
            .write()
            .unwrap_or_else(PoisonError::into_inner) = Arc::new(database);
        *self.progress() = progress;
        Ok(true)
    }

    /// Runs `f` on a thread that may block.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        f: impl FnOnce(&Database) -> Result<T, ViewsError> + Send + 'static,
    ) -> Result<T, ViewsError> {
        let database = self.database();
        tokio::task::spawn_blocking(move || f(&database))
            .await
            .map_err(|_| ViewsError::Interrupted)?
    }

    /// Runs `f` over the rows as they are at one moment.
    async fn read<T: Send + 'static>(
        &self,
        f: impl FnOnce(&dyn Rows) -> Result<T, rows::Error> + Send + 'static,
    ) -> Result<T, ViewsError> {
        self.blocking(move |database| database.read(|connection| Ok(f(&SqliteRows(connection))?)))
            .await
    }
}

/// Opens the file and drops what projections of other versions have left in it.
fn open(
    path: &Path,
    projections: &[Box<dyn Projection>],
) -> Result<(Database, Progress), OpenError> {
    let database = Database::open(path)?;
    let error = |source| OpenError::Open {
        path: path.to_owned(),
        source,
    };
    let checkpoints = database
        .write(|connection| {
            let tx = connection.transaction()?;
            for checkpoint in Checkpoint::load_all(&tx)? {
                let current = projections.iter().any(|projection| {
                    projection.name() == checkpoint.projection
                        && projection.version() == checkpoint.version
                });
                if !current {
                    drop_projection(&tx, projections, &checkpoint.projection)?;
                }
            }
            let left = Checkpoint::load_all(&tx)?;
            tx.commit()?;
            Ok(left)
        })
        .map_err(error)?;
    let mut progress = Progress::default();
    for checkpoint in checkpoints {
        let found = projections
            .iter()
            .find(|known| known.name() == checkpoint.projection);
        if let Some(projection) = found {
            progress.set(projection.name(), checkpoint.log, checkpoint.pos);
        }
    }
    Ok((database, progress))
}

/// Deletes everything of one projection.
pub(crate) fn drop_projection(
    connection: &rusqlite::Connection,
    projections: &[Box<dyn Projection>],
    name: &str,
) -> Result<(), rusqlite::Error> {
    tracing::info!(
        projection = name,
        "projection is built again from the start"
    );
    for projection in projections
        .iter()
        .filter(|projection| projection.name() == name)
    {
        for view in projection.views() {
            connection.execute("DELETE FROM row WHERE view = ?1", [view.name()])?;
        }
    }
    connection.execute("DELETE FROM checkpoint WHERE projection = ?1", [name])?;
    Ok(())
}
