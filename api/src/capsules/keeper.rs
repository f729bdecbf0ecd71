//! The reactor: sees what logs owe to snapshots, and keeps one worker per box.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use cocoonbox_events::{
    AgentEvent, BoxEvent, Clock, Ids, Kind, LogId, LogInfo, LogKind, Payload, ReadError, Recorded,
    Store, StreamName, limits::PAGE_EVENTS_MAX,
};
use cocoonbox_machines::{BoxId, Machines};
use cocoonbox_proto::log::v1::Risk;
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    Bell, Place, Progress,
    worker::{Wish, Worker},
};
use crate::{lease::Owners, status::describe};

/// A doorbell can be missed only with the process; this is the second look.
const LOOK: Duration = Duration::from_secs(1);
/// What happens within this is looked at together: a model's words are many events.
const PAUSE: Duration = Duration::from_millis(50);
/// Saves at once in one process: each takes half of the host's cores and up to 150 MB.
pub const SAVES_MAX: usize = 2;

/// When boxes are saved that nobody asks to save.
#[derive(Clone, Copy, Debug)]
pub struct When {
    /// While a box runs; `None` = never.
    pub every: Option<Duration>,
    /// When a turn has ended that may have written files.
    pub after_turns: bool,
    /// When a box has gone to sleep.
    pub asleep: bool,
}

/// What the reactor works with.
pub struct Parts {
    pub store: Arc<dyn Store>,
    pub machines: Arc<dyn Machines>,
    pub owners: Owners,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
    pub place: Place,
    pub progress: Progress,
    pub when: When,
    pub permits: Arc<Semaphore>,
    /// Rung when something is asked of a whole capsule.
    pub sweeps: Bell,
    /// What the capsule of a user may take in the store; `None` = as much as it likes.
    pub quota_bytes: Option<u64>,
}

struct Driven {
    wish: Arc<Wish>,
    stop: CancellationToken,
}

/// Watches every log and keeps one worker per box.
pub struct Keeper {
    parts: Arc<Parts>,
    cursors: HashMap<LogId, u64>,
    workers: HashMap<(LogId, String), Driven>,
    /// Whose log a box log is.
    boxes: HashMap<LogId, (LogId, String)>,
    /// Turns under way that have called a tool which does more than read.
    writing: HashSet<(LogId, String)>,
    tracker: TaskTracker,
}

impl Keeper {
    pub fn new(parts: Parts) -> Self {
        Self {
            parts: Arc::new(parts),
            cursors: HashMap::new(),
            workers: HashMap::new(),
            boxes: HashMap::new(),
            writing: HashSet::new(),
            tracker: TaskTracker::new(),
        }
    }

    /// Runs until stopped. A save that is under way ends without a result and is begun again by whoever comes next.
    pub async fn run(mut self, stop: CancellationToken) {
        // What agents did before is seen by the next save all the same.
        for log in self.parts.store.logs() {
            if log.kind == LogKind::Box {
                self.cursors.insert(log.id, log.tail.pos);
            }
        }
        let mut bell = self.parts.store.any_doorbell();
        while !stop.is_cancelled() {
            bell.mark_unchanged();
            self.look(&stop).await;
            tokio::select! {
                () = stop.cancelled() => {}
                _ = tokio::time::timeout(LOOK, bell.changed()) => tokio::time::sleep(PAUSE).await,
            }
        }
        self.tracker.close();
        self.tracker.wait().await;
    }

    async fn look(&mut self, stop: &CancellationToken) {
        for log in self.parts.store.logs() {
            if stop.is_cancelled() {
                return;
            }
            if log.moved_to.is_some() {
                self.leave(&log);
                continue;
            }
            let looked = match log.kind {
                LogKind::Account => self.look_at(&log, Some(stop)).await,
                LogKind::Box => self.look_at(&log, None).await,
                LogKind::System => Ok(()),
            };
            // The lifecycle says when the store does not answer.
            if let Err(error) = looked {
                tracing::debug!(log = %log.id, error = describe(&error), "log cannot be read now");
            }
        }
    }

