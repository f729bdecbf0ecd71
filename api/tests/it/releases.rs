//! What a box that is being released goes through, with a disk that has less, other or nothing, and with an
//! api or a box that dies anywhere in between.

mod disk;
mod failing;

use std::sync::Arc;

use cocoonbox_api::{
    channel::{BoxChannel, Life},
    credential::Signer,
    replica::{self, Release},
};
use cocoonbox_commands::boxes::{self, Command, Phase};
use cocoonbox_events::{
    Append, BoxEvent, CommandId, Expect, Fold, Ids as _, LogId, LogKind, MemoryStore, Meta,
    NewEvent, NewLog, Payload, Recorded, Store, StreamName, SystemClock, SystemIds,
};
use cocoonbox_machines::BoxId;
use cocoonbox_proto::log::v1::{Actor, ExecStarted, actor};
use tokio::time::{Duration, timeout};
use tokio_util::sync::CancellationToken;

use self::{disk::Disk, failing::Failing};
use crate::wired::{AGENT, Wired};

const DEADLINE: Duration = Duration::from_secs(20);

fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new(Arc::new(SystemClock), Arc::new(SystemIds)))
}

fn drawn() -> LogId {
    LogId(SystemIds.draw())
}

/// Writes an exec that is called `name`.
async fn write(store: &dyn Store, log: LogId, name: &str) {
    let stream = StreamName::new(format!("exec/{name}")).unwrap();
    let started = cocoonbox_events::ExecEvent::Started(ExecStarted::default());
    let append = Append {
        command: CommandId(SystemIds.draw()),
        digest: [0; 32],
        expect: vec![(stream.clone(), Expect::Any)],
        events: vec![NewEvent {
            stream,
            payload: started.into(),
        }],
        actor: Actor {
            kind: actor::Kind::Box.into(),
            id: "b1".into(),
        },
        cause: None,
    };
    store.append(log, append).await.unwrap();
}

async fn read(store: &dyn Store, log: LogId) -> Vec<Recorded> {
    let mut events: Vec<Recorded> = Vec::new();
    loop {
        let after = events.last().map_or(0, |event| event.pos);
        let page = store.read(log, after, 1_000).await.unwrap();
        if page.events.is_empty() {
            return events;
        }
        events.extend(page.events);
    }
}

fn names(events: &[Recorded]) -> String {
    let names = events.iter().map(|event| event.stream.id().to_owned());
    names.collect::<Vec<_>>().join(" ")
}

/// An installation with one box, whose log has the events `a b c d`, all of them copied.
struct World {
    store: Arc<dyn Store>,
    disk: Arc<Disk>,
    account: LogId,
    log: LogId,
}

impl World {
    async fn new() -> Self {
        let (store, account, log) = (memory(), drawn(), drawn());
        let new = NewLog {
            id: account,
            kind: LogKind::Account,
            owner: "ada".into(),
            parent: None,
        };
        store.open(new).await.unwrap();
        let world = Self {
            store,
            disk: Disk::empty(),
            account,
            log,
        };
        let ensure = Command::Ensure {
            box_id: "b1".into(),
            flavor: 1,
            name: "main".into(),
            box_log: log,
            user_id: "ada".into(),
            operation_id: "op".into(),
        };
        let meta = Meta {
            command: CommandId(SystemIds.draw()),
            actor: Actor::default(),
            cause: None,
        };
        let mut fold = world.fold().await;
        fold.execute(&*world.store, &ensure, &meta, [0; 32])
            .await
            .unwrap();
        world.run().await;
        for name in ["a", "b", "c", "d"] {
            write(&*world.disk.store(), log, name).await;
        }
        world.run().await;
        assert_eq!(names(&read(&*world.store, log).await), "a b c d");
        world
    }

    async fn fold(&self) -> Fold<boxes::State> {
        let stream = StreamName::new("box/b1").unwrap();
        let mut fold = Fold::new(self.account, stream);
        fold.refresh(&*self.store).await.unwrap();
        fold
    }

    /// Releases the box anew and copies until nothing is left to be copied.
    async fn run(&self) -> LogId {
        self.run_as(false).await
    }

    async fn run_as(&self, is_untouched: bool) -> LogId {
        self.disk.restart();
        let (stop, task) = self.start(self.store.clone(), is_untouched).await;
        let copied = async {
            loop {
                if let Some(log) = self.disk.released()
                    && let (Ok(here), Ok(there)) =
                        (self.store.tail(log), self.disk.store().tail(log))
                    && here == there
                {
                    return log;
                }
                tokio::task::yield_now().await;
            }
        };
        let log = timeout(DEADLINE, copied).await.expect("copied in time");
        stop.cancel();
        task.await.unwrap();
        log
    }

    async fn start(
        &self,
        store: Arc<dyn Store>,
        is_untouched: bool,
    ) -> (CancellationToken, tokio::task::JoinHandle<()>) {
        let stream = StreamName::new("box/b1").unwrap();
        let life = Life {
            user_id: "ada".into(),
            box_id: BoxId::new("b1").unwrap(),
            wake_id: "w1".into(),
            log: self.log,
            account: self.account,
            stream: stream.clone(),
            is_untouched,
        };
        let wire = Arc::new(Wired(vec![(AGENT, self.disk.address().await)]));
        let signer = Arc::new(Signer::new(&[1; 32]));
        let channel = BoxChannel::new(&life, wire, signer, Arc::new(SystemClock));
        let release = Release::new(store.clone(), self.account, stream, is_untouched, false);
        let stop = CancellationToken::new();
        let task = tokio::spawn(replica::run(store, release, channel, stop.clone()));
        (stop, task)
    }

