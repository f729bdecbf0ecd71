//! Pays what is owed to one box's snapshots.

mod work;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use cocoonbox_capsule::{Error, SnapshotId, snapshot};
use cocoonbox_commands::{
    boxes::{self, Phase},
    snapshot::{Command, State, reason},
};
use cocoonbox_events::{
    AppendError, CommandId, Execute, Fold, LoadError, LogId, Meta, Parent, ReadError, StreamName,
};
use cocoonbox_installation::LeasesError;
use cocoonbox_machines::{self as machines, BoxId, UserFolder};
use cocoonbox_proto::log::v1::{Actor, actor};
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{PlaceError, keeper::Parts};
use crate::{lease::Tenure, status::describe};

/// Pause between attempts when the store or the host fails.
const RETRY_MIN: Duration = Duration::from_millis(200);
const RETRY_MAX: Duration = Duration::from_secs(30);
/// Looked again while another process has the box's disks.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// A save that nobody asked for and that failed is tried again after this long, or when something has happened.
const AGAIN: Duration = Duration::from_mins(10);
const GONE: &str = "BOX_DELETED";

/// What is known outside of a worker about what it should look at.
#[derive(Debug, Default)]
pub(super) struct Wish {
    pub(super) bell: Notify,
    /// A turn that may have written files has ended.
    pub(super) turn: AtomicBool,
}

