//! Keeps capsules small and sound: prunes by the user's rule, gives back what no snapshot needs, reads a part of what
//! is stored each day.
//!
//! ```text
//!  sweep_requested ─▶ pruned (each box) ─▶ records deleted ─▶ plan ─▶ sweep_planned ─▶ carried out ─▶ swept
//! ```
//!
//! What is kept is what the log says, never what the store lists. Each step finds what the one before has done, so a
//! process that is killed anywhere leaves a sweep that is owed, and the next one begins it again.

mod store;

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::Duration,
};

use cocoonbox_capsule::{Error, SnapshotId, sweep};
use cocoonbox_commands::{
    boxes,
    capsule::{self, Command, reason},
    snapshot,
};
use cocoonbox_events::{
    Aggregate, AppendError, Clock, CommandId, Execute, Fold, Ids, Kind, LoadError, LogId, LogInfo,
    LogKind, Meta, ReadError, SnapshotEvent, Store, StreamName, limits::PAGE_EVENTS_MAX,
};
use cocoonbox_installation::LeasesError;
use cocoonbox_proto::log::v1::{Actor, CapsuleSwept, actor};
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

pub(super) use self::store::look;
use self::store::{carry_out, options, written};
use super::{Place, PlaceError, checker, failure};
use crate::{lease::Owners, status::describe};

/// Between two looks at what is due by the clock.
const LOOK: Duration = Duration::from_mins(1);
/// After a start nothing that only the clock wants is done for this long: the process has better things to do.
const FIRST: Duration = Duration::from_mins(10);
/// The keeper and callers write to the streams of boxes, too.
const TRIES_MAX: u32 = 16;

/// What the reactor works with.
pub struct Sweeper {
    pub store: Arc<dyn Store>,
    pub owners: Owners,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
    pub place: Place,
    pub bell: Bell,
    /// How often a capsule is swept, and a part of it read, by itself; `None` = never.
    pub every: Option<Duration>,
}

/// Rings when something may be owed to a capsule.
#[derive(Clone, Debug, Default)]
pub struct Bell(Arc<Notify>);