    async fn look_at(
        &mut self,
        log: &LogInfo,
        account: Option<&CancellationToken>,
    ) -> Result<(), ReadError> {
        loop {
            let after = self.cursors.get(&log.id).copied().unwrap_or(0);
            if after >= log.tail.pos {
                return Ok(());
            }
            let page = self
                .parts
                .store
                .read(log.id, after, PAGE_EVENTS_MAX)
                .await?;
            let Some(last) = page.events.last() else {
                return Ok(());
            };
            self.cursors.insert(log.id, last.pos);
            let mut moved: HashSet<StreamName> = HashSet::new();
            for event in &page.events {
                match account {
                    Some(_) => self.of_account(log.id, event, &mut moved),
                    None => self.of_box(log.id, event),
                }
            }
            if let Some(stop) = account {
                for stream in moved {
                    self.poke(log.id, &stream, stop);
                }
            }
        }
    }

    fn of_account(&mut self, account: LogId, event: &Recorded, moved: &mut HashSet<StreamName>) {
        let noun = event.stream.as_str().split('/').next();
        match noun {
            Some("box" | "snapshot") => drop(moved.insert(event.stream.clone())),
            Some("capsule") => self.parts.sweeps.ring(),
            _ => {}
        }
        let box_log = match Kind::from_number(event.kind) {
            Some(Kind::BoxCreated | Kind::BoxLogRewound) => match event.payload() {
                Ok(Some(Payload::Box(BoxEvent::Created(created)))) => created.box_log,
                Ok(Some(Payload::Box(BoxEvent::LogRewound(rewound)))) => rewound.new_log,
                _ => return,
            },
            _ => return,
        };
        if let Some(log) = LogId::from_slice(&box_log) {
            let id = event.stream.id().to_owned();
            self.boxes.insert(log, (account, id));
        }
    }

    /// What a box writes may be a lie, which costs it a look at its files.
    fn of_box(&mut self, log: LogId, event: &Recorded) {
        let agent = || match event.payload() {
            Ok(Some(Payload::Agent(event))) => Some(event),
            _ => None,
        };
        match Kind::from_number(event.kind) {
            Some(Kind::AgentToolCalled) => {
                if let Some(AgentEvent::ToolCalled(call)) = agent()
                    && call.risk() != Risk::Read
                {
                    self.writing.insert((log, call.turn_id));
                }
            }
            Some(Kind::AgentTurnEnded) => {
                if let Some(AgentEvent::TurnEnded(ended)) = agent()
                    && self.writing.remove(&(log, ended.turn_id))
                    && let Some(of) = self.boxes.get(&log)
                    && let Some(driven) = self.workers.get(of)
                {
                    driven.wish.turn.store(true, Ordering::SeqCst);
                    driven.wish.bell.notify_one();
                }
            }
            _ => {}
        }
    }

    /// Ends the workers of a log that goes on as another one.
    fn leave(&mut self, log: &LogInfo) {
        self.writing.retain(|(of, _)| *of != log.id);
        self.workers.retain(|(account, _), driven| {
            if *account == log.id {
                driven.stop.cancel();
            }
            *account != log.id
        });
    }

    fn poke(&mut self, account: LogId, stream: &StreamName, stop: &CancellationToken) {
        let Ok(id) = BoxId::new(stream.id()) else {
            return;
        };
        let key = (account, id.to_string());
        if let Some(driven) = self.workers.get(&key) {
            driven.wish.bell.notify_one();
            return;
        }
        let wish = Arc::<Wish>::default();
        let Some(worker) = Worker::new(self.parts.clone(), account, id, wish.clone()) else {
            return;
        };
        let stop = stop.child_token();
        self.tracker.spawn(worker.run(stop.clone()));
        self.workers.insert(key, Driven { wish, stop });
    }
}
