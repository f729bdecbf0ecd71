use std::os::unix::net::UnixListener as StdListener;

use async_trait::async_trait;
use cocoonbox_events::{Ids as _, LogId, MemoryStore, SystemClock, SystemIds};
use cocoonbox_proto::{
    agent::v1::{ControlHolder, ControlState, FenceState},
    log::v1::DesktopStarted,
    toolhost::v1::{
        ComputerCloseResponse, ComputerSeen, ComputerWatchRequest, FileResponse,
        computer_server::{Computer, ComputerServer},
    },
};
use tokio::{net::UnixListener, sync::mpsc};
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tonic::{Request, Response, Streaming, transport::Server};

use super::*;
use crate::journal::Branch;

/// Far more than any of it takes.
const MAX: Duration = Duration::from_secs(30);

const PLAN: &str = "
part = []
[private]
count = 2
[[private.part]]
name = 'computer'
command = ['true']
on_demand = true
";

#[derive(Debug, PartialEq, Eq)]
enum Asked {
    Act(u32),
    Close(u32),
}

/// What answers at a display, and is ended by the test.
struct Fake {
    number: u32,
    answers: bool,
    asked: mpsc::UnboundedSender<Asked>,
}

#[async_trait]
impl Computer for Fake {
    type WatchStream = ReceiverStream<Result<ComputerSeen, Status>>;

    async fn act(&self, _: Request<ComputerActRequest>) -> Result<Response<FileResponse>, Status> {
        self.asked.send(Asked::Act(self.number)).ok();
        if !self.answers {
            std::future::pending::<()>().await;
        }
        Ok(Response::new(FileResponse::default()))
    }

    async fn watch(
        &self,
        _: Request<Streaming<ComputerWatchRequest>>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        Err(Status::unimplemented("nobody watches"))
    }

    async fn close(
        &self,
        _: Request<ComputerCloseRequest>,
    ) -> Result<Response<ComputerCloseResponse>, Status> {
        self.asked.send(Asked::Close(self.number)).ok();
        Ok(Response::new(ComputerCloseResponse {}))
    }
}

struct World {
    seats: Seats,
    displays: Displays,
    journal: Journal,
    asked: mpsc::UnboundedReceiver<Asked>,
    stream: u64,
    _folder: tempfile::TempDir,
}

impl World {
    /// A box of three displays, whose desktop has begun. Those of `silent` do not come up.
    async fn of(silent: &[u32]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (sender, asked) = mpsc::unbounded_channel();
        for (number, name) in (0..).zip(["computer", "display-1", "display-2"]) {
            let path = folder.path().join(format!("{name}.sock"));
            let listener = StdListener::bind(path).unwrap();
            listener.set_nonblocking(true).unwrap();
            let incoming = UnixListenerStream::new(UnixListener::from_std(listener).unwrap());
            let fake = Fake {
                number,
                answers: !silent.contains(&number),
                asked: sender.clone(),
            };
            let server = Server::builder().add_service(ComputerServer::new(fake));
            tokio::spawn(server.serve_with_incoming(incoming));
        }
        let plan = folder.path().join("desktop.toml");
        std::fs::write(&plan, PLAN).unwrap();
        let plan = Plan::read(&plan).unwrap();
        let ids = Arc::new(SystemIds);
        let store = Arc::new(MemoryStore::new(Arc::new(SystemClock), ids.clone()));
        let restoring = folder.path().join("restoring");
        let journal = Journal::new(store, &restoring, "box", Arc::new(SystemClock), ids);
        let branch = Branch {
            log: LogId(SystemIds.draw()),
            parent: None,
        };
        journal.release(&[branch]).await.unwrap();
        let displays = Displays::default();
        let stream = displays.begin();
        displays.apply(stream, FenceState::default()).await;
        let seats = Seats::new(
            folder.path().join("computer.sock"),
            plan,
            "w1".into(),
            journal.clone(),
            displays.clone(),
            TaskTracker::new(),
            CancellationToken::new(),
        );
        let world = Self {
            seats,
            displays,
            journal,
            asked,
            stream,
            _folder: folder,
        };
        let started = DesktopStarted {
            session: "s1".into(),
            wake_id: "w1".into(),
            parts: Vec::new(),
        };
        world.write(Command::Begin(started)).await;
        world
    }

    /// The same, where agents are let in.
    async fn begun(silent: &[u32]) -> Self {
        let world = Self::of(silent).await;
        world.seats.clone().begin().await;
        world.seats.desktop_began("s1");
        world
    }

    async fn write(&self, command: Command) {
        let mut fold = self.journal.fold::<State>(stream().unwrap());
        let own = self.journal.own_actor();
        self.journal
            .execute(&mut fold, &command, own)
            .await
            .unwrap();
    }

    async fn in_log(&self) -> Vec<(u32, String)> {
        let mut fold = self.journal.fold::<State>(stream().unwrap());
        fold.refresh(&**self.journal.store()).await.unwrap();
        fold.state.displays.into_iter().collect()
    }

    async fn seat(&self, agent_id: &str) -> Result<u32, String> {
        let seat = timeout(MAX, self.seats.seat(agent_id)).await.unwrap();
        seat.map(|seat| seat.display)
            .map_err(|error| error.to_string())
    }

