//! The one process: stores, views, reactors and every door that clients come in by.

mod folder;
mod listen;
mod router;

use std::{fs::File, io, path::PathBuf, sync::Arc, time::Duration};

use cocoonbox_events::{Clock, Ids, LogId, LogKind, Store, SystemClock, SystemIds};
use cocoonbox_installation::{Holder, Installation, LeasesError, OpenError, Purpose, leases::COPY};
use cocoonbox_machines::{Container, Limits, Machines, container};
use cocoonbox_projections::{Runner, Views};
use tokio::{net::TcpListener, sync::Semaphore};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{
    folder::{capsule_shelf, lock, private_dir, private_file, unix_socket},
    router::router,
};
use crate::{
    accounts::{AccountError, Accounts},
    auth,
    boxes::Boxes,
    budget::{Books, Budgets},
    capsules::{self, Capsules},
    channel::Channels,
    checkpoints::{self, Checkpointer},
    config::{self, Config},
    console::{self, Console},
    control::Desks,
    credential::Signer,
    door::DoorServices,
    edge::{Edge, Hop, Peers},
    erase::{self, Eraser},
    gateway::{self, Gateway},
    history::History,
    images::Images,
    lease::Owners,
    lifecycle::{self, Context, Lifecycle},
    metrics::{self, Scraper},
    one_at_a_time::OneAtATime,
    operator::Operator,
    revocations::Revocations,
    routines::{self, Clockwork, Routines},
    screen,
    session::Replica,
    shares::{self, Secrets, Shares},
    usage::Ledger,
    users::Users,
    vault::Vault,
    vitals::Vitals,
};

