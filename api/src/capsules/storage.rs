//! How much is kept, by which rule, and what is pinned.

use std::collections::BTreeSet;

use cocoonbox_capsule::{Error, SnapshotId, snapshot as record};
use cocoonbox_commands::{
    capsule::{self, reason},
    snapshot::{self, Rule},
};
use cocoonbox_events::{Aggregate, AppendError, CommandId, Execute, Executed, Fold, LogId, Meta};
use cocoonbox_proto::control::v1::{
    PinRequest, PruneProgress, PruneRequest, Retention, SetRetentionRequest, Snapshot, Storage,
    prune_progress,
};
use futures::{Stream, stream};
use tonic::{Code, Status};

use super::{
    Place, PlaceError, failure,
    service::{Capsules, Own, TRIES_MAX, digest},
    sweeper::{self, Kept},
    swept::Swept,
};
use crate::{auth::Caller, status, stream as offsets, users::asked};

/// What is done to a snapshot.
#[derive(Clone, Copy, Debug)]
pub(super) enum Deed {
    Pin,
    Unpin,
    Forget,
}

impl Capsules {
    pub(super) async fn do_to_snapshot(
        &self,
        caller: &Caller,
        request: PinRequest,
        deed: Deed,
    ) -> Result<Snapshot, Status> {
        let own = self.own(caller, &request.box_id).await?;
        let asked = asked(&request.command_id, &*self.ids)?;
        let digest = digest(&format!("{deed:?} {:?}", request.at));
        let mut row = self.find(&own, request.at.as_ref()).await?;
        let snapshot_id = row.id.clone();
        let command = match deed {
            Deed::Pin | Deed::Unpin => snapshot::Command::Pin {
                snapshot_id,
                is_pinned: matches!(deed, Deed::Pin),
            },
            Deed::Forget => snapshot::Command::Forget { snapshot_id },
        };
        let stream = own.stream()?;
        let mut fold = Fold::<snapshot::State>::new(own.account, stream);
        let of = (asked.command, digest);
        let done = self.execute(&mut fold, caller, of, &command).await;
        let done = done.map_err(|error| status::from_execute(error, super::service::rejected))?;
        let seen = self.views.at_least(&done.key, offsets::AT_LEAST).await;
        seen.map_err(|_| offsets::behind())?;
        if matches!(deed, Deed::Forget) {
            self.remove_record(&own, &row.id).await?;
        } else {
            row.pinned = matches!(deed, Deed::Pin);
        }
        Ok(row.into())
    }

    /// Deletes what the log does not know any more. Left by a crash, it is found by a sweep.
    async fn remove_record(&self, own: &Own, id: &str) -> Result<(), Status> {
        let (place, user, id) = (self.place.clone(), own.user.clone(), id.to_owned());
        let remove = move || {
            let Some(id) = SnapshotId::parse(&id) else {
                return Ok(());
            };
            let capsule = place.open(&user)?;
            let removed = capsule.store().delete(&record::object(id));
            removed.map_err(|error| PlaceError::from(Error::from(error)))
        };
        let removed = tokio::task::spawn_blocking(remove).await;
        let removed = removed.map_err(|error| status::internal(&error))?;
        removed.map_err(failure::answer)
    }

    pub(super) async fn storage(&self, caller: &Caller, at_least: &str) -> Result<Storage, Status> {
        let (user, account) = self.account(caller)?;
        if !at_least.is_empty() {
            offsets::seen(&*self.store, &self.views, account, at_least).await?;
        }
        let fold = self.of_user(user, account).await?;
        self.told(user, fold).await
    }

    pub(super) async fn keep_by(
        &self,
        caller: &Caller,
        request: SetRetentionRequest,
    ) -> Result<Storage, Status> {
        let (user, account) = self.account(caller)?;
        let asked = asked(&request.command_id, &*self.ids)?;
        let rule = request.retention.map_or_else(Rule::default, rule);
        let command = capsule::Command::SetRule(rule);
        let digest = digest(&format!("{command:?}"));
        let mut fold = self.of_user(user, account).await?;
        let of = (asked.command, digest);
        let done = self.execute(&mut fold, caller, of, &command).await;
        done.map_err(|error| status::from_execute(error, rejected))?;
        self.told(user, fold).await
    }