    /// What is asked next of a display that is not merely looked at.
    async fn asked(&mut self) -> Asked {
        timeout(MAX, self.asked.recv()).await.unwrap().unwrap()
    }

    async fn closes(&mut self) -> u32 {
        loop {
            if let Asked::Close(number) = self.asked().await {
                return number;
            }
        }
    }

    async fn held(&self, displays: &[u32]) {
        let state = |display: &u32| ControlState {
            display: *display,
            holder: Some(ControlHolder::default()),
            fence: 1,
        };
        let state = FenceState {
            held: displays.iter().map(state).collect(),
            ..FenceState::default()
        };
        self.displays.apply(self.stream, state).await;
    }

    /// Waits until an agent gets this display.
    async fn gets(&self, agent_id: &str, display: u32) {
        let getting = async {
            while self.seat(agent_id).await != Ok(display) {
                tokio::task::yield_now().await;
            }
        };
        timeout(MAX, getting).await.expect("it is never free");
    }
}

#[tokio::test]
async fn a_display_is_ended_when_nobody_has_it_and_given_again_when_it_has_ended() {
    let mut world = World::begun(&[]).await;
    assert_eq!(world.seat("a").await, Ok(0));
    assert_eq!(world.seat("b").await, Ok(1));
    assert_eq!(world.in_log().await, [(1, "b".to_owned())]);
    assert!(world.seats.open().borrow().contains(&1));
    // A person has it while its agent leaves.
    world.held(&[1]).await;
    world.seats.leave("b");
    assert!(world.seats.is_left(1));
    assert_eq!(world.seat("c").await, Ok(2));
    assert_eq!(world.asked().await, Asked::Act(1));
    assert_eq!(world.asked().await, Asked::Act(2));
    assert!(
        world.asked.try_recv().is_err(),
        "it is ended under a person's hands"
    );
    let awaited = world.displays.await_left(1);
    world.held(&[]).await;
    tokio::task::yield_now().await;
    assert!(
        world.asked.try_recv().is_err(),
        "what they did is being found out"
    );
    drop(awaited);
    assert_eq!(world.closes().await, 1);
    let refused = world.seat("d").await.unwrap_err();
    assert!(refused.contains("no display is free"), "{refused}");
    world.seats.ended("display-1");
    world.gets("d", 1).await;
    let all = [(1, "d".to_owned()), (2, "c".to_owned())];
    assert_eq!(world.in_log().await, all);
}

#[tokio::test]
async fn displays_of_an_earlier_process_are_ended_and_nobodys_meanwhile() {
    let mut world = World::of(&[]).await;
    let opened = DesktopDisplayOpened {
        display: 1,
        agent_id: "before".into(),
    };
    world.write(Command::OpenDisplay(opened)).await;
    world.seats.desktop_began("s1");
    let seats = world.seats.clone();
    let early = tokio::spawn(async move { seats.seat("a").await.unwrap().display });
    tokio::task::yield_now().await;
    assert!(!early.is_finished(), "the log was not read yet");
    world.seats.clone().begin().await;
    assert_eq!(timeout(MAX, early).await.unwrap().unwrap(), 0);
    assert_eq!(world.seat("b").await, Ok(2));
    assert_eq!(world.closes().await, 1);
    world.seats.ended("display-1");
    world.gets("c", 1).await;
}

#[tokio::test]
async fn one_that_does_not_come_up_is_told_at_once_and_the_next_call_gets_another() {
    let mut world = World::begun(&[1]).await;
    assert_eq!(world.seat("a").await, Ok(0));
    let seats = world.seats.clone();
    let seating = tokio::spawn(async move { seats.seat("b").await.map(|seat| seat.display) });
    assert_eq!(world.asked().await, Asked::Act(1));
    world.seats.ended("display-1");
    let refused = timeout(MAX, seating).await.unwrap().unwrap().unwrap_err();
    assert!(matches!(refused, NoSeat::Silent(_)), "{refused}");
    assert_eq!(world.seat("b").await, Ok(2));
    // Nothing of it runs, so nobody is asked to end it.
    assert_eq!(world.asked().await, Asked::Act(2));
    assert!(world.asked.try_recv().is_err());
}

#[tokio::test]
async fn an_agent_is_told_anew_when_its_display_was_lost() {
    let mut world = World::begun(&[]).await;
    world.seat("a").await.unwrap();
    let is_new = async |world: &World| world.seats.seat("b").await.unwrap().is_new.is_some();
    assert!(is_new(&world).await);
    assert!(!is_new(&world).await);
    world.seats.ended("display-1");
    assert!(!world.seats.open().borrow().contains(&1));
    assert!(is_new(&world).await, "its keeper was killed");
    world.seats.desktop_began("s1");
    assert!(!is_new(&world).await);
    world.seats.desktop_began("s2");
    assert!(is_new(&world).await, "all of the desktop was killed");
    assert_eq!(world.in_log().await, [(1, "b".to_owned())]);
    for _ in 0..3 {
        assert_eq!(world.asked().await, Asked::Act(1));
    }
}
