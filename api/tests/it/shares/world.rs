//! An api process with one box, a fake one, and its callers: owners, guests and strangers.

use std::{sync::Arc, time::Duration};

use axum::{Router, middleware};
use cocoonbox_api::{
    accounts::Accounts,
    auth,
    channel::{BoxChannel, Channels, Life},
    control::{self, Desk, Desks},
    credential::Signer,
    edge::{self, Edge, Hop, Peers},
    lease::Owners,
    revocations::Revocations,
    screen,
    shares::{self, Secrets, Shares},
    vault::Vault,
};
use cocoonbox_commands::boxes::{self, Command};
use cocoonbox_events::{
    Clock, CommandId, Fold, Ids as _, LogId, ManualClock, Meta, Payload, Store, StreamName,
    SystemClock, SystemIds, limits::PAGE_EVENTS_MAX,
};
use cocoonbox_installation::{Address, Holder, Installation, Purpose};
use cocoonbox_machines::BoxId;
use cocoonbox_projections::{Runner, Views};
use cocoonbox_proto::{
    control::v1::{
        CreateShareRequest, LookRequest, LookResponse, Share, shares_client::SharesClient,
        shares_server::SharesServer,
    },
    log::v1::Actor,
};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::{
    Request, Status,
    transport::{Channel, Endpoint},
};
use zeroize::Zeroizing;

use crate::screen::fake::FakeBox;

/// 2026-11-30, 00:00 UTC.
pub(super) const START_US: i64 = 1_795_996_800_000_000;
pub(super) const DEADLINE: Duration = Duration::from_secs(20);
pub(super) const BOX: &str = "b1";

/// A user, as a client is one.
#[derive(Clone)]
pub(super) struct Person {
    pub(super) id: String,
    pub(super) token: String,
    log: LogId,
}

pub(super) struct World {
    pub(super) fake: Arc<FakeBox>,
    pub(super) clock: Arc<ManualClock>,
    pub(super) ada: Person,
    pub(super) installation: Installation,
    store: Arc<dyn Store>,
    pub(super) accounts: Arc<Accounts>,
    pub(super) desks: Desks,
    channels: Channels,
    channel: BoxChannel,
    views: Views,
    address: String,
    stop: CancellationToken,
    dir: TempDir,
}

