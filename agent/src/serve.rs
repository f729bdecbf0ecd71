//! The process that holds the box's log: turn loops, execs and the gRPC server, as `cbagent`.

pub(crate) mod desktop;
pub(crate) mod history;

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::Duration,
};

use cocoonbox_events::{Clock, NoKeys, SqliteStore, Store, SystemClock, SystemIds};
use cocoonbox_proto::agent::v1::{
    agents_server::AgentsServer, box_log_server::BoxLogServer, fence_server::FenceServer,
    saves_server::SavesServer, session_server::SessionServer,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Mutex,
    time::{sleep, timeout},
};
use tokio_stream::{StreamExt as _, wrappers::TcpListenerStream};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::transport::Server;

use self::desktop::Desktop;
use crate::{
    blobs::Blobs,
    control::Displays,
    desktop::Plan,
    exec::{Execs, Toolhost},
    handover::Handover,
    identity::{self, IdentityFile},
    journal::{Crash, Journal},
    mcp,
    rpc::{
        AgentsService, BoxLogService, FenceService, Gate, GuardLayer, SavesService, SessionService,
    },
    saves::Saves,
    seats::Seats,
    tool::{
        ShellTool, TaskTool, TerminalTool, Tools, WebTool, browser_tools, computer_tools,
        file_tools, own_tools,
    },
    turn::Agents,
    wire::Door,
};

/// The identity is written while the box starts; without one there is nobody to answer to.
const IDENTITY_WAIT: Duration = Duration::from_secs(30);
const IDENTITY_LOOK: Duration = Duration::from_millis(50);

/// Calls of one connection: the edge has one per box.
const CALLS_MAX: u32 = 2_048;
/// Input of pipes whose commands do not read must not starve the other calls.
const CONNECTION_WINDOW_BYTES: u32 = 16 * 1024 * 1024;
const STREAM_WINDOW_BYTES: u32 = 64 * 1024;

/// A prompt with the pictures that it may have.
const SEND_BYTES_MAX: usize = 34 * 1024 * 1024;

/// From being told to stop to being gone, streams of clients included.
const STOP_MAX: Duration = Duration::from_millis(2_500);

/// Settings of the process.
#[derive(Clone, Debug)]
pub struct Config {
    pub identity: PathBuf,
    /// The folder of `agent.db`.
    pub data: PathBuf,
    pub listen: SocketAddr,
    /// The toolhost's socket.
    pub toolhost: PathBuf,
    /// The desktop's socket. It need not exist.
    pub desktop: PathBuf,
    /// Where the browser is asked for. It need not exist.
    pub browser: PathBuf,
    /// Where the display is acted on. It need not exist. The sockets of displays for one agent stand beside it.
    pub computer: PathBuf,
    /// What such displays are made of.
    pub plan: Option<Plan>,
    /// The door through which models are reached.
    pub door: SocketAddr,
    /// For tests: abort just before the n-th append; 0 = never. Builds without debug assertions
    /// ignore it.
    pub crash_at: u64,
    /// For tests: abort just after the n-th append.
    pub crash_after: u64,
}