/// A running api.
pub struct Server {
    /// Where TCP clients connect.
    pub listen: std::net::SocketAddr,
    /// Where metrics are answered besides the operator's socket, if anywhere.
    pub metrics: Option<std::net::SocketAddr>,
    stop: CancellationToken,
    tasks: TaskTracker,
    let_go: CancellationToken,
    keeper: TaskTracker,
    sign: CancellationToken,
    signer: TaskTracker,
    installation: Installation,
    /// Views and sockets are this process's own.
    _lock: File,
    gateway: Arc<Gateway>,
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("{doing} `{path}`")]
    Io {
        doing: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("listening on {address}")]
    Listen {
        address: std::net::SocketAddr,
        #[source]
        source: io::Error,
    },
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("opening the views")]
    Views(#[source] cocoonbox_projections::database::OpenError),
    #[error("preparing the accounts")]
    Accounts(#[from] AccountError),
    #[error(transparent)]
    Gateway(#[from] gateway::Error),
    #[error(transparent)]
    Config(#[from] config::ConfigError),
    #[error("preparing the machines")]
    Machines(#[from] cocoonbox_machines::Error),
    #[error("preparing the machines")]
    Place(#[from] lifecycle::PlaceError),
    #[error(transparent)]
    Leases(#[from] LeasesError),
    #[error("the store is being copied; start again when `cocoonbox log copy` has ended")]
    Copying,
    #[error("another api process serves from `{data}`; each needs a data folder of its own")]
    Locked { data: PathBuf },
    #[error("preparing the metrics")]
    Metrics(#[from] metrics::RecorderError),
    #[error("preparing reflection")]
    Reflection(#[source] tonic_reflection::server::Error),
}

impl Server {
    /// Starts everything and returns once clients can connect.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        let data = config.data.clone();
        private_dir(&data)?;
        private_dir(&data.join("run"))?;
        // What the logs hold sealed lies open in the views: nobody else may read these files. SQLite
        // gives its side files the mode of the file itself.
        private_file(&data.join("views.db"))?;
        private_dir(&config.fleet.machines)?;
        let lock = lock(&data).await?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let ids: Arc<dyn Ids> = Arc::new(SystemIds);
        let (address, purpose) = (&config.fleet.store, Purpose::Use);
        let opening = Installation::open(address, &data, purpose, clock.clone(), ids.clone());
        let installation = opening.await?;
        let copying = installation.leases.find(COPY).await?;
        if copying.is_some_and(|copy| copy.is_live) {
            return Err(StartError::Copying);
        }
        let measured = metrics::Measured::new(installation.store.clone(), clock.clone());
        let store: Arc<dyn Store> = Arc::new(measured);
        let keys = installation.keys.clone();
        let vault = Vault::new(installation.tokens.clone(), keys.derive("token hashes"));
        let signer = Arc::new(Signer::new(&keys.derive("edge signing key")));
        let accounts = Arc::new(Accounts::new(store.clone(), vault, ids.clone()));
        let seed = keys.derive("system log");
        let system = LogId::from_slice(&seed[..16]).expect("16 bytes are an id");
        accounts.start(system).await?;
        let views = Views::open(&data.join("views.db")).map_err(StartError::Views)?;
        let runner = Runner::new(store.clone(), views.clone());
        let share_hashes = keys.derive("share secret hashes");
        let shares = Arc::new(Shares::new(shares::Parts {
            accounts: accounts.clone(),
            store: store.clone(),
            views: views.clone(),
            secrets: Secrets::new(installation.tokens.clone(), share_hashes, keys.clone()),
            ids: ids.clone(),
            clock: clock.clone(),
        }));

        let machines: Arc<dyn Machines> = Arc::new(Container::new(container::Config::new(
            &config.fleet.machines,
        ))?);
        let channels = Channels::default();
        let desks = Desks::default();
        let listener =
            TcpListener::bind(config.listen)
                .await
                .map_err(|source| StartError::Listen {
                    address: config.listen,
                    source,
                })?;
        let listen = listener.local_addr().map_err(|source| StartError::Listen {
            address: config.listen,
            source,
        })?;
        // The first of its branches: a rewind must not make another installation of this one.
        let is_system =
            |log: &&cocoonbox_events::LogInfo| log.kind == LogKind::System && log.parent.is_none();
        let installed = store
            .logs()
            .iter()
            .find(is_system)
            .map_or(system, |log| log.id);
        let me = Holder {
            id: ids.draw().simple().to_string(),
            address: config.fleet.address(listen)?,
            place: lifecycle::settle(&config.fleet.machines, installed, &*ids)?,
        };
        let owners = Owners::new(installation.leases.clone(), me);
        let books = Arc::new(Books::new(
            accounts.clone(),
            store.clone(),
            ids.clone(),
            clock.clone(),
            config.file.prices()?,
        ));
        let sink = Ledger {
            books: books.clone(),
        };
        let gateway = Arc::new(Gateway::new(config.gateway.clone(), Arc::new(sink))?);
        let door = Arc::new(DoorServices::new(
            gateway.clone(),
            config.file.web.policy()?,
            vec![listen],
        ));
        let limits = &config.file.limits;
        let images = Images::new(config.image.clone());
        let parts = checkpoints::Parts {
            store: store.clone(),
            keys: installation.signing.clone(),
            objects: Arc::new(checkpoints::Folder::new(data.join("objects"))),
            clock: clock.clone(),
            host: config.file.origin()?,
        };
        let (checkpointer, checkpoints) =
            Checkpointer::new(parts, installed).map_err(config::ConfigError::Origin)?;
        let shelf = capsule_shelf(&config, owners.are_shared())?;
        let place = capsules::Place::new(shelf, data.join("cache/capsule"), keys.clone());
        let context = Arc::new(Context {
            store: store.clone(),
            checkpoints: checkpoints.clone(),
            machines: machines.clone(),
            owners: owners.clone(),
            channels: channels.clone(),
            desks: desks.clone(),
            signer,
            door,
            clock: clock.clone(),
            ids: ids.clone(),
            images: images.clone(),
            agent: config.agent.clone(),
            limits: Limits {
                memory_bytes: limits.memory_bytes,
                cpu_millis: limits.cpu_millis,
                pids: limits.pids,
                io_bytes_per_second: Some(limits.io_bytes_per_second).filter(|rate| *rate > 0),
                disk_bytes: Some(limits.disk_bytes).filter(|bytes| *bytes > 0),
            },
            idle_after: match config.file.idle.after_seconds {
                0 => None,
                seconds => Some(Duration::from_secs(seconds)),
            },
            models: config.models.clone(),
            capsules: place.clone(),
            saves_first: config.file.capsule.before_destructive && place.is_usable(),
        });

        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let vitals = Vitals {
            checkpoints: checkpoints.clone(),
            owners: owners.clone(),
            pulse: installation.pulse(),
        };
        let scraper = Scraper {
            handle: metrics::recorder()?,
            store: store.clone(),
            views: views.clone(),
            channels: channels.clone(),
            vitals: vitals.clone(),
            clock: clock.clone(),
            data: data.clone(),
        };
        let operator = Operator {
            store: store.clone(),
            views: views.clone(),
            channels: channels.clone(),
            vitals,
            started_us: clock.now_us(),
            clock: clock.clone(),
            stop: stop.clone(),
        };
        let edge = Arc::new(Edge {
            accounts: accounts.clone(),
            store: store.clone(),
            views: views.clone(),
            channels: channels.clone(),
            owners: owners.clone(),
            peers: Peers::new(stop.clone(), tasks.clone()),
            hop: Hop::new(keys.derive("edge hop"), clock.clone()),
            beside: screen::routes(desks, &machines, &accounts, &clock, &tasks),
        });
        let saving = capsules::Progress::default();
        let sweeps = capsules::Bell::default();
        let sweeper = capsules::Sweeper {
            store: store.clone(),
            owners: owners.clone(),
            clock: clock.clone(),
            ids: ids.clone(),
            place: place.clone(),
            bell: sweeps.clone(),
            every: config.file.capsule.sweeps(),
        };
        let keeper_of_files = capsules::Keeper::new(capsules::Parts {
            store: store.clone(),
            machines: machines.clone(),
            owners: owners.clone(),
            clock: clock.clone(),
            ids: ids.clone(),
            place: place.clone(),
            progress: saving.clone(),
            when: config.file.capsule.when(),
            permits: Arc::new(Semaphore::new(capsules::SAVES_MAX)),
            sweeps,
            quota_bytes: config.file.capsule.quota(),
        });
        let capsules = Capsules {
            accounts: accounts.clone(),
            store: store.clone(),
            views: views.clone(),
            ids: ids.clone(),
            place: place.clone(),
            progress: saving,
            clock: clock.clone(),
            quota_bytes: config.file.capsule.quota(),
            stop: stop.clone(),
        };
        let clocked = routines::Parts {
            store: store.clone(),
            views: views.clone(),
            channels: channels.clone(),
            clock: clock.clone(),
            ids: ids.clone(),
            bell: Arc::default(),
        };
        let clockwork = Clockwork::new(clocked.clone());
        let routines = Routines {
            parts: clocked,
            accounts: accounts.clone(),
            making: OneAtATime::default(),
        };
        let history = History {
            views: views.clone(),
        };
        let places = config.file.console.places(listen.port())?;
        let passkeys = console::Passkeys::new(places, keys.derive("passkey challenges"));
        let eraser = Eraser {
            place,
            accounts: accounts.clone(),
            store: store.clone(),
            keys,
            views: views.clone(),
            channels,
            ids: ids.clone(),
        };
        let users = Users {
            accounts: accounts.clone(),
            store: store.clone(),
            views: views.clone(),
            ids: ids.clone(),
            clock: clock.clone(),
            eraser: eraser.clone(),
            stop: stop.clone(),
        };
        let boxes = Boxes {
            accounts: accounts.clone(),
            store: store.clone(),
            views: views.clone(),
            ids,
            clock: clock.clone(),
            owners: owners.clone(),
            promises: machines.promises(),
            images,
            models: config
                .models
                .as_ref()
                .map(config::Models::roles)
                .unwrap_or_default(),
            gateway: config.gateway.clone(),
            boxes_per_user: limits.boxes_per_user,
            stop: stop.clone(),
            ensuring: OneAtATime::default(),
        };
        let replica = Replica {
            edge: edge.clone(),
            store: store.clone(),
            views,
            stop: stop.clone(),
        };
        let budgets = Budgets {
            books,
            accounts: accounts.clone(),
            clock: clock.clone(),
        };
        let revocations = Revocations::new(store.clone(), accounts.clone(), shares.clone());
        let checkpoints = checkpoints::Rpc {
            store: store.clone(),
            handle: checkpoints,
        };
        let for_console = (accounts.clone(), clock.clone(), Arc::new(passkeys));
        let known = auth::Known {
            accounts,
            shares: shares.clone(),
        };
        let router = router(
            known,
            users,
            boxes,
            budgets,
            capsules,
            history,
            routines,
            checkpoints,
            replica,
            edge,
            eraser.clone(),
            operator,
        )
        .await?;

        let scraped = match config.file.metrics {
            Some(address) => Some(bind(address).await?),
            None => None,
        };
        let metrics = scraped.as_ref().and_then(|one| one.local_addr().ok());
        let socket = unix_socket(&data.join("run/api.sock"))?;
        tasks.spawn(runner.run(stop.clone()));
        tasks.spawn(Lifecycle::new(context).run(stop.clone()));
        tasks.spawn(erase::run(eraser, stop.clone()));
        tasks.spawn(keeper_of_files.run(stop.clone()));
        tasks.spawn(sweeper.run(stop.clone()));
        tasks.spawn(clockwork.run(stop.clone()));
        if owners.are_shared() {
            tasks.spawn(revocations.run(stop.clone()));
        }
        // Leases are kept until what they allow has ended.
        let (let_go, keeper) = (CancellationToken::new(), TaskTracker::new());
        keeper.spawn(owners.run(let_go.clone()));
        // Stopped last: what is written while the rest stops is signed too.
        let (sign, signer) = (CancellationToken::new(), TaskTracker::new());
        signer.spawn(checkpointer.run(sign.clone()));
        let (accounts, clock, passkeys) = for_console;
        let console = console::routes(Console {
            accounts,
            shares,
            clock,
            passkeys,
            grpc: router.clone(),
            stop: stop.clone(),
        });
        tasks.spawn(listen::tcp(listener, console, stop.clone()));
        tasks.spawn(metrics::keep_up(scraper.handle.clone(), stop.clone()));
        if let Some(listener) = scraped {
            tasks.spawn(metrics::listen(listener, scraper.clone(), stop.clone()));
        }
        let router = metrics::routes(scraper, router);
        tasks.spawn(listen::unix(socket, router, stop.clone()));
        Ok(Self {
            listen,
            metrics,
            stop,
            tasks,
            let_go,
            keeper,
            sign,
            signer,
            installation,
            _lock: lock,
            gateway,
        })
    }

    /// Stops: streams end with UNAVAILABLE, boxes go on running, the log is closed.
    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        self.let_go.cancel();
        self.keeper.close();
        self.keeper.wait().await;
        self.gateway.drained().await;
        self.sign.cancel();
        self.signer.close();
        self.signer.wait().await;
        self.installation.close().await;
    }
}

async fn bind(address: std::net::SocketAddr) -> Result<TcpListener, StartError> {
    let listener = TcpListener::bind(address).await;
    listener.map_err(|source| StartError::Listen { address, source })
}
