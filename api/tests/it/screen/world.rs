//! An api process that drives a fake box, and viewers of it.

use std::{sync::Arc, time::Duration};

use axum::{Router, extract::Request, middleware};
use bytes::Bytes;
use cocoonbox_api::{
    accounts::Accounts,
    auth::Caller,
    channel::{BoxChannel, Life},
    control::{Desk, Desks, Parts},
    credential::Signer,
    screen,
    vault::Vault,
};
use cocoonbox_events::{
    Clock, Ids as _, LogId, ManualClock, Payload, Store, StreamName, SystemClock, SystemIds,
};
use cocoonbox_installation::{Address, Installation, Purpose};
use cocoonbox_machines::BoxId;
use cocoonbox_proto::agent::v1::{
    ControlState, ScreenRequest, ScreenResponse, ScreenStart, ShowControlRequest,
    TakeControlRequest, control_client::ControlClient, screen_request::Frame, screen_response,
    session_client::SessionClient,
};
use tempfile::TempDir;
use tokio::{net::TcpListener, sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::{
    Status, Streaming,
    transport::{Channel, Endpoint},
};

use super::fake::{DESCRIBED, FakeBox};

/// 2026-11-30, 00:00 UTC.
pub(super) const START_US: i64 = 1_795_996_800_000_000;
pub(super) const DEADLINE: Duration = Duration::from_secs(20);

pub(super) struct World {
    pub(super) fake: Arc<FakeBox>,
    pub(super) clock: Arc<ManualClock>,
    store: Arc<dyn Store>,
    account: LogId,
    address: String,
    stop: CancellationToken,
    desks: Desks,
    channel: BoxChannel,
    /// Gone with the world.
    _kept: (TempDir, Installation),
}

/// A viewer, as a client of `Session.Screen` sees itself.
pub(super) struct Viewer {
    pub(super) frames: Streaming<ScreenResponse>,
    pub(super) requests: mpsc::Sender<ScreenRequest>,
    pub(super) shown: Vec<u8>,
    pub(super) standing: Vec<ControlState>,
}

impl World {
    pub(super) async fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let address = Address::parse("sqlite:", dir.path()).unwrap();
        let (system, ids) = (Arc::new(SystemClock), Arc::new(SystemIds));
        let opening = Installation::open(&address, dir.path(), Purpose::Use, system, ids.clone());
        let installation = opening.await.unwrap();
        let store = installation.store.clone();
        let vault = Vault::new(
            installation.tokens.clone(),
            installation.keys.derive("token hashes"),
        );
        let accounts = Arc::new(Accounts::new(store.clone(), vault, ids.clone()));
        accounts.start(LogId(SystemIds.draw())).await.unwrap();
        let ada = accounts.bootstrap("ada", "test").await.unwrap();
        let fake = FakeBox::start().await;
        let life = Life {
            user_id: ada.account.user_id.clone(),
            box_id: BoxId::new("b1").unwrap(),
            wake_id: "w1".into(),
            log: LogId(SystemIds.draw()),
            account: ada.account.log,
            stream: StreamName::new("box/b1").unwrap(),
            is_untouched: false,
        };
        let signer = Arc::new(Signer::new(&[1; 32]));
        let machines = fake.machines();
        let channel = BoxChannel::new(&life, machines.clone(), signer, Arc::new(SystemClock));
        let clock = Arc::new(ManualClock::at(START_US));
        let desks = Desks::default();
        let tasks = TaskTracker::new();
        let time: Arc<dyn Clock> = clock.clone();
        let beside = screen::routes(desks.clone(), &machines, &accounts, &time, &tasks);
        let caller = Caller::User {
            user_id: ada.account.user_id,
            token_id: ada.token_id,
            admin: true,
        };
        let mut world = Self {
            fake,
            clock,
            store,
            account: ada.account.log,
            address: serve(beside, caller, channel.clone()).await,
            stop: CancellationToken::new(),
            desks,
            channel,
            _kept: (dir, installation),
        };
        world.drive().await;
        world
    }

    /// Drives the box, as a process that has just come.
    pub(super) async fn drive(&mut self) {
        self.stop.cancel();
        self.stop = CancellationToken::new();
        let parts = Parts {
            store: self.store.clone(),
            ids: Arc::new(SystemIds),
            clock: self.clock.clone(),
        };
        let (channel, stop) = (self.channel.clone(), self.stop.clone());
        let (handle, desk) = Desk::new(parts, self.account, channel, stop.clone()).unwrap();
        self.desks.insert("b1", handle);
        let known = self.fake.told.borrow().len();
        tokio::spawn(desk.run(stop));
        let mut told = self.fake.told.subscribe();
        told.wait_for(|told| told.len() > known).await.unwrap();
    }

    /// A connection of its own.
    pub(super) fn connect(&self) -> Channel {
        let endpoint = Endpoint::from_shared(self.address.clone()).unwrap();
        endpoint.connect_lazy()
    }

    pub(super) fn control(&self) -> ControlClient<Channel> {
        ControlClient::new(self.connect())
    }

    pub(super) async fn take(&self, lease_id: &str, steal: bool) -> Result<ControlState, Status> {
        let request = TakeControlRequest {
            lease_id: lease_id.into(),
            label: "test".into(),
            steal,
            ..TakeControlRequest::default()
        };
        let taken = self.control().take(request).await?;
        Ok(taken.into_inner())
    }

    pub(super) async fn show(&self) -> ControlState {
        let shown = self.control().show(ShowControlRequest { display: 0 }).await;
        shown.unwrap().into_inner()
    }

    pub(super) fn clock_by(&self, seconds: i64) {
        self.clock.set(self.clock.now_us() + seconds * 1_000_000);
    }

    /// Looks at the display, and drives it if the lease is one.
    pub(super) async fn view(&self, lease_id: &str) -> Result<Viewer, Status> {
        Viewer::open(self.connect(), 0, lease_id).await
    }

    /// Waits until the display has heard something of at least this length, and returns it.
    pub(super) async fn heard(&self, length: usize) -> Vec<u8> {
        let mut heard = self.fake.heard.subscribe();
        let all = timeout(DEADLINE, heard.wait_for(|heard| heard.len() >= length)).await;
        all.expect("heard in time").unwrap().clone()
    }

    /// Waits until the display's stream of the log has so many events, and returns their kinds.
    pub(super) async fn logged(&self, count: usize) -> Vec<String> {
        let stream = StreamName::new("control/b1/0").unwrap();
        let mut bell = self.store.any_doorbell();
        let all = async {
            loop {
                bell.mark_unchanged();
                let page = self.store.read_stream(self.account, &stream, 0, 100).await;
                let events = page.unwrap().events;
                if events.len() >= count {
                    let kind = |payload: Payload| payload.kind().name().to_owned();
                    return events
                        .iter()
                        .map(|event| kind(event.payload().unwrap().unwrap()))
                        .collect();
                }
                bell.changed().await.ok();
            }
        };
        timeout(DEADLINE, all).await.expect("logged in time")
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Viewer {
    pub(super) async fn open(
        channel: Channel,
        display: u32,
        lease_id: &str,
    ) -> Result<Self, Status> {
        let (requests, sent) = mpsc::channel(16);
        let start = Frame::Start(ScreenStart {
            display,
            lease_id: lease_id.into(),
        });
        let first = ScreenRequest { frame: Some(start) };
        requests.send(first).await.unwrap();
        let mut session = SessionClient::new(channel);
        let frames = session.screen(ReceiverStream::new(sent)).await?;
        let mut viewer = Self {
            frames: frames.into_inner(),
            requests,
            shown: Vec::new(),
            standing: Vec::new(),
        };
        viewer.say(b"RFB 003.008\n\x01\x01").await;
        let length = 12 + 2 + 4 + DESCRIBED.len();
        while viewer.shown.len() < length {
            assert!(viewer.look().await?, "it ended");
        }
        assert!(viewer.shown.ends_with(DESCRIBED));
        Ok(viewer)
    }

    pub(super) async fn say(&self, bytes: &[u8]) {
        let frame = Frame::Rfb(Bytes::copy_from_slice(bytes));
        let request = ScreenRequest { frame: Some(frame) };
        self.requests.send(request).await.ok();
    }

    /// Takes one frame; false at the end.
    pub(super) async fn look(&mut self) -> Result<bool, Status> {
        let frame = timeout(DEADLINE, self.frames.message()).await;
        let Some(response) = frame.expect("a frame in time")? else {
            return Ok(false);
        };
        match response.frame {
            Some(screen_response::Frame::Rfb(bytes)) => self.shown.extend(bytes),
            Some(screen_response::Frame::Control(state)) => self.standing.push(state),
            None => {}
        }
        Ok(true)
    }

    /// Looks until the stream ends, and returns why.
    pub(super) async fn end(mut self) -> Status {
        loop {
            match self.look().await {
                Ok(true) => {}
                Ok(false) => return Status::ok(""),
                Err(status) => return status,
            }
        }
    }
}

/// Serves what is asked beside a box, as the edge hands it on.
async fn serve(beside: Router, caller: Caller, channel: BoxChannel) -> String {
    let known = move |mut request: Request, next: middleware::Next| {
        let (caller, channel) = (caller.clone(), channel.clone());
        async move {
            request.extensions_mut().insert(caller);
            request.extensions_mut().insert(channel);
            next.run(request).await
        }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let router = beside.layer(middleware::from_fn(known));
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}