impl Bell {
    pub(super) fn ring(&self) {
        self.0.notify_one();
    }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("reading the account log")]
    Read(#[from] ReadError),
    #[error(transparent)]
    Capsule(#[from] Execute<capsule::Rejection>),
    #[error(transparent)]
    Snapshot(#[from] Execute<snapshot::Rejection>),
    #[error("who may sweep cannot be found out")]
    Leases(#[from] LeasesError),
    #[error("the work ended early")]
    Lost,
}

/// What is known of one account log.
struct Known {
    fold: Fold<capsule::State>,
    /// Up to where the log was looked through, and whose snapshots it speaks of. Asked of the log and not of a view:
    /// what is not here is deleted.
    pos: u64,
    boxes: BTreeSet<String>,
    /// Whether anything was ever kept: else there is nothing to look after.
    has_saved: bool,
}

/// What of a user's snapshots is kept, by the log.
#[derive(Default)]
pub(super) struct Kept {
    pub(super) ids: HashSet<SnapshotId>,
    /// A save is under way: a record that the log does not know may be its.
    pub(super) is_saving: bool,
    /// Dropped by this pruning.
    pub(super) dropped: Vec<SnapshotId>,
}

impl Sweeper {
    /// Runs until stopped. A sweep that is under way ends and stays owed.
    pub async fn run(self, stop: CancellationToken) {
        let cancelled = Arc::<AtomicBool>::default();
        let looking = self.look_on(&stop, &cancelled);
        let cancelling = async {
            stop.cancelled().await;
            cancelled.store(true, Ordering::SeqCst);
        };
        tokio::join!(looking, cancelling);
    }

    async fn look_on(&self, stop: &CancellationToken, cancelled: &Arc<AtomicBool>) {
        let mut all: HashMap<LogId, Known> = HashMap::new();
        let begun = tokio::time::Instant::now();
        while !stop.is_cancelled() {
            let is_early = begun.elapsed() < FIRST;
            for log in self.store.logs() {
                if stop.is_cancelled() {
                    return;
                }
                let is_due = log.kind == LogKind::Account && log.moved_to.is_none();
                if !is_due || !self.place.is_usable() {
                    all.remove(&log.id);
                    continue;
                }
                if let Err(fault) = self.look(&mut all, &log, is_early, cancelled).await {
                    let (user, error) = (&log.owner, describe(&fault));
                    tracing::debug!(user, error, "a capsule cannot be looked after now");
                }
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = self.bell.0.notified() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }

    async fn look(
        &self,
        all: &mut HashMap<LogId, Known>,
        log: &LogInfo,
        is_early: bool,
        cancelled: &Arc<AtomicBool>,
    ) -> Result<(), Fault> {
        let Some(stream) = stream_of(&log.owner) else {
            return Ok(());
        };
        let known = all.entry(log.id).or_insert_with(|| Known {
            fold: Fold::new(log.id, stream),
            pos: 0,
            boxes: BTreeSet::new(),
            has_saved: false,
        });
        known.fold.refresh(&*self.store).await?;
        known.look_through(&*self.store).await?;
        let state = &known.fold.state;
        let now_ms = self.clock.now_us() / 1_000;
        let is_due = |last_ms: i64| {
            let every = self.every.map(|every| every.as_millis());
            every.is_some_and(|every| {
                now_ms.saturating_sub(last_ms) >= i64::try_from(every).unwrap_or(i64::MAX)
            })
        };
        let is_owed = state.owed.is_some();
        let wants_sweep = is_owed || !is_early && is_due(state.swept_ms);
        let wants_check = !is_early && is_due(state.checked_ms);
        if !(wants_sweep || wants_check) || !is_owed && !known.has_saved {
            return Ok(());
        }
        // One process at a time; two would do each other no harm, only work for nothing.
        let name = format!("sweep/{}", log.owner);
        let Some(tenure) = self.owners.take(&name).await? else {
            return Ok(());
        };
        let done = async {
            known.fold.refresh(&*self.store).await?;
            let state = &known.fold.state;
            if state.owed.is_some() || !is_early && is_due(state.swept_ms) {
                self.sweep(known, log, cancelled).await?;
            }
            let checked_ms = known.fold.state.checked_ms;
            if !is_early && is_due(checked_ms) && known.has_saved {
                self.check(&mut known.fold, log, cancelled).await?;
            }
            Ok(())
        };
        let done = done.await;
        tenure.release().await;
        done
    }

    async fn sweep(
        &self,
        known: &mut Known,
        log: &LogInfo,
        cancelled: &Arc<AtomicBool>,
    ) -> Result<(), Fault> {
        known.look_through(&*self.store).await?;
        let fold = &mut known.fold;
        if fold.state.owed.is_none() {
            let command = CommandId(self.ids.draw());
            let request = Command::RequestSweep {
                sweep_id: sweep_id(command),
                reason: reason::SCHEDULE,
            };
            self.execute(fold, &request, command).await?;
        }
        let Some(owed) = fold.state.owed.clone() else {
            return Ok(());
        };
        let kept = self.prune(log, &known.boxes, fold.state.rule).await?;
        let (place, user) = (self.place.clone(), log.owner.clone());
        let (told, planned) = oneshot::channel();
        let (go, gone) = mpsc::channel::<()>();
        let options = sweep::Options {
            cancelled: Some(cancelled.clone()),
            ..options(&kept)
        };
        let work = move || carry_out((&place, &user), &kept.dropped, &options, told, &gone);
        let work = tokio::task::spawn_blocking(work);
        // Without one the work has failed, and says so.
        if let Ok(plan) = planned.await {
            let plan = Command::Plan(written(&owed.id, &plan));
            self.report(fold, &plan).await?;
            go.send(()).map_err(|_| Fault::Lost)?;
        }
        let ended_ms = self.clock.now_us() / 1_000;
        let report = match work.await.map_err(|_| Fault::Lost)? {
            Ok(done) => {
                tracing::info!(user = log.owner, swept = ?done.swept, "a capsule was swept");
                Command::Swept(CapsuleSwept {
                    sweep_id: owed.id,
                    generation: done.swept.generation,
                    packs_deleted: done.swept.packs_deleted,
                    bytes_deleted: done.swept.bytes_deleted,
                    records_deleted: done.swept.records_deleted,
                    objects: done.objects,
                    bytes: done.bytes,
                    ended_ms,
                })
            }
            // It stays owed.
            Err(PlaceError::Capsule(Error::Cancelled)) => return Ok(()),
            // Nothing was saved yet, or the user is gone.
            Err(PlaceError::Capsule(Error::NoCapsule)) => Command::Swept(CapsuleSwept {
                sweep_id: owed.id,
                ended_ms,
                ..CapsuleSwept::default()
            }),
            Err(error) => {
                let words = describe(&error);
                tracing::warn!(user = log.owner, error = words, "a capsule was not swept");
                Command::Fail {
                    sweep_id: owed.id,
                    reason: failure::reason(&error),
                    ended_ms,
                }
            }
        };
        self.report(fold, &report).await
    }

    async fn check(
        &self,
        fold: &mut Fold<capsule::State>,
        log: &LogInfo,
        cancelled: &Arc<AtomicBool>,
    ) -> Result<(), Fault> {
        let (place, user) = (self.place.clone(), log.owner.clone());
        let slice = fold.state.next_slice % capsule::SLICES;
        let flag = cancelled.clone();
        let work = move || checker::check(&place, &user, slice, &flag);
        let work = tokio::task::spawn_blocking(work);
        match work.await.map_err(|_| Fault::Lost)? {
            Ok(mut checked) => {
                checked.ended_ms = self.clock.now_us() / 1_000;
                if checked.damaged > 0 {
                    let (objects, snapshots) = (checked.damaged, checked.snapshots.len());
                    tracing::error!(user = log.owner, objects, snapshots, "a capsule is damaged");
                }
                self.report(fold, &Command::Checked(checked)).await
            }
            Err(PlaceError::Capsule(Error::Cancelled)) => Ok(()),
            Err(error) => {
                let error = describe(&error);
                tracing::warn!(user = log.owner, error, "a capsule was not checked");
                Ok(())
            }
        }
    }

    /// Drops what the rule does not keep, of every box, and answers what is kept then.
    async fn prune(
        &self,
        log: &LogInfo,
        boxes: &BTreeSet<String>,
        rule: snapshot::Rule,
    ) -> Result<Kept, Fault> {
        let mut kept = Kept::default();
        let now_ms = self.clock.now_us() / 1_000;
        for (mut fold, held) in snapshots_of(&*self.store, log.id, boxes).await? {
            let prune = snapshot::Command::Prune { rule, now_ms, held };
            let command = CommandId(self.ids.draw());
            for event in self.execute(&mut fold, &prune, command).await? {
                if let SnapshotEvent::Pruned(pruned) = event {
                    let ids = pruned.snapshot_ids.iter();
                    kept.dropped
                        .extend(ids.filter_map(|id| SnapshotId::parse(id)));
                }
            }
            kept.count(&fold.state);
        }
        Ok(kept)
    }

    /// Reports a fact, once for the state that it follows. A report that comes too late is dropped.
    async fn report(
        &self,
        fold: &mut Fold<capsule::State>,
        command: &Command,
    ) -> Result<(), Fault> {
        let step = format!("{command:?}");
        let seed = fold.last.map(|id| *id.as_bytes()).unwrap_or_default();
        match self
            .execute(fold, command, CommandId::derive(&seed, &step))
            .await
        {
            Err(Fault::Capsule(Execute::Rejected(rejection))) => {
                tracing::debug!(%rejection, "report came too late");
                Ok(())
            }
            executed => executed.map(drop),
        }
    }

    async fn execute<A>(
        &self,
        fold: &mut Fold<A>,
        command: &A::Command,
        id: CommandId,
    ) -> Result<Vec<A::Event>, Fault>
    where
        A: Aggregate,
        A::Command: std::fmt::Debug,
        Fault: From<Execute<A::Rejection>>,
    {
        let digest = *blake3::hash(format!("{command:?}").as_bytes()).as_bytes();
        let meta = Meta {
            command: id,
            actor: Actor {
                kind: actor::Kind::System.into(),
                id: "capsule".into(),
            },
            cause: fold.last,
        };
        let mut tries = 1;
        loop {
            match fold.execute(&*self.store, command, &meta, digest).await {
                Err(Execute::Append(AppendError::Conflict { .. })) if tries < TRIES_MAX => {
                    tries += 1;
                }
                executed => return Ok(executed?.events),
            }
        }
    }
}

impl Kept {
    pub(super) fn count(&mut self, state: &snapshot::State) {
        let ids = state.kept.keys();
        self.ids.extend(ids.filter_map(|id| SnapshotId::parse(id)));
        self.is_saving |= state.saves.iter().any(|save| save.has_begun);
    }
}

impl Known {
    /// Reads on in the log.
    async fn look_through(&mut self, store: &dyn Store) -> Result<(), Fault> {
        loop {
            let page = store.read(self.fold.log, self.pos, PAGE_EVENTS_MAX).await?;
            let Some(last) = page.events.last() else {
                return Ok(());
            };
            self.pos = last.pos;
            for event in &page.events {
                let mut name = event.stream.as_str().split('/');
                if matches!(name.next(), Some("box" | "snapshot")) {
                    self.boxes.insert(event.stream.id().to_owned());
                }
                self.has_saved |= event.kind == Kind::SnapshotCommitted.number();
            }
        }
    }
}

/// The snapshots of each of these boxes, and which of them other boxes are being made from.
pub(super) async fn snapshots_of(
    store: &dyn Store,
    log: LogId,
    boxes: &BTreeSet<String>,
) -> Result<Vec<(Fold<snapshot::State>, BTreeSet<String>)>, Fault> {
    let mut held: HashMap<String, BTreeSet<String>> = HashMap::new();
    let mut folds = Vec::new();
    for id in boxes {
        let name = |noun: &str| StreamName::new(format!("{noun}/{id}"));
        let (Ok(boxed), Ok(saved)) = (name("box"), name("snapshot")) else {
            continue;
        };
        let mut boxed = Fold::<boxes::State>::new(log, boxed);
        boxed.refresh(store).await?;
        if let Some(origin) = boxed.state.origin.clone()
            && boxed.state.is_new_from_a_moment()
        {
            let of = held.entry(origin.box_id).or_default();
            of.extend(origin.snapshot_id);
        }
        let mut saved = Fold::<snapshot::State>::new(log, saved);
        saved.refresh(store).await?;
        folds.push((id, saved));
    }
    let with_held = |(id, fold)| (fold, held.remove(id).unwrap_or_default());
    Ok(folds.into_iter().map(with_held).collect())
}

/// The stream of a user's capsule.
pub(super) fn stream_of(user: &str) -> Option<StreamName> {
    StreamName::new(format!("capsule/{user}")).ok()
}

/// Names the sweep that a command asks for.
pub(super) fn sweep_id(command: CommandId) -> String {
    format!("sweep-{command}")
}