impl World {
    /// With ada, and her box, which runs.
    pub(super) async fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let address = Address::parse("sqlite:", dir.path()).unwrap();
        let (system, ids) = (Arc::new(SystemClock), Arc::new(SystemIds));
        let opening = Installation::open(&address, dir.path(), Purpose::Use, system, ids);
        let installation = opening.await.unwrap();
        let store = installation.store.clone();
        let accounts = accounts(&installation);
        accounts.start(LogId(SystemIds.draw())).await.unwrap();
        let issued = accounts.bootstrap("ada", "test").await.unwrap();
        let ada = person(&issued);
        let views = Views::open(&dir.path().join("views.db")).unwrap();
        let stop = CancellationToken::new();
        let runner = Runner::new(store.clone(), views.clone());
        tokio::spawn(runner.run(stop.clone()));
        let fake = FakeBox::start().await;
        let life = Life {
            user_id: ada.id.clone(),
            box_id: BoxId::new(BOX).unwrap(),
            wake_id: "w1".into(),
            log: LogId(SystemIds.draw()),
            account: ada.log,
            stream: StreamName::new(format!("box/{BOX}")).unwrap(),
            is_untouched: false,
        };
        let signer = Arc::new(Signer::new(&[1; 32]));
        let clock = Arc::new(ManualClock::at(START_US));
        let channel = BoxChannel::new(&life, fake.machines(), signer, clock.clone());
        let parts = control::Parts {
            store: store.clone(),
            ids: Arc::new(SystemIds),
            clock: clock.clone(),
        };
        let desks = Desks::default();
        let desk = Desk::new(parts, ada.log, channel.clone(), stop.clone());
        let (handle, desk) = desk.unwrap();
        desks.insert(BOX, handle);
        tokio::spawn(desk.run(stop.clone()));
        let mut told = fake.told.subscribe();
        told.wait_for(|told| !told.is_empty()).await.unwrap();
        let channels = Channels::default();
        channels.insert(channel.clone());
        let mut world = Self {
            fake,
            clock,
            ada,
            installation,
            store,
            accounts: accounts.clone(),
            desks,
            channels,
            channel,
            views,
            address: String::new(),
            stop,
            dir,
        };
        world
            .box_is(&[
                Command::Ensure {
                    box_id: BOX.into(),
                    flavor: 1,
                    name: "main".into(),
                    box_log: LogId(SystemIds.draw()),
                    user_id: world.ada.id.clone(),
                    operation_id: "op1".into(),
                },
                Command::Starting {
                    wake_id: "w1".into(),
                    image: "light".into(),
                },
                Command::Running {
                    wake_id: "w1".into(),
                    agent_version: String::new(),
                },
            ])
            .await;
        let (address, _) = world.process(accounts).await;
        world.address = address;
        world
    }

    /// Another process that serves the same, and knows of what this one does by the logs only.
    pub(super) async fn another(&self) -> String {
        let accounts = accounts(&self.installation);
        accounts.start(LogId(SystemIds.draw())).await.unwrap();
        let (address, shares) = self.process(accounts.clone()).await;
        let revocations = Revocations::new(self.store.clone(), accounts, shares);
        tokio::spawn(revocations.run(self.stop.clone()));
        address
    }

    /// Serves shares and screens, as a process of a fleet does.
    async fn process(&self, accounts: Arc<Accounts>) -> (String, Arc<Shares>) {
        let (keys, tasks) = (self.installation.keys.clone(), TaskTracker::new());
        let time: Arc<dyn Clock> = self.clock.clone();
        let hashes = keys.derive("share secret hashes");
        let shares = Arc::new(Shares::new(shares::Parts {
            accounts: accounts.clone(),
            store: self.store.clone(),
            views: self.views.clone(),
            secrets: Secrets::new(self.installation.tokens.clone(), hashes, keys),
            ids: Arc::new(SystemIds),
            clock: time.clone(),
        }));
        let machines = self.fake.machines();
        let desks = self.desks.clone();
        let me = Holder {
            id: "me".into(),
            address: "http://127.0.0.1:1".into(),
            place: "here".into(),
        };
        let edge = Arc::new(Edge {
            accounts: accounts.clone(),
            store: self.store.clone(),
            views: self.views.clone(),
            channels: self.channels.clone(),
            owners: Owners::new(self.installation.leases.clone(), me),
            peers: Peers::new(self.stop.clone(), tasks.clone()),
            hop: Hop::new(Zeroizing::new([1; 32]), time.clone()),
            beside: screen::routes(desks, &machines, &accounts, &time, &tasks),
        });
        let known = auth::Known {
            accounts,
            shares: shares.clone(),
        };
        let service = shares::Service {
            shares: shares.clone(),
            edge: edge.clone(),
        };
        let router = tonic::service::Routes::new(SharesServer::new(service))
            .into_axum_router()
            .fallback_service(axum::routing::any(edge::forward).with_state(edge))
            .layer(middleware::from_fn_with_state(known, auth::identify));
        (serve(router).await, shares)
    }

    /// Another user.
    pub(super) async fn user(&self, name: &str) -> Person {
        let command = CommandId(SystemIds.draw());
        let host = auth::Caller::Host;
        let created = self.accounts.create(name, false, "test", command, &host);
        person(&created.await.unwrap())
    }

    /// Has the box's stream go on, and waits until that is seen.
    pub(super) async fn box_is(&self, commands: &[Command]) {
        let stream = StreamName::new(format!("box/{BOX}")).unwrap();
        let mut fold = Fold::<boxes::State>::new(self.ada.log, stream);
        for command in commands {
            let meta = Meta {
                command: CommandId(SystemIds.draw()),
                actor: Actor::default(),
                cause: None,
            };
            let done = fold.execute(&*self.store, command, &meta, [0; 32]).await;
            let key = done.unwrap().key;
            self.views.at_least(&key, DEADLINE).await.unwrap();
        }
    }

    /// The box sleeps: nobody drives it.
    pub(super) async fn sleep(&self) {
        self.channels.remove(BOX, &self.channel.wake_id);
        self.box_is(&[
            Command::Hibernate {
                operation_id: "op2".into(),
                reason: "asked".into(),
            },
            Command::Hibernated {
                memory_kept: false,
                quiesced: true,
            },
        ])
        .await;
    }

    pub(super) fn clock_by(&self, seconds: i64) {
        self.clock.set(self.clock.now_us() + seconds * 1_000_000);
    }

    pub(super) fn connect(&self) -> Channel {
        connect(&self.address)
    }

    pub(super) fn shares(&self) -> SharesClient<Channel> {
        SharesClient::new(self.connect())
    }

    pub(super) async fn share(&self) -> Share {
        self.create(CreateShareRequest::default()).await.unwrap()
    }

    /// Makes a share of ada's box, with what is not said otherwise.
    pub(super) async fn create(&self, asked: CreateShareRequest) -> Result<Share, Status> {
        let asked = CreateShareRequest {
            box_id: BOX.into(),
            label: "for the team".into(),
            ..asked
        };
        let made = self.shares().create(by(&self.ada.token, asked)).await?;
        Ok(made.into_inner())
    }

    pub(super) async fn look(&self, secret: &str) -> Result<LookResponse, Status> {
        let looked = self.shares().look(with(secret, LookRequest {})).await?;
        Ok(looked.into_inner())
    }

    /// What the log says of shares, by kind.
    pub(super) async fn logged(&self) -> Vec<Payload> {
        let stream = StreamName::new(format!("share/{BOX}")).unwrap();
        let read = self
            .store
            .read_stream(self.ada.log, &stream, 0, PAGE_EVENTS_MAX);
        let events = read.await.unwrap().events;
        let payloads = events.iter().map(|event| event.payload().unwrap().unwrap());
        payloads.collect()
    }

    /// Whether these bytes lie open in any file here.
    pub(super) fn lies_open(&self, text: &str) -> bool {
        let files = std::fs::read_dir(self.dir.path()).unwrap();
        let has = |bytes: Vec<u8>| bytes.windows(text.len()).any(|at| at == text.as_bytes());
        files.into_iter().any(|file| {
            let path = file.unwrap().path();
            path.is_file() && has(std::fs::read(path).unwrap())
        })
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn accounts(installation: &Installation) -> Arc<Accounts> {
    let hashes = installation.keys.derive("token hashes");
    let vault = Vault::new(installation.tokens.clone(), hashes);
    let store = installation.store.clone();
    Arc::new(Accounts::new(store, vault, Arc::new(SystemIds)))
}

fn person(issued: &cocoonbox_api::accounts::Issued) -> Person {
    Person {
        id: issued.account.user_id.clone(),
        token: issued.token.reveal(),
        log: issued.account.log,
    }
}

async fn serve(router: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

pub(super) fn connect(address: &str) -> Channel {
    Endpoint::from_shared(address.to_owned())
        .unwrap()
        .connect_lazy()
}

/// A request of a user's.
pub(super) fn by<T>(token: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    let bearer = format!("Bearer {token}").parse().unwrap();
    request.metadata_mut().insert("authorization", bearer);
    request
}

/// A request of a guest's.
pub(super) fn with<T>(secret: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    let secret = secret.parse().unwrap();
    request.metadata_mut().insert("x-cocoonbox-share", secret);
    request
}

/// A request of a guest's who is signed in.
pub(super) fn as_both<T>(secret: &str, token: &str, message: T) -> Request<T> {
    let mut request = with(secret, message);
    let bearer = format!("Bearer {token}").parse().unwrap();
    request.metadata_mut().insert("authorization", bearer);
    request
}
