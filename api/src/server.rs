//! The one process: stores, views, reactors and every door that clients come in by.

mod listen;

use std::{
    collections::HashMap,
    fs::Permissions,
    io,
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Router, middleware};
use cocoonbox_events::{
    Clock, Ids, KeyStore, SqliteStore, Store, SystemClock, SystemIds, sqlite::OpenError,
};
use cocoonbox_machines::{Container, Limits, Machines, container};
use cocoonbox_projections::{Runner, Views};
use cocoonbox_proto::{
    agent::v1::{agents_server::AgentsServer, session_server::SessionServer},
    control::v1::{boxes_server::BoxesServer, users_server::UsersServer},
};
use tokio::net::{TcpListener, UnixListener};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    accounts::{AccountError, Accounts},
    auth,
    boxes::Boxes,
    channel::Channels,
    config::{self, Config},
    credential::Signer,
    door::DoorServices,
    edge::{self, Edge},
    gateway::{self, Gateway},
    lifecycle::{Context, Lifecycle},
    session::{Replica, SERVED_HERE},
    usage::Ledger,
    users::Users,
    vault::{Vault, VaultError},
};

/// The api before us may need a moment to end. One that was killed may have children on their way into a
/// program, which hold its locks until they are there.
const LOCK_WAIT: Duration = Duration::from_secs(10);
const LOCK_STEP: Duration = Duration::from_millis(20);