    /// The reasons of all rewinds.
    async fn reasons(&self) -> Vec<String> {
        let events = read(&*self.store, self.account).await;
        let reasons = events.iter().filter_map(|event| match event.payload() {
            Ok(Some(Payload::Box(BoxEvent::LogRewound(rewound)))) => Some(rewound.reason),
            _ => None,
        });
        reasons.collect()
    }

    /// Checks that the box goes on behind `kept` in a log that both sides agree on.
    async fn goes_on(&self, log: LogId, kept: &str) {
        write(&*self.disk.store(), log, "next").await;
        assert_eq!(self.run().await, log);
        let here = read(&*self.store, log).await;
        assert_eq!(names(&here), format!("{kept} next").trim());
        assert_eq!(here, read(&*self.disk.store(), log).await);
        assert_eq!(names(&read(&*self.store, self.log).await), "a b c d");
        let state = self.fold().await.state;
        assert_eq!(state.box_log, Some(log));
        assert!(matches!(state.phase, Phase::Starting { .. }));
    }
}

#[tokio::test]
async fn a_box_that_has_everything_or_more_goes_on() {
    let world = World::new().await;
    assert_eq!(world.run().await, world.log);
    write(&*world.disk.store(), world.log, "e").await;
    assert_eq!(world.run().await, world.log);
    assert_eq!(names(&read(&*world.store, world.log).await), "a b c d e");
    assert!(world.reasons().await.is_empty());
}

#[tokio::test]
async fn an_older_disk_goes_on_in_a_branch() {
    let world = World::new().await;
    world.disk.put_back(world.log, 2).await;
    let log = world.run().await;
    assert_eq!(world.reasons().await, ["OLDER_DISK"]);
    world.goes_on(log, "a b").await;
    // And before where the branch begins.
    world.disk.put_back(world.log, 1).await;
    let second = world.run().await;
    assert_eq!(world.reasons().await.len(), 2);
    world.goes_on(second, "a").await;
}

#[tokio::test]
async fn a_lost_disk_is_given_back() {
    let world = World::new().await;
    world.disk.lose();
    assert_eq!(world.run_as(true).await, world.log);
    assert!(world.reasons().await.is_empty());
    world.disk.lose();
    let log = world.run().await;
    assert_eq!(world.reasons().await, ["DISK_LOST"]);
    world.goes_on(log, "a b c d").await;
    world.disk.lose();
    let log = world.run().await;
    world.goes_on(log, "a b c d next").await;
}

#[tokio::test]
async fn another_history_is_not_taken_in() {
    let world = World::new().await;
    world.disk.put_back(world.log, 2).await;
    for name in ["x", "y", "z"] {
        write(&*world.disk.store(), world.log, name).await;
    }
    let log = world.run().await;
    assert_eq!(world.reasons().await, ["DIVERGED"]);
    world.goes_on(log, "a b").await;
}

#[tokio::test]
async fn a_branch_that_is_not_known_here_is_left() {
    let world = World::new().await;
    // The box was rewound before, and then our own store was put back.
    world.disk.branch(world.log, 3, drawn()).await;
    let log = world.run().await;
    assert_eq!(world.reasons().await, ["UNKNOWN_BRANCH"]);
    world.goes_on(log, "a b c d").await;
}

/// The api dies at each of its writes, before or after it is done.
#[tokio::test]
async fn an_api_that_dies_anywhere_is_gone_on_with() {
    for is_done in [false, true] {
        for lost in [false, true] {
            for writes in 0.. {
                let world = World::new().await;
                if lost {
                    world.disk.lose();
                } else {
                    world.disk.put_back(world.log, 2).await;
                }
                world.disk.restart();
                let failing = Arc::new(Failing::new(world.store.clone(), writes, is_done));
                let (stop, task) = world.start(failing.clone(), false).await;
                let over = async {
                    while !failing.is_dead() && world.disk.released().is_none() {
                        tokio::task::yield_now().await;
                    }
                };
                timeout(DEADLINE, over).await.expect("over in time");
                stop.cancel();
                task.await.unwrap();
                let is_through = !failing.is_dead();
                let log = world.run().await;
                let (reason, kept) = if lost {
                    ("DISK_LOST", "a b c d")
                } else {
                    ("OLDER_DISK", "a b")
                };
                assert_eq!(world.reasons().await, [reason], "after {writes} writes");
                world.goes_on(log, kept).await;
                if is_through {
                    break;
                }
            }
        }
    }
}

/// The box dies at each call, before or after it has done what it was asked.
#[tokio::test]
async fn a_box_that_dies_anywhere_is_gone_on_with() {
    for is_done in [false, true] {
        for lost in [false, true] {
            for calls in 0..12 {
                let world = World::new().await;
                if lost {
                    world.disk.lose();
                } else {
                    world.disk.put_back(world.log, 2).await;
                }
                world.disk.die_at(calls, is_done);
                let log = world.run().await;
                let (reason, kept) = if lost {
                    ("DISK_LOST", "a b c d")
                } else {
                    ("OLDER_DISK", "a b")
                };
                assert_eq!(world.reasons().await, [reason], "after {calls} calls");
                world.goes_on(log, kept).await;
            }
        }
    }
}
