//! A store, views and a runner, and how to write and wait.

use std::{path::PathBuf, sync::Arc, time::Duration};

use cocoonbox_events::{
    AgentEvent, Append, BoxEvent, CommandId, Expect, LogEvent, LogId, LogKind, ManualClock,
    MemoryStore, NewEvent, NewLog, OffsetKey, Payload, Store, StreamName, SystemIds, UsageEvent,
};
use cocoonbox_projections::{Projection, Report, Runner, Views, all, rebuild_and_compare};
use cocoonbox_proto::log::v1::{
    Actor, AgentPromptReceived, LogErasureDone, LogErasureRequested, UsageModelCalled, actor,
};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Far more than any wait needs on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);
pub(crate) const USER: &str = "user-1";

pub(crate) struct World {
    dir: TempDir,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) views: Views,
    pub(crate) stop: CancellationToken,
    pub(crate) runner: Option<JoinHandle<()>>,
}

impl World {
    pub(crate) fn new() -> Self {
        let mut world = Self::idle();
        world.start();
        world
    }

    /// A world whose runner does not run.
    pub(crate) fn idle() -> Self {
        Self::idle_with(all())
    }

    pub(crate) fn idle_with(projections: Vec<Box<dyn Projection>>) -> Self {
        let dir = TempDir::new().unwrap();
        let clock = Arc::new(ManualClock::at(1_700_000_000_000_000));
        let store = Arc::new(MemoryStore::new(clock.clone(), Arc::new(SystemIds)));
        let views = Views::open_with(&dir.path().join("views.db"), projections).unwrap();
        Self {
            dir,
            clock,
            store,
            views,
            stop: CancellationToken::new(),
            runner: None,
        }
    }

    /// A world over another store, whose runner does not run.
    pub(crate) fn over(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            ..Self::idle()
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("views.db")
    }

    pub(crate) fn start(&mut self) {
        let runner = Runner::new(self.store.clone(), self.views.clone());
        self.stop = CancellationToken::new();
        self.runner = Some(tokio::spawn(runner.run(self.stop.clone())));
    }

    /// Drops the runner where it stands. What it does with the file goes on behind its back.
    pub(crate) async fn kill(&mut self) {
        if let Some(runner) = self.runner.take() {
            runner.abort();
            assert!(runner.await.is_err_and(|error| error.is_cancelled()));
        }
    }

    pub(crate) async fn stop(&mut self) {
        self.stop.cancel();
        if let Some(runner) = self.runner.take() {
            tokio::time::timeout(DEADLINE, runner)
                .await
                .unwrap()
                .unwrap();
        }
    }

    /// Ends the runner and goes on with other projections on the same file.
    pub(crate) async fn restart_with(&mut self, projections: Vec<Box<dyn Projection>>) {
        self.stop().await;
        self.views = Views::open_with(&self.path(), projections).unwrap();
        self.start();
    }

    pub(crate) async fn open(&self, kind: LogKind, owner: &str) -> LogId {
        let id = LogId(Uuid::now_v7());
        let log = NewLog {
            id,
            kind,
            owner: owner.to_owned(),
            parent: None,
        };
        self.store.open(log).await.unwrap();
        id
    }

    pub(crate) async fn account(&self) -> LogId {
        self.open(LogKind::Account, USER).await
    }

    pub(crate) async fn write(
        &self,
        log: LogId,
        stream: &str,
        payload: impl Into<Payload>,
    ) -> OffsetKey {
        let append = Append {
            command: CommandId(Uuid::now_v7()),
            digest: [0; 32],
            expect: vec![(StreamName::new(stream).unwrap(), Expect::Any)],
            events: vec![NewEvent {
                stream: StreamName::new(stream).unwrap(),
                payload: payload.into(),
            }],
            actor: Actor {
                kind: actor::Kind::User.into(),
                id: USER.to_owned(),
            },
            cause: None,
        };
        let range = self.store.append(log, append).await.unwrap().range();
        OffsetKey::new(log, range.last, range.chain)
    }

    pub(crate) async fn write_box(&self, log: LogId, id: &str, event: BoxEvent) -> OffsetKey {
        self.write(log, &format!("box/{id}"), event).await
    }

    pub(crate) async fn write_agent(&self, log: LogId, id: &str, event: AgentEvent) -> OffsetKey {
        self.write(log, &format!("agent/{id}"), event).await
    }

    pub(crate) async fn write_usage(&self, log: LogId, day: &str, call: UsageModelCalled) {
        self.write(log, &format!("usage/{day}"), UsageEvent::ModelCalled(call))
            .await;
    }

    pub(crate) async fn erase(&self, log: LogId, positions: &[u64]) -> OffsetKey {
        let positions = positions.to_vec();
        let requested = LogErasureRequested {
            positions: positions.clone(),
            reason: "asked".to_owned(),
            ..LogErasureRequested::default()
        };
        self.write(log, "log/erasure", LogEvent::ErasureRequested(requested))
            .await;
        self.store.erase(log, &positions).await.unwrap();
        let done = LogErasureDone { positions };
        self.write(log, "log/erasure", LogEvent::ErasureDone(done))
            .await
    }

    pub(crate) async fn seen(&self, key: &OffsetKey) {
        self.views.at_least(key, DEADLINE).await.unwrap();
    }

    /// Waits until something is so; looks again after every page that is taken in.
    pub(crate) async fn until(&self, mut so: impl FnMut(&Views) -> bool) {
        let mut changed = self.views.changed();
        let waiting = async {
            while !so(&self.views) {
                changed.changed().await.unwrap();
            }
        };
        tokio::time::timeout(DEADLINE, waiting).await.unwrap();
    }

    /// Waits until every log is taken in, then folds everything anew and compares.
    pub(crate) async fn settle(&self) -> Report {
        for log in self.store.logs() {
            if log.kind != LogKind::System {
                let tail = log.tail;
                self.seen(&OffsetKey::new(tail.log, tail.pos, tail.chain))
                    .await;
            }
        }
        rebuild_and_compare(&*self.store, &self.views)
            .await
            .unwrap()
    }
}

pub(crate) fn prompt(text: &str) -> AgentEvent {
    AgentEvent::PromptReceived(AgentPromptReceived {
        prompt_id: String::new(),
        text: text.to_owned(),
        ..AgentPromptReceived::default()
    })
}
