//! The lifecycle reactor: a worker per box, which acts while this replica has the box's lease.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use cocoonbox_commands::boxes::{self, Command, Debt, Phase};
use cocoonbox_events::{
    Clock, CommandId, Execute, Fold, Ids, LogId, Meta, ReadError, Store, StreamName, limits,
    store::LogKind,
};
use cocoonbox_proto::log::v1::{Actor, actor};

use super::{Api, machine::Fault};
use crate::{
    control::LEASE_MS,
    host::{HostError, Spec},
    net::Place,
    scheduler::lock,
};

/// Starts of a machine before an operation is called failed.
const ATTEMPTS_MAX: u32 = 3;
/// From a started machine to a box that was released.
const READY_MS: i64 = 10_000;
/// Writing down what is under way and copying it out.
const QUIESCE_MS: i64 = 6_000;

/// A lease as its holder believes in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lease {
    pub(super) term: u64,
    /// By this replica's own clock, which may jump.
    until_us: i64,
}

struct Worker {
    api: Arc<Api>,
    user: String,
    box_id: String,
    lease: Option<Lease>,
    attempts: u32,
}

impl Api {
    /// Finds boxes and gives each a worker.
    pub(super) async fn react(self: Arc<Self>) {
        let mut cursors: BTreeMap<LogId, u64> = BTreeMap::new();
        loop {
            self.breathe().await;
            let mut found: BTreeSet<(String, String)> = BTreeSet::new();
            for log in self.store.logs() {
                if log.kind != LogKind::Account || log.moved_to.is_some() {
                    continue;
                }
                let after = cursors.entry(log.id).or_default();
                while *after < log.tail.pos {
                    let page = self.store.read(log.id, *after, limits::PAGE_EVENTS_MAX);
                    let Ok(page) = page.await else { break };
                    let Some(last) = page.events.last() else {
                        break;
                    };
                    *after = last.pos;
                    let moved = page.events.iter().map(|event| &event.stream);
                    let boxes = moved.filter(|stream| stream.as_str().starts_with("box/"));
                    found.extend(boxes.map(|s| (log.owner.clone(), s.id().to_owned())));
                }
            }
            // Machines that no log names are somebody's debt, too.
            found.extend(self.host.list().into_iter().map(|(id, s)| (s.owner, id)));
            for (user, box_id) in found {
                let is_new = lock(&self.state).workers.insert(box_id.clone());
                if is_new {
                    let worker = Worker {
                        api: Arc::clone(&self),
                        user,
                        box_id,
                        lease: None,
                        attempts: 0,
                    };
                    self.sim.spawn(self.life, worker.run());
                }
            }
            let pause = self.sim.draw(|chance| chance.between(100, 500));
            self.sim.sleep_ms(pause).await;
        }
    }

    /// Takes or prolongs a lease.
    async fn take_lease(&self, name: &str) -> Option<Lease> {
        let asked_us = self.clock.now_us();
        let (control, name) = (Arc::clone(&self.control), name.to_owned());
        let holder = format!("{}/{:?}", self.place, self.life);
        let taken = self.net.call(self.place, Place::Control, move || {
            let (control, name, holder) = (Arc::clone(&control), name.clone(), holder.clone());
            async move { control.lease(&name, &holder) }
        });
        let term = taken.await.ok()??;
        Some(Lease {
            term,
            until_us: asked_us + LEASE_MS * 900,
        })
    }
}

impl Worker {
    async fn run(mut self) {
        loop {
            self.api.breathe().await;
            let now = self.api.clock.now_us();
            let held = self.lease.filter(|lease| now < lease.until_us);
            let due = held.is_none_or(|lease| lease.until_us - now < LEASE_MS * 500);
            if due {
                let name = format!("box/{}", self.box_id);
                let taken = self.api.take_lease(&name).await;
                if taken.is_some() || held.is_none() {
                    self.lease = taken;
                }
            }
            let now = self.api.clock.now_us();
            let Some(lease) = self.lease.filter(|lease| now < lease.until_us) else {
                self.api.detach(&self.box_id);
                let pause = self.api.sim.draw(|chance| chance.between(300, 2_000));
                self.api.sim.sleep_ms(pause).await;
                continue;
            };
            let stepped = self.step(lease).await;
            let pause = match stepped {
                Ok(()) => self.api.sim.draw(|chance| chance.between(20, 300)),
                Err(fault) => {
                    self.api
                        .note(|| format!("{}: {fault:?} (term {})", self.box_id, lease.term));
                    if fault == Fault::Host(HostError::Overtaken) {
                        self.lease = None;
                    }
                    self.api.sim.draw(|chance| chance.between(100, 800))
                }
            };
            self.api.sim.sleep_ms(pause).await;
        }
    }