    pub(super) async fn prune_now(
        &self,
        caller: &Caller,
        request: PruneRequest,
    ) -> Result<impl Stream<Item = Result<PruneProgress, Status>> + Send + use<>, Status> {
        let (user, account) = self.account(caller)?;
        if !self.place.is_usable() {
            return Err(failure::answer(PlaceError::NoFolder));
        }
        let mut fold = self.of_user(user, account).await?;
        if request.dry_run {
            let plan = self.planned(user, account, fold.state.rule).await?;
            return Ok(futures::future::Either::Left(stream::iter([Ok(plan)])));
        }
        let asked = asked(&request.command_id, &*self.ids)?;
        let command = capsule::Command::RequestSweep {
            sweep_id: sweeper::sweep_id(asked.command),
            reason: reason::ASKED,
        };
        let digest = digest(&format!("{command:?}"));
        let seq = fold.seq;
        let of = (asked.command, digest);
        let done = self.execute(&mut fold, caller, of, &command).await;
        let done = done.map_err(|error| status::from_execute(error, rejected))?;
        // It may be that one was owed already: then that one is what is followed.
        let id = match &fold.state.owed {
            Some(owed) => owed.id.clone(),
            None => sweeper::sweep_id(asked.command),
        };
        let swept = Swept {
            store: self.store.clone(),
            account,
            stream: fold.stream.clone(),
            id,
            seq: if done.replayed || done.events.is_empty() {
                0
            } else {
                seq
            },
            stop: self.stop.clone(),
        };
        Ok(futures::future::Either::Right(swept.into_stream()))
    }

    /// What a pruning would do now.
    async fn planned(
        &self,
        user: &str,
        account: LogId,
        rule: Rule,
    ) -> Result<PruneProgress, Status> {
        let boxes = self.boxes(user, account).await?;
        let now_ms = self.clock.now_us() / 1_000;
        let store = &*self.store;
        let folds = sweeper::snapshots_of(store, account, &boxes).await;
        let folds = folds.map_err(|error| status::internal(&error))?;
        let mut kept = Kept::default();
        let mut dropped = Vec::new();
        for (fold, held) in folds {
            let mut state = fold.state;
            let gone = snapshot::retention::dropped(&state, &rule, now_ms, &held);
            for id in &gone {
                state.kept.remove(id);
            }
            kept.count(&state);
            if !gone.is_empty() {
                let rows = self.views.all_snapshots(user, fold.stream.id()).await;
                let rows = rows.map_err(|error| status::internal(&error))?;
                dropped.extend(rows.into_iter().filter(|row| gone.contains(&row.id)));
            }
        }
        let place = self.place.clone();
        let of = user.to_owned();
        let plan = move || sweeper::look(&place, &of, kept);
        let plan = tokio::task::spawn_blocking(plan).await;
        let plan = plan.map_err(|error| status::internal(&error))?;
        let plan = plan.map_err(failure::answer)?;
        Ok(PruneProgress {
            offset_key: String::new(),
            step: Some(prune_progress::Step::Plan(prune_progress::Plan {
                dropped: dropped.into_iter().map(Into::into).collect(),
                snapshots: plan.snapshots,
                chunks_needed: plan.chunks_needed,
                chunks_dead: plan.chunks_dead,
                packs_given_up: plan.packs_given_up,
                packs_rewritten: plan.packs_rewritten,
                packs_deleted: plan.packs_deleted,
                packs_waiting: plan.packs_waiting,
            })),
        })
    }

