//! The handle that answers questions: typed reads, and waiting for what was just written.

mod condition;
mod error;
mod progress;
mod reads;
mod report;
mod search;

pub use condition::{Condition, Late, conditions};
pub use error::{Behind, ViewsError};
pub use progress::{Building, Degraded, Folded, Rebuilt};
pub use reads::Paged;
pub use report::Owners;
pub use search::{BadQuery, Hit, Query, Search, Searched};

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    time::Duration,
};

use cocoonbox_events::{LogId, OffsetKey};
use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::watch;

use crate::{
    database::{Checkpoint, Database, Edition, EditionId, OpenError, State, Stop, scrub, sweep},
    projection::{self, Projection},
    rows::{self, MemoryRows, Rows, SqliteRows},
    transcript::Transcript,
};
pub(crate) use progress::Progress;

/// How long a question waits for rows that are being built, before it is refused: what a small
/// installation takes after an upgrade.
const BUILDING_WAIT: Duration = Duration::from_secs(2);

/// Where a log that was left goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Branch {
    pub(crate) to: LogId,
    /// The last position that both have.
    pub(crate) base: u64,
}

/// The views of one installation. Cheap to clone. Reads run off the async threads.
#[derive(Clone)]
pub struct Views {
    shared: Arc<Shared>,
}

struct Shared {
    projections: Vec<Box<dyn Projection>>,
    database: RwLock<Arc<Database>>,
    progress: Mutex<Progress>,
    /// Logs that were left, each with the branch that goes on.
    branches: RwLock<HashMap<LogId, Branch>>,
    changed: watch::Sender<u64>,
    /// Rings when the runner has to look at the editions again; the value only counts.
    orders: watch::Sender<u64>,
}

