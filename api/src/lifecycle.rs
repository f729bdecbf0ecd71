//! The lifecycle reactor: does what the logs say is owed to boxes, and nothing else.
//!
//! It folds each box's stream, sees an operation that has begun and not ended, and drives the machine.
//! After a crash at any point it finds the same debt again; every effect is idempotent.

mod worker;

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use cocoonbox_commands::boxes;
use cocoonbox_events::{
    Clock, Fold, Ids, LogId, LogInfo, LogKind, ReadError, Store, StreamName, limits,
};
use cocoonbox_machines::{BoxId, Limits, MachineState, Machines};
use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    channel::Channels, config::Model, credential::Signer, door::DoorServices,
    lifecycle::worker::Worker,
};

/// A doorbell can be missed only with the process; this is the second look.
const SWEEP: Duration = Duration::from_secs(1);

/// What the reactor works with.
pub struct Context {
    pub store: Arc<dyn Store>,
    pub machines: Arc<dyn Machines>,
    pub channels: Channels,
    pub signer: Arc<Signer>,
    pub door: Arc<DoorServices>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
    pub image: PathBuf,
    pub agent: PathBuf,
    pub limits: Limits,
    pub model: Option<Model>,
}

/// Watches every account log and keeps one worker per box.
pub struct Lifecycle {
    context: Arc<Context>,
    cursors: HashMap<LogId, u64>,
    workers: HashMap<(LogId, String), Arc<Notify>>,
    tracker: TaskTracker,
}

impl Lifecycle {
    pub fn new(context: Arc<Context>) -> Self {
        Self {
            context,
            cursors: HashMap::new(),
            workers: HashMap::new(),
            tracker: TaskTracker::new(),
        }
    }

    /// Runs until stopped. Boxes go on running: the next api adopts them.
    pub async fn run(mut self, stop: CancellationToken) {
        self.remove_orphans().await;
        let mut bell = self.context.store.any_doorbell();
        while !stop.is_cancelled() {
            bell.mark_unchanged();
            for log in self.context.store.logs() {
                if log.kind == LogKind::Account
                    && let Err(error) = self.sweep(&log, &stop).await
                {
                    tracing::error!(log = %log.id, %error, "account log cannot be read");
                }
            }
            tokio::select! {
                () = stop.cancelled() => {}
                _ = tokio::time::timeout(SWEEP, bell.changed()) => {}
            }
        }
        self.tracker.close();
        self.tracker.wait().await;
    }

    /// Wakes the workers of the boxes that moved.
    async fn sweep(&mut self, log: &LogInfo, stop: &CancellationToken) -> Result<(), ReadError> {
        loop {
            let after = self.cursors.get(&log.id).copied().unwrap_or(0);
            if after >= log.tail.pos {
                return Ok(());
            }
            let page = self
                .context
                .store
                .read(log.id, after, limits::PAGE_EVENTS_MAX)
                .await?;
            let Some(last) = page.events.last() else {
                return Ok(());
            };
            self.cursors.insert(log.id, last.pos);
            let moved: HashSet<&StreamName> = page
                .events
                .iter()
                .map(|event| &event.stream)
                .filter(|stream| stream.as_str().starts_with("box/"))
                .collect();
            for stream in moved {
                self.poke(log.id, stream, stop);
            }
        }
    }

    fn poke(&mut self, account: LogId, stream: &StreamName, stop: &CancellationToken) {
        let context = &self.context;
        let tracker = &self.tracker;
        let bell = self
            .workers
            .entry((account, stream.id().to_owned()))
            .or_insert_with(|| {
                let bell = Arc::new(Notify::new());
                let fold = Fold::new(account, stream.clone());
                let worker = Worker::new(context.clone(), fold, bell.clone());
                tracker.spawn(worker.run(stop.clone()));
                bell
            });
        bell.notify_one();
    }

    /// Stops and removes machines that no log knows of or wants: what an api that was killed between
    /// an effect and its event would leave behind.
    async fn remove_orphans(&self) {
        let machines = match self.context.machines.list().await {
            Ok(machines) => machines,
            Err(error) => {
                tracing::error!(%error, "machines cannot be listed");
                return;
            }
        };
        if machines.is_empty() {
            return;
        }
        // What cannot be read is not an orphan: its disks are somebody's.
        let boxes = match self.fold_all().await {
            Ok(boxes) => boxes,
            Err(error) => {
                tracing::error!(%error, "account logs cannot be read; orphans stay");
                return;
            }
        };
        for machine in machines {
            let known = boxes.get(machine.box_id.as_str());
            let phase = match known {
                Some(None) => continue,
                Some(Some(phase)) => Some(phase),
                None => None,
            };
            let outcome = match phase {
                None | Some(boxes::Phase::Absent | boxes::Phase::Deleted) => {
                    self.context.machines.delete(&machine.box_id).await
                }
                Some(boxes::Phase::Hibernated | boxes::Phase::Failed { .. })
                    if machine.state == MachineState::Running =>
                {
                    self.context.machines.hibernate(&machine.box_id).await
                }
                Some(_) => continue,
            };
            match outcome {
                Ok(()) => tracing::info!(box_id = %machine.box_id, "orphaned machine removed"),
                Err(error) => {
                    tracing::error!(box_id = %machine.box_id, %error, "orphaned machine stays");
                }
            }
        }
    }

    /// Returns the phase of every box that any account log names; `None` where it cannot be told.
    async fn fold_all(&self) -> Result<HashMap<String, Option<boxes::Phase>>, ReadError> {
        let store = &*self.context.store;
        let mut found = HashMap::new();
        for log in store
            .logs()
            .into_iter()
            .filter(|log| log.kind == LogKind::Account)
        {
            let mut after = 0;
            let mut streams = HashSet::new();
            loop {
                let page = store.read(log.id, after, limits::PAGE_EVENTS_MAX).await?;
                let Some(last) = page.events.last() else {
                    break;
                };
                after = last.pos;
                let boxes = page.events.into_iter().map(|event| event.stream);
                streams.extend(boxes.filter(|stream| stream.as_str().starts_with("box/")));
            }
            for stream in streams {
                let id = stream.id().to_owned();
                let mut fold = Fold::<boxes::State>::new(log.id, stream);
                let phase = match fold.refresh(store).await {
                    Ok(()) => Some(fold.state.phase),
                    Err(error) => {
                        tracing::error!(box_id = id, %error, "box cannot be folded");
                        None
                    }
                };
                // Named by two logs: nobody's orphan.
                let twice = found.insert(id.clone(), phase).is_some();
                if twice {
                    found.insert(id, None);
                }
            }
        }
        Ok(found)
    }
}

/// Reads a box id out of a stream's name.
fn box_id(stream: &StreamName) -> Option<BoxId> {
    BoxId::new(stream.id()).ok()
}