/// Why the process cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is no usable identity")]
    Identity(#[source] identity::Error),
    #[error("opening the box's log")]
    Open(#[source] cocoonbox_events::sqlite::OpenError),
    #[error("listening on `{address}`")]
    Listen {
        address: SocketAddr,
        #[source]
        source: std::io::Error,
    },
    #[error("serving")]
    Serve(#[source] tonic::transport::Error),
    #[error("the log cannot be written any more")]
    Broken,
}

/// Serves until `stop`. `ready` is told the address once calls are answered.
pub async fn serve(
    config: Config,
    stop: CancellationToken,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), Error> {
    let identity = identity(&config, &stop).await.map_err(Error::Identity)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let journal = open_journal(&config, &identity, &clock)?;
    let address = config.listen;
    let listen = |source| Error::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(listen)?;
    let bound = listener.local_addr().map_err(listen)?;

    let box_id = identity.current().box_id.clone();
    let wake_id = identity.current().wake_id.clone();
    let stop_turns = CancellationToken::new();
    let toolhost = Toolhost::new(config.toolhost.clone());
    let execs = Execs::new(journal.clone(), toolhost.clone());
    let blobs = Blobs::new(journal.clone());
    let tools = Tools::new(blobs.clone());
    let displays = Displays::default();
    let tasks = TaskTracker::new();
    let seats = Seats::new(
        config.computer.clone(),
        config.plan.clone(),
        wake_id.clone(),
        journal.clone(),
        displays.clone(),
        tasks.clone(),
        stop_turns.clone(),
    );
    tools.replace(
        "shell",
        vec![
            Arc::new(ShellTool::new(execs.clone(), seats.clone())),
            Arc::new(TerminalTool::new(execs.clone(), seats.clone())),
        ],
    );
    tools.replace("files", file_tools(&toolhost));
    tools.replace("web", vec![Arc::new(WebTool::new(&toolhost))]);
    // Init makes the socket before it starts us, where the image has a browser.
    if config.browser.exists() {
        tools.replace(
            "browser",
            browser_tools(config.browser.clone(), displays.clone(), blobs.clone()),
        );
    }
    if config.computer.exists() {
        tools.replace(
            "computer",
            computer_tools(seats.clone(), displays.clone(), blobs.clone()),
        );
    }
    tools.replace("own", own_tools(&blobs, &toolhost));
    let (door, stop_servers) = (config.door, stop_turns.clone());
    let mcp = mcp::Servers::new(toolhost.clone(), execs.clone(), door, stop_servers);
    tools.follow(mcp.clone());
    let for_tasks = Arc::new(OnceLock::new());
    tools.replace(
        "task",
        vec![Arc::new(TaskTool::new(Arc::clone(&for_tasks)))],
    );
    let door = Door::new(config.door);
    let stop_agents = stop_turns.clone();
    let saves = Saves::default();
    let agents = Agents::new(
        journal.clone(),
        tools,
        toolhost,
        door,
        saves.clone(),
        &box_id,
        stop_agents,
    );
    // It starts agents, and they hold it.
    for_tasks.set(agents.clone()).ok();
    // What was under way is taken up at the release.
    let gate = Gate::default();
    let (health, health_service) = tonic_health::server::health_reporter();
    let session = SessionServer::new(SessionService {
        journal: journal.clone(),
        agents: agents.clone(),
        execs: execs.clone(),
        identity: identity.clone(),
        gate: gate.clone(),
        tasks: tasks.clone(),
    });
    health.set_serving::<SessionServer<SessionService>>().await;
    let handover = Handover {
        seats: seats.clone(),
        displays: displays.clone(),
        journal: journal.clone(),
        blobs: blobs.clone(),
        agents: agents.clone(),
        stop: stop_turns.clone(),
    };
    let box_log = BoxLogServer::new(BoxLogService {
        journal: journal.clone(),
        agents: agents.clone(),
        execs: execs.clone(),
        gate: gate.clone(),
        saves: saves.clone(),
        desktop: Desktop::new(
            config.desktop.clone(),
            wake_id,
            seats.clone(),
            stop_turns.clone(),
        ),
        handover,
        seats,
        blobs: blobs.clone(),
        stop_turns: stop_turns.clone(),
        tasks: tasks.clone(),
        releasing: Mutex::default(),
    });
    let fence = FenceServer::new(FenceService {
        displays,
        tasks: tasks.clone(),
        stop: stop_turns.clone(),
    });
    let saves = SavesServer::new(SavesService {
        saves,
        tasks: tasks.clone(),
        stop: stop_turns.clone(),
    });
    let agents_service = AgentsServer::new(AgentsService {
        agents: agents.clone(),
        journal: journal.clone(),
        blobs,
        identity: identity.clone(),
    })
    .max_decoding_message_size(SEND_BYTES_MAX);
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(cocoonbox_proto::DESCRIPTORS)
        .build_v1()
        .ok();
    let stop_server = CancellationToken::new();
    let server = Server::builder()
        .max_concurrent_streams(CALLS_MAX)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .layer(GuardLayer {
            identity,
            clock,
            gate: gate.clone(),
        })
        .add_service(session)
        .add_service(box_log)
        .add_service(fence)
        .add_service(saves)
        .add_service(agents_service)
        .add_service(health_service)
        .add_optional_service(reflection)
        .serve_with_incoming_shutdown(
            TcpListenerStream::new(listener).map(at_once),
            stop_server.clone().cancelled_owned(),
        );
    tokio::pin!(server);
    ready(bound);
    let broken = journal.broken().clone();
    let is_broken = tokio::select! {
        served = &mut server => return served.map_err(Error::Serve),
        () = stop.cancelled() => false,
        () = broken.cancelled() => true,
    };
    gate.close();
    let stopping = async {
        stop_turns.cancel();
        agents.ended().await;
        execs.interrupt().await;
        mcp.ended().await;
        if journal.released().is_some()
            && let Err(error) = journal.close().await
        {
            tracing::warn!(%error, "log not closed");
        }
        journal.over().cancel();
        stop_server.cancel();
    };
    // The server goes on meanwhile, so that followers get the last events.
    let ended = timeout(STOP_MAX, futures::future::join(stopping, &mut server)).await;
    if ended.is_err() {
        tracing::info!("clients still listened");
    }
    if is_broken {
        Err(Error::Broken)
    } else {
        Ok(())
    }
}

/// Sends small frames as they come. Held back until the other side has acknowledged the last one, the
/// first output of a command would be 40 ms late.
fn at_once(accepted: std::io::Result<TcpStream>) -> std::io::Result<TcpStream> {
    let stream = accepted?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn identity(
    config: &Config,
    stop: &CancellationToken,
) -> Result<IdentityFile, identity::Error> {
    let mut waited = Duration::ZERO;
    loop {
        match IdentityFile::open(&config.identity) {
            Ok(identity) => return Ok(identity),
            Err(error) if waited >= IDENTITY_WAIT || stop.is_cancelled() => return Err(error),
            Err(_) => {}
        }
        sleep(IDENTITY_LOOK).await;
        waited += IDENTITY_LOOK;
    }
}

fn open_journal(
    config: &Config,
    identity: &IdentityFile,
    clock: &Arc<dyn Clock>,
) -> Result<Journal, Error> {
    let path = config.data.join("agent.db");
    let store = SqliteStore::open(
        path,
        Arc::new(NoKeys),
        Arc::new(SystemClock),
        Arc::new(SystemIds),
    )
    .map_err(Error::Open)?;
    let mut store: Arc<dyn Store> = Arc::new(store);
    if cfg!(debug_assertions) && (config.crash_at > 0 || config.crash_after > 0) {
        store = Arc::new(Crash::new(store, config.crash_at, config.crash_after));
    }
    let box_id = &identity.current().box_id;
    let ids = Arc::new(SystemIds);
    let restoring = config.data.join("agent.db.restoring");
    Ok(Journal::new(
        store,
        &restoring,
        box_id,
        Arc::clone(clock),
        ids,
    ))
}