impl Views {
    /// Opens `views.db`, making it if it is absent. Blocks.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        Self::open_with(path, projection::all())
    }

    /// The same with other projections than this build's own.
    pub fn open_with(
        path: &Path,
        projections: Vec<Box<dyn Projection>>,
    ) -> Result<Self, OpenError> {
        Self::over(Database::open(path)?, projections)
    }

    /// Opens a file that another process keeps, to look at it. Blocks. No runner may be given it.
    pub fn open_read_only(path: &Path) -> Result<Self, OpenError> {
        Self::over(Database::open_read_only(path)?, projection::all())
    }

    fn over(database: Database, projections: Vec<Box<dyn Projection>>) -> Result<Self, OpenError> {
        let progress = progress_of(&database, &projections)?;
        Ok(Self {
            shared: Arc::new(Shared {
                projections,
                database: RwLock::new(Arc::new(database)),
                progress: Mutex::new(progress),
                branches: RwLock::default(),
                changed: watch::Sender::new(0),
                orders: watch::Sender::new(0),
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

    /// Events taken in by each projection since the process began.
    pub fn folded(&self) -> Vec<(&'static str, Folded)> {
        self.progress().folded()
    }

    /// How long ago the runner looked at the logs last; `None` if it has not begun.
    pub fn looked_ago(&self) -> Option<Duration> {
        self.progress().looked_ago()
    }

    /// Rows that are being built.
    pub fn building(&self) -> Vec<Building> {
        self.progress().building()
    }

    /// How the last rebuild of a projection that was asked for came out, in this process.
    pub fn rebuilt(&self, projection: &str) -> Option<Rebuilt> {
        self.progress().rebuilt(projection)
    }

    /// Has the runner build a projection again while its rows go on answering. When the rebuilt rows are
    /// as far as those, the two are compared row by row and change places; [`Views::rebuilt`] says how
    /// that came out. Outlives the process. Asked again while it is built, it is the same rebuild.
    pub async fn rebuild(&self, projection: &str) -> Result<EditionId, ViewsError> {
        let (name, version) = self
            .projections()
            .iter()
            .find(|known| known.name() == projection)
            .map(|known| (known.name(), known.version()))
            .ok_or_else(|| ViewsError::NoSuchProjection {
                projection: projection.to_owned(),
            })?;
        let edition = self
            .blocking(move |database| {
                database.write(|connection| {
                    let tx =
                        connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
                    let building = Edition::load_all(&tx)?.into_iter().find(|edition| {
                        edition.projection == name
                            && edition.version == version
                            && edition.state == State::Building
                    });
                    let edition = match building {
                        Some(edition) => edition,
                        None => Edition::begin(&tx, name, version, true)?,
                    };
                    tx.commit()?;
                    Ok(edition)
                })
            })
            .await?;
        self.order();
        Ok(edition.id)
    }

    /// Writes the file anew, so that it holds nothing of rows that were deleted. Takes as long as writing
    /// the file takes; questions are answered meanwhile, and the runner waits.
    pub async fn scrub(&self) -> Result<(), ViewsError> {
        self.blocking(|database| {
            while database.write(|connection| sweep(connection))? {}
            Ok(database.write(|connection| scrub(connection))?)
        })
        .await
    }

    /// How far the rows of one projection that answer are in one log.
    pub async fn checkpoint(
        &self,
        projection: &str,
        log: LogId,
    ) -> Result<Option<Checkpoint>, ViewsError> {
        let (name, of) = (projection.to_owned(), self.clone());
        self.blocking(move |database| {
            database.read(|connection| {
                let projection = of.projections().iter().find(|known| known.name() == name);
                let Some(projection) = projection else {
                    return Ok(None);
                };
                match Edition::serving(connection, &**projection)? {
                    Some(edition) => Ok(Checkpoint::load(connection, edition.id, log)?),
                    None => Ok(None),
                }
            })
        })
        .await
    }

    /// Every projection's checkpoints and every row of this build's versions, at one moment. For
    /// comparing; it reads all there is.
    pub(crate) async fn snapshot(&self) -> Result<(Vec<Vec<Checkpoint>>, MemoryRows), ViewsError> {
        let of = self.clone();
        self.answered(move |connection| {
            let all = Checkpoint::load_all(connection)?;
            let (mut checkpoints, mut rows) = (Vec::new(), MemoryRows::default());
            for projection in of.projections() {
                let serving = Edition::serving(connection, &**projection)?
                    .filter(|edition| edition.version == projection.version())
                    .ok_or(rows::Error::Building {
                        projection: projection.name(),
                    })?;
                rows.load(connection, serving.id)?;
                let of_serving = all.iter().filter(|found| found.edition == serving.id);
                checkpoints.push(of_serving.cloned().collect());
            }
            Ok((checkpoints, rows))
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

    /// The branch of a log whose transcript is to be read: the one that is written today, as soon as its
    /// rows have all that it inherits.
    pub fn current(&self, log: LogId) -> LogId {
        let branches = self.branches();
        let mut at = log;
        while let Some(branch) = branches.get(&at) {
            let reached = self.progress().position(Transcript.name(), branch.to);
            if reached.is_none_or(|pos| pos < branch.base) {
                break;
            }
            at = branch.to;
        }
        at
    }

    /// Whether what is at a position of a log was undone by a rewind.
    pub fn is_undone(&self, log: LogId, pos: u64) -> bool {
        self.branches()
            .get(&log)
            .is_some_and(|branch| pos > branch.base)
    }

    pub(crate) fn set_branches(&self, branches: impl Iterator<Item = (LogId, Branch)>) {
        let branches: HashMap<LogId, Branch> = branches.collect();
        if *self.branches() != branches {
            *self
                .shared
                .branches
                .write()
                .unwrap_or_else(PoisonError::into_inner) = branches;
        }
    }

    fn branches(&self) -> std::sync::RwLockReadGuard<'_, HashMap<LogId, Branch>> {
        self.shared
            .branches
            .read()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the runner look at the editions again.
    pub(crate) fn order(&self) {
        self.shared
            .orders
            .send_modify(|count| *count = count.wrapping_add(1));
    }

    pub(crate) fn orders(&self) -> watch::Receiver<u64> {
        self.shared.orders.subscribe()
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
        let database = Database::open(current.path())?;
        let progress = progress_of(&database, &self.shared.projections)?;
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
        f: impl Fn(&dyn Rows) -> Result<T, rows::Error> + Send + Sync + 'static,
    ) -> Result<T, ViewsError> {
        let of = self.clone();
        self.answered(move |connection| Ok(f(&SqliteRows::serving(connection, of.projections()))?))
            .await
    }

    /// Runs `f` in a read transaction. Rows that are being built are waited for, a little.
    async fn answered<T: Send + 'static>(
        &self,
        f: impl Fn(&Connection) -> Result<T, ViewsError> + Send + Sync + 'static,
    ) -> Result<T, ViewsError> {
        let f = Arc::new(f);
        let mut changed = self.changed();
        let deadline = tokio::time::Instant::now() + BUILDING_WAIT;
        loop {
            changed.mark_unchanged();
            let f = f.clone();
            let answer = self
                .blocking(move |database| database.read(|connection| f(connection)))
                .await;
            let Err(ViewsError::Rows(rows::Error::Building { projection })) = answer else {
                return answer;
            };
            let late = tokio::time::timeout_at(deadline, changed.changed()).await;
            if late.is_err() {
                let building = self.building();
                let found = building.iter().find(|one| one.projection == projection);
                let (done, of) = found.map_or((0, 0), |one| (one.done, one.of));
                return Err(ViewsError::Building {
                    projection,
                    done,
                    of,
                });
            }
        }
    }
}

/// Reads from the file how far the rows that answer are.
fn progress_of(
    database: &Database,
    projections: &[Box<dyn Projection>],
) -> Result<Progress, OpenError> {
    let mut progress = Progress::default();
    database
        .read(|connection| {
            let checkpoints = Checkpoint::load_all(connection)?;
            let (editions, stops) = (Edition::load_all(connection)?, Stop::load_all(connection)?);
            for projection in projections {
                let serving = Edition::serving(connection, &**projection)?;
                progress.set_served(projection.name(), serving.is_some());
                let at_of = |id| checkpoints.iter().filter(move |at| at.edition == id);
                let building = editions.iter().find(|edition| {
                    edition.state == State::Building
                        && edition.projection == projection.name()
                        && edition.version == projection.version()
                });
                if let Some(building) = building {
                    progress.set_building(Building {
                        projection: projection.name(),
                        edition: building.id,
                        version: building.version,
                        answers: serving.is_some(),
                        done: at_of(building.id).map(|at| at.pos).sum(),
                        of: 0,
                        comparing: false,
                        blocked: None,
                    });
                }
                let Some(serving) = serving else { continue };
                for at in at_of(serving.id) {
                    progress.set(projection.name(), at.log, at.pos);
                }
                for stop in stops.iter().filter(|stop| stop.edition == serving.id) {
                    progress.stop(Degraded::of(projection.name(), stop));
                }
            }
            Ok::<_, rusqlite::Error>(())
        })
        .map_err(|source| OpenError::Open {
            path: database.path().to_owned(),
            source,
        })?;
    Ok(progress)
}
