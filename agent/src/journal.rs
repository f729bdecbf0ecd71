//! The box's own log, as everything in the agent writes it.
//!
//! Which log that is, only the api knows: the box's disk may have been put back to an older one, and then
//! positions would be given out twice. So a journal writes nothing until it is released.

mod crash;
mod lineage;

use std::{
    path::Path,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use cocoonbox_events::{
    Aggregate, AppendError, Clock, CommandId, Execute, Executed, Fold, Ids, LoadError, LogId, Meta,
    ReadError, Store, StreamName, Tail,
};
use cocoonbox_proto::log::v1::{Actor, actor};
use tokio::{sync::RwLock, time::sleep};
use tokio_util::sync::CancellationToken;

pub use crash::Crash;
pub use lineage::{Branch, LINEAGE_MAX, LineageError};

/// Repeats of an append whose store is busy or unsure, before the process gives up: with the waits
/// between them about three seconds.
const REPEATS_MAX: u32 = 6;
const REPEAT_WAIT: Duration = Duration::from_millis(50);
/// Between two looks whether a full disk has room again.
const ROOM_WAIT: Duration = Duration::from_millis(500);

/// Writes and reads the box's log. Cheap to clone.
#[derive(Clone)]
pub struct Journal {
    store: Arc<dyn Store>,
    /// Set by the release, once for this process.
    log: Arc<OnceLock<LogId>>,
    /// There while the box is being given back what it lost.
    restoring: Arc<Path>,
    box_id: Arc<str>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    /// Held shared for the length of an append; taken whole to close the log for this process.
    open: Arc<RwLock<bool>>,
    broken: CancellationToken,
    over: CancellationToken,
    erasures: Arc<AtomicU64>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error<R: std::error::Error + 'static> {
    /// The decider says no.
    #[error(transparent)]
    Rejected(R),
    /// The box is being stopped: nothing is written any more.
    #[error("the box is being stopped")]
    Closed,
    #[error(transparent)]
    Load(LoadError),
    #[error(transparent)]
    Append(AppendError),
}

impl Journal {
    /// A journal over the box's logs, which waits to be released. `restoring` is the file that marks a
    /// store as incomplete.
    pub fn new(
        store: Arc<dyn Store>,
        restoring: &Path,
        box_id: &str,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
    ) -> Self {
        Self {
            store,
            log: Arc::default(),
            restoring: restoring.into(),
            box_id: box_id.into(),
            clock,
            ids,
            open: Arc::new(RwLock::new(true)),
            broken: CancellationToken::new(),
            over: CancellationToken::new(),
            erasures: Arc::default(),
        }
    }

    /// The log that is written; `None` until the release.
    pub fn released(&self) -> Option<LogId> {
        self.log.get().copied()
    }

    /// The log that is written.
    ///
    /// # Panics
    ///
    /// Before the release. Nothing that could ask is served or started by then.
    pub fn log(&self) -> LogId {
        self.released()
            .expect("nothing is served or started before the release")
    }

    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    pub fn now_us(&self) -> i64 {
        self.clock.now_us()
    }

    /// Draws an id for something that has none yet.
    pub fn draw(&self) -> String {
        self.ids.draw().simple().to_string()
    }

    pub fn fold<A: Aggregate>(&self, stream: StreamName) -> Fold<A> {
        Fold::new(self.log(), stream)
    }

    pub fn tail(&self) -> Result<Tail, ReadError> {
        self.store.tail(self.log())
    }

    /// How often rows were erased. Who keeps a fold starts it afresh when this has changed: the fold
    /// holds what is erased.
    pub fn erasures(&self) -> u64 {
        self.erasures.load(Ordering::SeqCst)
    }

    pub(crate) fn note_erasure(&self) {
        self.erasures.fetch_add(1, Ordering::SeqCst);
    }

    /// Cancelled once the store cannot be written any more: the process has to start again.
    pub fn broken(&self) -> &CancellationToken {
        &self.broken
    }

    /// Cancelled once the process ends and the log with it: who follows reads to the tail and leaves.
    pub fn over(&self) -> &CancellationToken {
        &self.over
    }

    /// The box itself, where nobody else is known to have asked.
    pub fn own_actor(&self) -> Actor {
        Actor {
            kind: actor::Kind::Box.into(),
            id: self.box_id.to_string(),
        }
    }

    /// Executes a command that nobody repeats.
    pub async fn execute<A: Aggregate>(
        &self,
        fold: &mut Fold<A>,
        command: &A::Command,
        actor: Actor,
    ) -> Result<Executed<A::Event>, Error<A::Rejection>> {
        let id = CommandId(self.ids.draw());
        self.execute_once(fold, command, actor, id, &[]).await
    }

    /// Executes a command that tells what has happened, which nobody will tell again: on a full disk it waits
    /// for room, until `stop`.
    pub async fn record<A: Aggregate>(
        &self,
        fold: &mut Fold<A>,
        command: &A::Command,
        actor: Actor,
        stop: &CancellationToken,
    ) -> Result<Executed<A::Event>, Error<A::Rejection>> {
        let mut is_told = false;
        loop {
            let full = match self.execute(fold, command, actor.clone()).await {
                Err(full @ Error::Append(AppendError::DiskFull)) => full,
                executed => return executed,
            };
            if !is_told {
                tracing::warn!(stream = %fold.stream, "disk full: what happened waits to be written");
                is_told = true;
            }
            if stop.run_until_cancelled(sleep(ROOM_WAIT)).await.is_none() {
                return Err(full);
            }
        }
    }

    /// Executes a command whose id the caller knows, so that repeating it changes nothing. `asked` is
    /// what the id stands for.
    pub async fn execute_once<A: Aggregate>(
        &self,
        fold: &mut Fold<A>,
        command: &A::Command,
        actor: Actor,
        id: CommandId,
        asked: &[u8],
    ) -> Result<Executed<A::Event>, Error<A::Rejection>> {
        let open = self.open.read().await;
        if !*open {
            return Err(Error::Closed);
        }
        let meta = Meta {
            command: id,
            actor,
            cause: fold.last,
        };
        let digest = *blake3::hash(asked).as_bytes();
        let mut repeat = 0;
        loop {
            match fold.execute(&*self.store, command, &meta, digest).await {
                Ok(executed) => return Ok(executed),
                Err(Execute::Rejected(rejection)) => return Err(Error::Rejected(rejection)),
                Err(Execute::Load(error)) => {
                    tracing::error!(%error, "log not read");
                    self.broken.cancel();
                    return Err(Error::Load(error));
                }
                // Nothing was written, for sure, and the store goes on once there is room.
                Err(Execute::Append(error @ AppendError::DiskFull)) => {
                    return Err(Error::Append(error));
                }
                Err(Execute::Append(error)) if error.is_retryable() && repeat < REPEATS_MAX => {
                    tracing::warn!(%error, repeat, "append repeated");
                    sleep(REPEAT_WAIT * 2_u32.pow(repeat)).await;
                    repeat += 1;
                }
                Err(Execute::Append(error)) => {
                    if error.is_retryable() {
                        tracing::error!(%error, "log not written");
                        self.broken.cancel();
                    }
                    return Err(Error::Append(error));
                }
            }
        }
    }

    /// Lets what is being written finish, refuses everything behind it, and returns the tail.
    pub async fn close(&self) -> Result<Tail, ReadError> {
        *self.open.write().await = false;
        self.tail()
    }
}