    async fn told(&self, user: &str, fold: Fold<capsule::State>) -> Result<Storage, Status> {
        let boxes = self.boxes(user, fold.log).await?;
        let (mut snapshots, mut pinned) = (0, 0);
        for id in &boxes {
            let rows = self.views.all_snapshots(user, id).await;
            let rows = rows.map_err(|error| status::internal(&error))?;
            snapshots += rows.len() as u64;
            pinned += rows.iter().filter(|row| row.pinned).count() as u64;
        }
        let (place, of) = (self.place.clone(), user.to_owned());
        let measured = tokio::task::spawn_blocking(move || usage(&place, &of)).await;
        let measured = measured.map_err(|error| status::internal(&error))?;
        let (objects, bytes) = measured.map_err(failure::answer)?;
        let key = crate::fresh::tail(&*self.store, fold.log).await;
        let key = key.map_err(status::from_read)?;
        let state = fold.state;
        Ok(Storage {
            retention: Some(Retention {
                all_hours: state.rule.all_hours,
                hourly_days: state.rule.hourly_days,
                daily_days: state.rule.daily_days,
                weekly_days: state.rule.weekly_days,
            }),
            objects,
            bytes,
            quota_bytes: self.quota_bytes.unwrap_or(0),
            snapshots,
            pinned,
            swept_ms: state.swept_ms,
            checked_ms: state.checked_ms,
            damaged: state.damaged.iter().sum(),
            offset_key: key.to_string(),
        })
    }

    async fn boxes(&self, user: &str, account: LogId) -> Result<BTreeSet<String>, Status> {
        let key = crate::fresh::tail(&*self.store, account).await;
        let key = key.map_err(status::from_read)?;
        let seen = self.views.at_least(&key, offsets::AT_LEAST).await;
        seen.map_err(|_| offsets::behind())?;
        let rows = self.views.boxes(user).await;
        let rows = rows.map_err(|error| status::internal(&error))?;
        Ok(rows.into_iter().map(|row| row.id).collect())
    }

    pub(super) async fn of_user(
        &self,
        user: &str,
        account: LogId,
    ) -> Result<Fold<capsule::State>, Status> {
        let stream = sweeper::stream_of(user);
        let stream = stream.ok_or_else(|| status::bad_field("user", "no name of a stream"))?;
        let mut fold = Fold::new(account, stream);
        let refreshed = fold.refresh(&*self.store).await;
        refreshed.map_err(|error| status::internal(&error))?;
        Ok(fold)
    }

    /// Executes a command on a stream to which others write too.
    pub(super) async fn execute<A: Aggregate>(
        &self,
        fold: &mut Fold<A>,
        caller: &Caller,
        (command_id, digest): (CommandId, [u8; 32]),
        command: &A::Command,
    ) -> Result<Executed<A::Event>, Execute<A::Rejection>> {
        let meta = Meta {
            command: command_id,
            actor: caller.actor(),
            cause: None,
        };
        let mut tries = 1;
        loop {
            match fold.execute(&*self.store, command, &meta, digest).await {
                Err(Execute::Append(AppendError::Conflict { .. })) if tries < TRIES_MAX => {
                    tries += 1;
                }
                executed => return executed,
            }
        }
    }
}

/// What the store holds of a user's; nothing if nothing was saved. Blocks.
fn usage(place: &Place, user: &str) -> Result<(u64, u64), PlaceError> {
    match place.open(user) {
        Err(PlaceError::NoFolder | PlaceError::Capsule(Error::NoCapsule)) => Ok((0, 0)),
        opened => Ok(opened?.usage()?),
    }
}

fn rule(of: Retention) -> Rule {
    Rule {
        all_hours: of.all_hours,
        hourly_days: of.hourly_days,
        daily_days: of.daily_days,
        weekly_days: of.weekly_days,
    }
}

pub(super) fn rejected(rejection: capsule::Rejection) -> Status {
    let message = rejection.to_string();
    match rejection {
        capsule::Rejection::BadRule => status::bad_field("retention", message),
        capsule::Rejection::Empty { field } => status::bad_field(field, "is empty"),
        // Only the reactor reports; a caller cannot get here.
        capsule::Rejection::NotOwed { .. } | capsule::Rejection::NotNext { .. } => {
            status::status(Code::Aborted, "STALE", message)
        }
    }
}