/// A running api.
pub struct Server {
    /// Where TCP clients connect.
    pub listen: std::net::SocketAddr,
    stop: CancellationToken,
    tasks: TaskTracker,
    store: Arc<SqliteStore>,
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
    #[error("opening the keys")]
    Keys(#[source] cocoonbox_events::keys::KeyStoreError),
    #[error("opening the log")]
    Store(#[source] cocoonbox_events::sqlite::OpenError),
    #[error("opening the views")]
    Views(#[source] cocoonbox_projections::database::OpenError),
    #[error(transparent)]
    Vault(#[from] VaultError),
    #[error("preparing the accounts")]
    Accounts(#[from] AccountError),
    #[error(transparent)]
    Gateway(#[from] gateway::Error),
    #[error(transparent)]
    Config(#[from] config::ConfigError),
    #[error("preparing the machines")]
    Machines(#[from] cocoonbox_machines::Error),
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
        for name in ["views.db", "vault.db"] {
            private_file(&data.join(name))?;
        }
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let ids: Arc<dyn Ids> = Arc::new(SystemIds);
        let keys = Arc::new(KeyStore::open(&data).map_err(StartError::Keys)?);
        let open = || {
            let (keys, clock, ids) = (keys.clone(), clock.clone(), ids.clone());
            SqliteStore::open(data.join("log.db"), keys, clock, ids)
        };
        let sqlite = Arc::new(unlocked(open).await.map_err(StartError::Store)?);
        let store: Arc<dyn Store> = sqlite.clone();
        let vault = Vault::open(&data.join("vault.db"), keys.derive("token hashes"))?;
        let signer = Arc::new(Signer::new(&keys.derive("edge signing key")));
        let accounts = Arc::new(Accounts::new(store.clone(), vault, ids.clone()));
        accounts.start().await?;
        let views = Views::open(&data.join("views.db")).map_err(StartError::Views)?;
        let runner = Runner::new(store.clone(), views.clone());

        let machines: Arc<dyn Machines> = Arc::new(Container::new(container::Config::new(&data))?);
        let channels = Channels::default();
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
        let sink = Ledger {
            accounts: accounts.clone(),
            store: store.clone(),
            ids: ids.clone(),
        };
        let gateway = Arc::new(Gateway::new(config.gateway.clone(), Arc::new(sink))?);
        let door = Arc::new(DoorServices::new(
            gateway.clone(),
            config.file.web.policy()?,
            vec![listen],
        ));
        let limits = &config.file.limits;
        let context = Arc::new(Context {
            store: store.clone(),
            machines: machines.clone(),
            channels: channels.clone(),
            signer,
            door,
            clock,
            ids: ids.clone(),
            image: config.image.clone(),
            agent: config.agent.clone(),
            limits: Limits {
                memory_bytes: limits.memory_bytes,
                cpu_millis: limits.cpu_millis,
                pids: limits.pids,
            },
            model: config.model.clone(),
        });

        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let edge = Arc::new(Edge {
            views: views.clone(),
            channels,
        });
        let users = Users {
            accounts: accounts.clone(),
            store: store.clone(),
            views: views.clone(),
            ids: ids.clone(),
            stop: stop.clone(),
        };
        let boxes = Boxes {
            accounts: accounts.clone(),
            store: store.clone(),
            views: views.clone(),
            ids,
            promises: machines.promises(),
            image: config
                .image
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            boxes_per_user: limits.boxes_per_user,
            stop: stop.clone(),
            ensuring: Mutex::new(HashMap::new()),
        };
        let replica = Replica {
            edge: edge.clone(),
            store,
            views,
            stop: stop.clone(),
        };
        let router = router(accounts, users, boxes, replica, edge).await?;

        let socket = unix_socket(&data.join("run/api.sock"))?;
        tasks.spawn(runner.run(stop.clone()));
        tasks.spawn(Lifecycle::new(context).run(stop.clone()));
        tasks.spawn(listen::tcp(listener, router.clone(), stop.clone()));
        tasks.spawn(listen::unix(socket, router, stop.clone()));
        Ok(Self {
            listen,
            stop,
            tasks,
            store: sqlite,
            gateway,
        })
    }

    /// Stops: streams end with UNAVAILABLE, boxes go on running, the log is closed.
    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        self.gateway.drained().await;
        self.store.close().await;
    }
}

async fn router(
    accounts: Arc<Accounts>,
    users: Users,
    boxes: Boxes,
    replica: Replica,
    edge: Arc<Edge>,
) -> Result<Router, StartError> {
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter.set_serving::<BoxesServer<Boxes>>().await;
    reporter.set_serving::<UsersServer<Users>>().await;
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(cocoonbox_proto::DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()
        .map_err(StartError::Reflection)?;
    let services = tonic::service::Routes::new(UsersServer::new(users))
        .add_service(BoxesServer::new(boxes))
        .add_service(health)
        .add_service(reflection)
        .into_axum_router();
    let [events, list, transcript] = SERVED_HERE;
    let routed = services
        .route_service(events, SessionServer::new(replica.clone()))
        .route_service(list, AgentsServer::new(replica.clone()))
        .route_service(transcript, AgentsServer::new(replica))
        .fallback_service(axum::routing::any(edge::forward).with_state(edge));
    Ok(routed
        .layer(middleware::from_fn_with_state(accounts, auth::identify))
        .layer(middleware::from_fn(listen::only_grpc)))
}

/// Opens the log once nobody else has it open.
async fn unlocked(
    open: impl Fn() -> Result<SqliteStore, OpenError>,
) -> Result<SqliteStore, OpenError> {
    let deadline = tokio::time::Instant::now() + LOCK_WAIT;
    loop {
        match open() {
            Err(OpenError::Locked { .. }) if tokio::time::Instant::now() < deadline => {
                tokio::time::sleep(LOCK_STEP).await;
            }
            outcome => return outcome,
        }
    }
}

/// Makes a folder that only we may look into.
fn private_dir(path: &Path) -> Result<(), StartError> {
    let failed = |source| StartError::Io {
        doing: "making",
        path: path.into(),
        source,
    };
    std::fs::create_dir_all(path).map_err(failed)?;
    // Boxes run as other users beneath this folder: they may pass through, not look around.
    std::fs::set_permissions(path, Permissions::from_mode(0o711)).map_err(failed)
}

/// Makes a file that only we may read, if it is absent.
fn private_file(path: &Path) -> Result<(), StartError> {
    let failed = |source| StartError::Io {
        doing: "making",
        path: path.into(),
        source,
    };
    std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
        .and_then(|file| file.set_permissions(Permissions::from_mode(0o600)))
        .map_err(failed)
}

/// Binds the operator's socket. The store's lock has made sure that no other api uses this folder.
fn unix_socket(path: &Path) -> Result<UnixListener, StartError> {
    let failed = |doing| {
        move |source| StartError::Io {
            doing,
            path: path.into(),
            source,
        }
    };
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(failed("removing the stale socket")(error));
        }
        _ => {}
    }
    let listener = UnixListener::bind(path).map_err(failed("listening on"))?;
    std::fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(failed("closing off"))?;
    Ok(listener)
}
