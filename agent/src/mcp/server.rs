//! One server's life: started when it is needed, again when it failed, stopped when it is idle.

use std::{
    sync::{
        Arc, Mutex as StdMutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rmcp::{
    ClientHandler, Peer, RoleClient,
    model::{
        ClientCapabilities, ClientConfig, Implementation, ProtocolVersion, SubscriptionFilter,
    },
    service::{
        ClientLifecycleMode, ClientServiceExt, NotificationContext, RunningService, Subscription,
    },
};
use tokio::{
    sync::{Mutex, Notify, watch},
    time::{Instant, sleep_until, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    catalogue::{self, Catalogue},
    config::{FILE, Reach},
    http::Outside,
    stdio::{Said, Stdio},
};
use crate::exec::{Execs, Spec, Toolhost};

/// From the start of a server to the list of its tools. Some fetch themselves from a registry first.
const START_MAX: Duration = Duration::from_secs(90);
/// How long a model call waits for one that is being started; its tools come with a later call.
const SETTLE_MAX: Duration = Duration::from_secs(10);
/// Without a call for so long it is stopped. Its tools stay listed, and a call starts it again.
const IDLE_MAX: Duration = Duration::from_mins(10);
/// One that has worked for so long has not failed at once, whatever ended it.
const STEADY: Duration = Duration::from_mins(1);
/// Before the third start in a row and its successors; the second is at once.
const BACKOFF_FIRST: Duration = Duration::from_secs(2);
const BACKOFF_MAX: Duration = Duration::from_mins(2);
/// Between two looks at a list that the server says has changed.
const RELIST_PACE: Duration = Duration::from_secs(5);
const LIST_MAX: Duration = Duration::from_secs(30);
const CLOSE_MAX: Duration = Duration::from_secs(3);
/// From the loss of a connection to knowing why.
const FAULT_MAX: Duration = Duration::from_secs(1);

/// What every server of a process shares.
#[derive(Clone)]
pub(super) struct Ground {
    pub(super) toolhost: Toolhost,
    pub(super) execs: Execs,
    pub(super) outside: Arc<Outside>,
    pub(super) tasks: TaskTracker,
}

pub(super) struct Server {
    pub(super) name: String,
    pub(super) reach: Reach,
    ground: Ground,
    stop: CancellationToken,
    line: Mutex<Line>,
    offered: watch::Sender<Offered>,
    used: StdMutex<Instant>,
    /// It was waited for in vain.
    is_slow: AtomicBool,
}

/// What is known of a server's tools.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Offered {
    /// Counts changes of the catalogue.
    pub(super) generation: u64,
    pub(super) catalogue: Catalogue,
    /// Why it does not work, if it does not.
    pub(super) fault: Option<String>,
}

/// The connection, if there is one.
struct Line {
    peer: Option<Peer<RoleClient>>,
    /// Counts connections, so that the end of one is not taken for that of the next.
    connection: u64,
    said: Said,
    failures: u32,
    next_start: Instant,
}

impl Server {
    pub(super) fn new(
        name: String,
        reach: Reach,
        ground: Ground,
        stop: CancellationToken,
    ) -> Arc<Self> {
        let line = Line {
            peer: None,
            connection: 0,
            said: Said::default(),
            failures: 0,
            next_start: Instant::now(),
        };
        Arc::new(Self {
            name,
            reach,
            ground,
            stop,
            line: Mutex::new(line),
            offered: watch::Sender::default(),
            used: StdMutex::new(Instant::now()),
            is_slow: AtomicBool::new(false),
        })
    }

    pub(super) fn offered(&self) -> Offered {
        self.offered.borrow().clone()
    }

    /// Stops it for good.
    pub(super) fn retire(&self) {
        self.stop.cancel();
    }

    /// Returns once its tools are known or it is known not to work, or at once if that was waited for
    /// before. It is being started meanwhile, and goes on being started if this is dropped.
    pub(super) async fn settled(self: &Arc<Self>) {
        let mut offered = self.offered.subscribe();
        if offered.borrow().generation > 0 {
            return;
        }
        // Else somebody is starting it.
        if self.line.try_lock().is_ok() {
            let server = Arc::clone(self);
            self.ground
                .tasks
                .spawn(async move { server.peer().await.is_ok() });
        }
        if self.is_slow.load(Ordering::Relaxed) {
            return;
        }
        let is_settled = |offered: &Offered| offered.generation > 0 || offered.fault.is_some();
        if timeout(SETTLE_MAX, offered.wait_for(is_settled))
            .await
            .is_err()
        {
            self.is_slow.store(true, Ordering::Relaxed);
        }
    }

    /// Returns a connection, made if there is none.
    pub(super) async fn peer(self: &Arc<Self>) -> Result<Peer<RoleClient>, String> {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        let mut line = self.line.lock().await;
        if let Some(peer) = line
            .peer
            .as_ref()
            .filter(|peer| !peer.is_transport_closed())
        {
            return Ok(peer.clone());
        }
        if self.stop.is_cancelled() {
            return Err("it is not set up any more".to_owned());
        }
        let wait = line.next_start.saturating_duration_since(Instant::now());
        if !wait.is_zero() {
            let fault = self.offered.borrow().fault.clone().unwrap_or_default();
            return Err(format!(
                "{fault}; it is tried again in {} s",
                wait.as_secs() + 1
            ));
        }
        let starting = timeout(START_MAX, self.start(&mut line));
        let started = tokio::select! {
            started = starting => started,
            () = self.stop.cancelled() => return Err("it is being stopped".to_owned()),
        };
        match started.unwrap_or_else(|_| Err("it did not get ready in time".to_owned())) {
            Ok(peer) => {
                line.peer = Some(peer.clone());
                Ok(peer)
            }
            Err(fault) => {
                let said = std::mem::take(&mut line.said).ending();
                let fault = if said.is_empty() {
                    fault
                } else {
                    format!("{fault}: {said}")
                };
                line.failed();
                self.offered
                    .send_modify(|offered| offered.fault = Some(fault.clone()));
                Err(fault)
            }
        }
    }

    async fn start(self: &Arc<Self>, line: &mut Line) -> Result<Peer<RoleClient>, String> {
        let changed = Arc::new(Notify::new());
        let running = self.connected(line, Arc::clone(&changed)).await?;
        let peer = running.peer().clone();
        let catalogue = catalogue::list(&self.name, &peer).await?;
        self.publish(catalogue);
        line.connection += 1;
        let kept = Kept {
            connection: line.connection,
            changed,
            said: line.said.clone(),
        };
        let keeper = Arc::clone(self).keep(running, kept);
        self.ground.tasks.spawn(keeper);
        Ok(peer)
    }

    async fn connected(
        &self,
        line: &mut Line,
        changed: Arc<Notify>,
    ) -> Result<RunningService<RoleClient, Client>, String> {
        let client = Client { changed };
        let mode = ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: None,
        };
        let connected = match &self.reach {
            Reach::Command { argv, cwd, .. } => {
                let spec = Spec {
                    exec_id: self.exec_id(),
                    argv: argv.clone(),
                    argv_told: argv_told(argv),
                    cwd: cwd.clone(),
                    env: self.reach.env(),
                    ..Spec::default()
                };
                let piped = self.ground.execs.piped(spec).await;
                let piped = piped.map_err(|error| error.to_string())?;
                let (stdio, said) = Stdio::new(piped);
                line.said = said;
                client.serve_with_lifecycle(stdio, mode).await
            }
            Reach::Url { url, headers } => {
                let transport = self.ground.outside.transport(url, headers)?;
                client.serve_with_lifecycle(transport, mode).await
            }
        };
        connected.map_err(|error| format!("it does not answer as an MCP server: {error}"))
    }

    /// Each start is an exec of its own.
    fn exec_id(&self) -> String {
        let is_plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        let name: String = self.name.chars().filter(is_plain).take(20).collect();
        format!("mcp-{name}-{}", self.ground.execs.draw())
    }

    fn publish(&self, catalogue: Catalogue) {
        self.offered.send_modify(|offered| {
            offered.fault = None;
            if offered.generation == 0 || offered.catalogue != catalogue {
                offered.generation += 1;
                offered.catalogue = catalogue;
            }
        });
    }

    /// Returns why it does not work, once that is known.
    pub(super) async fn fault(&self) -> Option<String> {
        let mut offered = self.offered.subscribe();
        let known = offered.wait_for(|offered| offered.fault.is_some());
        let known = timeout(FAULT_MAX, known).await.ok()?.ok()?;
        known.fault.clone()
    }

    /// Watches over a connection to its end.
    async fn keep(self: Arc<Self>, running: RunningService<RoleClient, Client>, kept: Kept) {
        let begun = Instant::now();
        let peer = running.peer().clone();
        let close = running.cancellation_token();
        let ended = running.waiting();
        tokio::pin!(ended);
        let mut changes = Changes::new(&peer, kept.changed).await;
        let has_ended = loop {
            tokio::select! {
                _ = &mut ended => break true,
                () = self.stop.cancelled() => break false,
                () = self.idle() => break false,
                () = changes.next() => {}
            }
            // What changes all the time is not looked at all the time.
            let pace = Instant::now() + RELIST_PACE;
            if let Ok(Ok(catalogue)) = timeout(LIST_MAX, catalogue::list(&self.name, &peer)).await {
                self.publish(catalogue);
            }
            tokio::select! {
                _ = &mut ended => break true,
                () = sleep_until(pace) => {}
                () = self.stop.cancelled() => {}
            }
        };
        // Nobody gets this connection any more.
        let mut line = self.line.lock().await;
        let is_last = line.connection == kept.connection;
        if is_last {
            line.peer = None;
        }
        if has_ended && is_last {
            if begun.elapsed() > STEADY {
                line.failures = 0;
            }
            line.failed();
            let fault = match kept.said.ending() {
                said if said.is_empty() => "it ended the connection".to_owned(),
                said => said,
            };
            tracing::info!(server = self.name, "MCP server ended");
            self.offered
                .send_modify(|offered| offered.fault = Some(fault));
            return;
        }
        drop(line);
        close.cancel();
        drop(timeout(CLOSE_MAX, ended).await);
    }

    async fn idle(&self) {
        loop {
            let used = *self.used.lock().unwrap_or_else(PoisonError::into_inner);
            let until = used + IDLE_MAX;
            if until <= Instant::now() {
                return;
            }
            sleep_until(until).await;
        }
    }
}

/// What the log has of a command line: people write keys behind the program's name.
fn argv_told(argv: &[String]) -> Vec<String> {
    let (program, rest) = argv.split_at(argv.len().min(1));
    let mut told = program.to_vec();
    if !rest.is_empty() {
        told.push(format!("[{} arguments, see {FILE}]", rest.len()));
    }
    told
}

impl Line {
    fn failed(&mut self) {
        self.failures = self.failures.saturating_add(1);
        let wait = match self.failures {
            0 | 1 => Duration::ZERO,
            more => BACKOFF_FIRST.saturating_mul(1 << (more - 2).min(10)),
        };
        self.next_start = Instant::now() + wait.min(BACKOFF_MAX);
    }
}

/// What is kept beside a connection.
struct Kept {
    connection: u64,
    changed: Arc<Notify>,
    said: Said,
}

/// Hears that the list of tools has changed, in either age of the protocol.
struct Changes {
    subscription: Option<Subscription>,
    changed: Arc<Notify>,
}

impl Changes {
    async fn new(peer: &Peer<RoleClient>, changed: Arc<Notify>) -> Self {
        let version = peer.peer_info().map(|peer| peer.protocol_version.clone());
        let subscription = if version >= Some(ProtocolVersion::V_2026_07_28) {
            let filter = SubscriptionFilter::builder().tools_list_changed().build();
            // One without this is one whose list does not change.
            let listening = timeout(LIST_MAX, peer.listen(filter)).await;
            listening.ok().and_then(Result::ok)
        } else {
            None
        };
        Self {
            subscription,
            changed,
        }
    }

    async fn next(&mut self) {
        let Some(subscription) = &mut self.subscription else {
            return self.changed.notified().await;
        };
        let is_over = tokio::select! {
            next = subscription.next() => !matches!(next, Ok(Some(_))),
            () = self.changed.notified() => false,
        };
        if is_over {
            self.subscription = None;
            self.changed.notified().await;
        }
    }
}

/// Our end, which asks and is not asked: no roots, no sampling, no questions to the user.
struct Client {
    changed: Arc<Notify>,
}

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        let implementation = Implementation::new("cocoonbox", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), implementation)
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }
}