    /// Does one thing that is owed.
    async fn step(&mut self, lease: Lease) -> Result<(), Fault> {
        let mut fold = self.fold()?;
        fold.refresh(&self.api.store)
            .await
            .map_err(|error| Fault::Store(error.to_string()))?;
        let standing = self.api.host.get(&self.box_id);
        let running = standing.as_ref().and_then(|s| s.wake.clone());
        match fold.state.owed() {
            Some(Debt::Start { wake, .. }) => self.start(&mut fold, lease, wake).await,
            Some(Debt::Stop { wake, .. }) => self.stop(&mut fold, lease, wake, running).await,
            Some(Debt::Remove { .. }) => {
                self.api.detach(&self.box_id);
                self.api.machine_delete(&self.box_id, lease.term).await?;
                self.report(&mut fold, Command::Deleted).await
            }
            None => match fold.state.phase.clone() {
                Phase::Running { wake } if running.as_ref() == Some(&wake) => {
                    self.supervise(&mut fold, lease, &wake).await
                }
                Phase::Running { wake } => {
                    self.api.detach(&self.box_id);
                    self.api.machine_hibernate(&self.box_id, lease.term).await?;
                    let detail = "the machine does not run any more".to_owned();
                    let wake_id = wake;
                    self.report(&mut fold, Command::MachineLost { wake_id, detail })
                        .await
                }
                // What an overtaken reactor, or a history that was given up, has left behind.
                Phase::Absent | Phase::Deleted if running.is_some() => {
                    self.api.machine_delete(&self.box_id, lease.term).await
                }
                _ if running.is_some() => {
                    self.api.machine_hibernate(&self.box_id, lease.term).await
                }
                _ => {
                    self.api.detach(&self.box_id);
                    Ok(())
                }
            },
        }
    }

    fn fold(&self) -> Result<Fold<boxes::State>, Fault> {
        let log = self.api.account(&self.user);
        let log = log.map_err(|error| Fault::Store(error.to_string()))?;
        let stream = StreamName::new(format!("box/{}", self.box_id));
        let stream = stream.map_err(|error| Fault::Store(error.to_string()))?;
        Ok(Fold::new(log, stream))
    }

    async fn start(
        &mut self,
        fold: &mut Fold<boxes::State>,
        lease: Lease,
        wake: Option<String>,
    ) -> Result<(), Fault> {
        let wake = match wake {
            Some(wake) => wake,
            None => {
                let wake = self.api.ids.draw().simple().to_string()[..10].to_owned();
                let command = Command::Starting {
                    wake_id: wake.clone(),
                    image: "sim".to_owned(),
                };
                self.report(fold, command).await?;
                wake
            }
        };
        match self.bring_up(fold, lease, &wake).await {
            Ok(()) => {
                self.attempts = 0;
                let command = Command::Running {
                    wake_id: wake,
                    agent_version: "sim".to_owned(),
                };
                self.report(fold, command).await
            }
            Err(fault @ Fault::Host(HostError::Overtaken)) => Err(fault),
            Err(fault) => {
                self.attempts += 1;
                if self.attempts < ATTEMPTS_MAX {
                    return Err(fault);
                }
                self.attempts = 0;
                self.api.detach(&self.box_id);
                self.api.machine_hibernate(&self.box_id, lease.term).await?;
                let command = Command::Failed {
                    reason: "MACHINE_FAILED".to_owned(),
                    detail: format!("{fault:?}"),
                };
                self.report(fold, command).await
            }
        }
    }

    async fn bring_up(
        &mut self,
        fold: &mut Fold<boxes::State>,
        lease: Lease,
        wake: &str,
    ) -> Result<(), Fault> {
        let root = fold.state.box_log.ok_or(Fault::Down)?;
        let spec = Spec {
            box_id: self.box_id.clone(),
            owner: self.user.clone(),
            wake: wake.to_owned(),
            term: lease.term,
        };
        self.api.machine_ensure(spec).await?;
        let api = Arc::clone(&self.api);
        let ready = api.reconcile(
            &self.box_id,
            &self.user,
            (root, fold.state.parent),
            wake,
            lease.term,
        );
        let done = self.api.sim.timeout_ms(READY_MS, ready).await;
        done.ok_or(Fault::Lost)??;
        self.tell_rewinds(fold).await
    }