/// One box's saves and restores, one at a time.
pub(super) struct Worker {
    parts: Arc<Parts>,
    id: BoxId,
    fold: Fold<State>,
    boxed: Fold<boxes::State>,
    wish: Arc<Wish>,
    tenure: Option<Tenure>,
    /// When the files were looked at last by this process.
    looked: Instant,
    /// Where the box's log was when a save was made that nobody asked for.
    tried: Option<(u64, Instant)>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error(transparent)]
    Machine(#[from] machines::Error),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Execute(#[from] Execute<cocoonbox_commands::snapshot::Rejection>),
    #[error("reading where the box's log ends")]
    Tail(#[source] ReadError),
    #[error("who may save the box cannot be found out")]
    Leases(#[from] LeasesError),
    #[error(transparent)]
    Place(#[from] PlaceError),
    #[error("the work ended early")]
    Lost,
    /// The user is gone, and all that is owed to them.
    #[error("the user's key was destroyed")]
    NoKey,
}

impl Worker {
    pub(super) fn new(
        parts: Arc<Parts>,
        account: LogId,
        id: BoxId,
        wish: Arc<Wish>,
    ) -> Option<Self> {
        let stream = |noun: &str| StreamName::new(format!("{noun}/{id}")).ok();
        Some(Self {
            fold: Fold::new(account, stream("snapshot")?),
            boxed: Fold::new(account, stream("box")?),
            parts,
            id,
            wish,
            tenure: None,
            looked: Instant::now(),
            tried: None,
        })
    }

    /// Runs until the box is deleted or the api stops.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        let mut pause = RETRY_MIN;
        while !stop.is_cancelled() {
            match self.step(&stop).await {
                Ok(true) => pause = RETRY_MIN,
                Ok(false) | Err(Fault::NoKey) => break,
                Err(fault) => {
                    let error = describe(&fault);
                    tracing::warn!(box_id = %self.id, error, "what is owed to snapshots cannot be done now");
                    tokio::select! {
                        () = stop.cancelled() => break,
                        () = tokio::time::sleep(pause) => pause = (pause * 2).min(RETRY_MAX),
                    }
                }
            }
        }
        self.let_go().await;
    }

    /// Does one thing, or waits for one. `false`: there will be nothing.
    async fn step(&mut self, stop: &CancellationToken) -> Result<bool, Fault> {
        let store = &*self.parts.store;
        self.boxed.refresh(store).await?;
        self.fold.refresh(store).await?;
        if self.boxed.state.phase == Phase::Deleted {
            self.prune().await?;
            return Ok(false);
        }
        if let Some(reason) = self.wanted()? {
            self.request(reason).await?;
        }
        // What is owed to a box that is going ends with it.
        let is_going = matches!(self.boxed.state.phase, Phase::Deleting { .. });
        if is_going || !self.fold.state.owes() {
            self.let_go().await;
            self.wait(stop).await;
            return Ok(true);
        }
        let Some(folders) = self.folders(stop).await? else {
            return Ok(true);
        };
        if let Some(save) = self.fold.state.next_save().cloned() {
            self.save(save, folders, stop).await?;
        } else if let Some(restore) = self.fold.state.next_restore().cloned() {
            self.restore(restore, folders, stop).await?;
        }
        Ok(true)
    }

    /// Why the box should be saved although nobody asked.
    fn wanted(&mut self) -> Result<Option<&'static str>, Fault> {
        if !self.parts.place.is_usable() {
            return Ok(None);
        }
        let when = &self.parts.when;
        // It is looked at again when the save that is owed is done: that one may have begun before the turn ended.
        if !self.fold.state.saves.is_empty() {
            return Ok(None);
        }
        let has_turn = self.wish.turn.swap(false, Ordering::SeqCst);
        let Some(tail) = self.tail()? else {
            return Ok(None);
        };
        let is_news = self.fold.state.seen.is_none_or(|seen| seen != tail);
        match self.boxed.state.phase {
            Phase::Running { .. } if has_turn && when.after_turns => Ok(Some(reason::TURN)),
            Phase::Running { .. } => {
                let is_due = when
                    .every
                    .is_some_and(|every| self.looked.elapsed() >= every);
                Ok(is_due.then_some(reason::SCHEDULE))
            }
            // Its disks stand still. Once for each time that it ran.
            Phase::Hibernated if when.asleep && is_news && self.may_try(tail.pos) => {
                Ok(Some(reason::HIBERNATE))
            }
            _ => Ok(None),
        }
    }

    fn may_try(&self, pos: u64) -> bool {
        self.tried
            .is_none_or(|(tried, at)| tried != pos || at.elapsed() >= AGAIN)
    }

    async fn request(&mut self, reason: &'static str) -> Result<(), Fault> {
        self.tried = self.tail()?.map(|tail| (tail.pos, Instant::now()));
        self.looked = Instant::now();
        let command = CommandId(self.parts.ids.draw());
        let request = Command::RequestSave {
            save_id: save_id(command),
            reason,
            only_if_changed: true,
            tool_call_id: String::new(),
        };
        self.execute(&request, command).await
    }

    /// The box's folders, once this process may work on them. `None`: look again.
    async fn folders(
        &mut self,
        stop: &CancellationToken,
    ) -> Result<Option<Vec<UserFolder>>, Fault> {
        let is_shared = self.parts.owners.are_shared();
        match self.parts.machines.folders(&self.id).await {
            Ok(folders) => {
                if is_shared && !self.tenure.as_ref().is_some_and(Tenure::is_valid) {
                    let name = format!("save/{}", self.id);
                    let owners = self.parts.owners.clone();
                    self.tenure = tokio::select! {
                        () = stop.cancelled() => return Ok(None),
                        tenure = owners.hold(&name) => Some(tenure),
                    };
                    // Whoever had it before may have done everything.
                    return Ok(None);
                }
                Ok(Some(folders))
            }
            // The process on the host with the disks does it.
            Err(machines::Error::NotFound(_)) if is_shared => {
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = self.wish.bell.notified() => {}
                    () = tokio::time::sleep(LOOK_AGAIN) => {}
                }
                Ok(None)
            }
            Err(machines::Error::NotFound(_)) => {
                self.refuse("NO_FILES", "the box has no disks yet; start it first")
                    .await
            }
            Err(machines::Error::CannotShow(_)) => {
                let detail = "the box's files cannot be reached from the host now; with `disk_bytes` set they \
                              can while the box runs";
                self.refuse("CANNOT_SAVE", detail).await
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Ends the next thing that is owed.
    async fn refuse(
        &mut self,
        reason: &'static str,
        detail: &str,
    ) -> Result<Option<Vec<UserFolder>>, Fault> {
        let detail = detail.to_owned();
        let state = &self.fold.state;
        if let Some(save) = state.next_save() {
            let save_id = save.id.clone();
            self.report(&Command::Fail {
                save_id,
                reason,
                detail,
            })
            .await?;
        } else if let Some(restore) = state.restores.first() {
            let restore_id = restore.id.clone();
            self.report(&Command::RestoreFailed {
                restore_id,
                reason,
                detail,
            })
            .await?;
        }
        Ok(None)
    }

    /// Gives up all that was saved of a box that is gone.
    async fn prune(&mut self) -> Result<(), Fault> {
        let kept: Vec<SnapshotId> = self
            .fold
            .state
            .kept
            .keys()
            .filter_map(|id| SnapshotId::parse(id))
            .collect();
        let (place, user) = (self.parts.place.clone(), self.boxed.state.user_id.clone());
        if !kept.is_empty() {
            // Before the event, so that whoever comes after a crash does it again.
            let work = move || {
                let capsule = place.open(&user)?;
                for id in kept {
                    let object = snapshot::object(id);
                    capsule.store().delete(&object).map_err(Error::from)?;
                }
                Ok::<_, PlaceError>(())
            };
            let pruned = tokio::task::spawn_blocking(work).await;
            match pruned.map_err(|_| Fault::Lost)? {
                // The user is gone, and all with them.
                Err(
                    PlaceError::Key(_)
                    | PlaceError::NoFolder
                    | PlaceError::Capsule(Error::NoCapsule),
                )
                | Ok(()) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.report(&Command::PruneAll { reason: GONE }).await
    }

    /// Where the copy of the box's log ends.
    fn tail(&self) -> Result<Option<Parent>, Fault> {
        let Some(log) = self.boxed.state.box_log else {
            return Ok(None);
        };
        match self.parts.store.tail(log) {
            Ok(tail) => Ok(Some(Parent {
                log: tail.log,
                pos: tail.pos,
                chain: tail.chain,
            })),
            // Not opened yet.
            Err(ReadError::NoSuchLog { .. }) => Ok(None),
            Err(error) => Err(Fault::Tail(error)),
        }
    }

    async fn wait(&self, stop: &CancellationToken) {
        let runs = matches!(self.boxed.state.phase, Phase::Running { .. });
        let due = self.parts.when.every.filter(|_| runs);
        let due = due.map(|every| self.looked + every);
        let due = async {
            match due {
                Some(due) => tokio::time::sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.wish.bell.notified() => {}
            () = due => {}
        }
    }

    async fn let_go(&mut self) {
        if let Some(tenure) = self.tenure.take() {
            tenure.release().await;
        }
    }

    /// Reports a fact, once for the state that it follows. A report that comes too late is dropped.
    async fn report(&mut self, command: &Command) -> Result<(), Fault> {
        let step = format!("{command:?}");
        let seed = self.fold.last.map(|id| *id.as_bytes()).unwrap_or_default();
        self.execute(command, CommandId::derive(&seed, &step)).await
    }

    async fn execute(&mut self, command: &Command, id: CommandId) -> Result<(), Fault> {
        let digest = *blake3::hash(format!("{command:?}").as_bytes()).as_bytes();
        let meta = Meta {
            command: id,
            actor: Actor {
                kind: actor::Kind::System.into(),
                id: "capsule".into(),
            },
            cause: self.fold.last,
        };
        let store = &*self.parts.store;
        match self.fold.execute(store, command, &meta, digest).await {
            Ok(_) => Ok(()),
            Err(Execute::Rejected(rejection)) => {
                tracing::debug!(box_id = %self.id, %rejection, "report came too late");
                Ok(())
            }
            Err(Execute::Append(AppendError::NoKey)) => Err(Fault::NoKey),
            Err(error) => Err(error.into()),
        }
    }
}

/// Names the save that a command asks for.
pub(super) fn save_id(command: CommandId) -> String {
    format!("save-{command}")
}
