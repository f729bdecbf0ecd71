//! The lifecycle reactor: does what the logs say is owed to boxes, and nothing else.
//!
//! It folds each box's stream, sees an operation that has begun and not ended, and drives the machine.
//! After a crash at any point it finds the same debt again; every effect is idempotent.

mod attached;
mod orphans;
mod place;
mod worker;

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use cocoonbox_events::{
    Clock, Fold, Ids, LogId, LogInfo, LogKind, ReadError, Store, StreamName, limits,
};
use cocoonbox_machines::{BoxId, Limits, Machines};
use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use place::{PlaceError, settle};

use crate::{
    capsules, channel::Channels, checkpoints, config::Models, control::Desks, credential::Signer,
    door::DoorServices, images::Images, lease::Owners, lifecycle::worker::Worker,
};

/// A doorbell can be missed only with the process; this is the second look.
const SWEEP: Duration = Duration::from_secs(1);

/// What the reactor works with.
pub struct Context {
    pub store: Arc<dyn Store>,
    pub checkpoints: checkpoints::Handle,
    pub machines: Arc<dyn Machines>,
    pub owners: Owners,
    pub channels: Channels,
    pub desks: Desks,
    pub signer: Arc<Signer>,
    pub door: Arc<DoorServices>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
    pub images: Images,
    pub agent: PathBuf,
    pub limits: Limits,
    /// A box in which nothing happens for so long is put to sleep; `None` = never.
    pub idle_after: Option<Duration>,
    pub models: Option<Models>,
    /// Where files are that forks of older moments begin with.
    pub capsules: capsules::Place,
    /// Boxes are saved before their agents make calls that may destroy files.
    pub saves_first: bool,
}

/// A box that has a worker.
struct Driven {
    bell: Arc<Notify>,
    stop: CancellationToken,
}

/// Watches every account log and keeps one worker per box.
pub struct Lifecycle {
    context: Arc<Context>,
    cursors: HashMap<LogId, u64>,
    workers: HashMap<(LogId, String), Driven>,
    tracker: TaskTracker,
    /// Whether the store did not answer at the last look.
    is_blind: bool,
}

impl Lifecycle {
    pub fn new(context: Arc<Context>) -> Self {
        Self {
            context,
            cursors: HashMap::new(),
            workers: HashMap::new(),
            tracker: TaskTracker::new(),
            is_blind: false,
        }
    }

    /// Runs until stopped. Boxes go on running: the next api, or another one, adopts them.
    pub async fn run(mut self, stop: CancellationToken) {
        // Beside the work where others work too: then nothing may be touched before all logs are known.
        let context = self.context.clone();
        if context.owners.are_shared() {
            let stop = stop.clone();
            self.tracker
                .spawn(async move { orphans::remove(&context, &stop).await });
        } else {
            orphans::remove(&context, &stop).await;
        }
        let mut bell = self.context.store.any_doorbell();
        while !stop.is_cancelled() {
            bell.mark_unchanged();
            self.look(&stop).await;
            tokio::select! {
                () = stop.cancelled() => {}
                _ = tokio::time::timeout(SWEEP, bell.changed()) => {}
            }
        }
        self.tracker.close();
        self.tracker.wait().await;
    }

    /// Looks through the account logs. One that cannot be read is an error; when the store does not answer that
    /// is said once, and that it does again.
    async fn look(&mut self, stop: &CancellationToken) {
        for log in self.context.store.logs() {
            if log.kind != LogKind::Account || stop.is_cancelled() {
                continue;
            }
            if log.moved_to.is_some() {
                self.leave(&log);
                continue;
            }
            match self.sweep(&log, stop).await {
                Ok(()) => {}
                Err(ReadError::Io(error)) => {
                    if !std::mem::replace(&mut self.is_blind, true) {
                        let error = crate::status::describe(&*error);
                        tracing::warn!(error, "the store does not answer; boxes stay as they are");
                    }
                    return;
                }
                Err(error) => {
                    tracing::error!(log = %log.id, %error, "account log cannot be read");
                }
            }
        }
        if std::mem::take(&mut self.is_blind) {
            tracing::info!("the store answers again");
        }
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

    /// Ends the workers of a log that goes on as another one. Those of the branch take the boxes over.
    fn leave(&mut self, log: &LogInfo) {
        self.workers.retain(|(account, _), driven| {
            if *account == log.id {
                driven.stop.cancel();
            }
            *account != log.id
        });
    }

    fn poke(&mut self, account: LogId, stream: &StreamName, stop: &CancellationToken) {
        let context = &self.context;
        let tracker = &self.tracker;
        let driven = self
            .workers
            .entry((account, stream.id().to_owned()))
            .or_insert_with(|| {
                let bell = Arc::new(Notify::new());
                let fold = Fold::new(account, stream.clone());
                let worker = Worker::new(context.clone(), fold, bell.clone());
                let stop = stop.child_token();
                tracker.spawn(worker.run(stop.clone()));
                Driven { bell, stop }
            });
        driven.bell.notify_one();
    }
}

/// Reads a box id out of a stream's name.
fn box_id(stream: &StreamName) -> Option<BoxId> {
    BoxId::new(stream.id()).ok()
}