    async fn stop(
        &mut self,
        fold: &mut Fold<boxes::State>,
        lease: Lease,
        wake: Option<String>,
        running: Option<String>,
    ) -> Result<(), Fault> {
        let root = fold.state.box_log.ok_or(Fault::Down)?;
        let mut is_quiesced = false;
        if let (Some(wake), true) = (&wake, running == wake && running.is_some()) {
            let api = Arc::clone(&self.api);
            let quiesced = api.quiesce(&self.box_id, root, wake, lease.term);
            let done = self.api.sim.timeout_ms(QUIESCE_MS, quiesced).await;
            is_quiesced = matches!(done, Some(Ok(())));
            if !is_quiesced {
                self.api
                    .note(|| format!("{} did not quiesce: {done:?}", self.box_id));
            }
            self.anchor(fold).await?;
        }
        self.api.detach(&self.box_id);
        self.api.machine_hibernate(&self.box_id, lease.term).await?;
        self.report(
            fold,
            Command::Hibernated {
                memory_kept: false,
                quiesced: is_quiesced,
            },
        )
        .await
    }

    async fn supervise(
        &mut self,
        fold: &mut Fold<boxes::State>,
        lease: Lease,
        wake: &str,
    ) -> Result<(), Fault> {
        let root = fold.state.box_log.ok_or(Fault::Down)?;
        // After a take-over, or after an agent's own restart, the box may wait for its release.
        let api = Arc::clone(&self.api);
        api.reconcile(
            &self.box_id,
            &self.user,
            (root, fold.state.parent),
            wake,
            lease.term,
        )
        .await?;
        self.tell_rewinds(fold).await?;
        if self.api.sim.draw(|chance| chance.happens(100)) {
            self.anchor(fold).await?;
        }
        Ok(())
    }

    /// Says in the account log in which log the box's history goes on.
    async fn tell_rewinds(&mut self, fold: &mut Fold<boxes::State>) -> Result<(), Fault> {
        while let Some(log) = fold.state.box_log {
            let store = |error: ReadError| Fault::Store(error.to_string());
            let left = self.api.store.info(log).map_err(store)?;
            let Some(new_log) = left.moved_to else {
                return Ok(());
            };
            let Some(parent) = self.api.store.info(new_log).map_err(store)?.parent else {
                return Ok(());
            };
            let command = Command::LogRewound {
                new_log,
                parent,
                left_pos: left.tail.pos,
                reason: "DISK_REPLACED".to_owned(),
            };
            self.report(fold, command).await?;
            if fold.state.box_log == Some(log) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Ties the copy's tail into the account log.
    async fn anchor(&mut self, fold: &mut Fold<boxes::State>) -> Result<(), Fault> {
        let Some(root) = fold.state.box_log else {
            return Ok(());
        };
        let Ok(info) = self.api.store.info(root) else {
            return Ok(());
        };
        if info.moved_to.is_some() || info.tail.pos <= fold.state.anchored {
            return Ok(());
        }
        let command = Command::Anchor {
            box_log: root,
            pos: info.tail.pos,
            chain: info.tail.chain,
        };
        self.report(fold, command).await
    }

    /// Reports a fact under an id that follows from the last event, so that a crash between an effect
    /// and its event leads to one event.
    async fn report(
        &mut self,
        fold: &mut Fold<boxes::State>,
        command: Command,
    ) -> Result<(), Fault> {
        let step = format!("{command:?}");
        let cause = fold.last;
        let seed = cause.map(|id| *id.as_bytes()).unwrap_or_default();
        let meta = Meta {
            command: CommandId::derive(&seed, &step),
            actor: Actor {
                kind: actor::Kind::System.into(),
                id: "lifecycle".into(),
            },
            cause,
        };
        let digest = *blake3::hash(step.as_bytes()).as_bytes();
        match fold.execute(&self.api.store, &command, &meta, digest).await {
            Ok(executed) => {
                let pos = executed.key.pos;
                self.api
                    .note(|| format!("{} {} at {pos}", self.box_id, fold.state.phase.name()));
                Ok(())
            }
            Err(Execute::Rejected(_)) => Ok(()),
            Err(error) => Err(Fault::Store(error.to_string())),
        }
    }
}
