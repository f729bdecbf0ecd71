//! One box without a container: folders, a toolhost, a serve process, a door and a model.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use cocoonbox_events::{Clock, Ids, Kind, LogId, Payload, SystemClock, SystemIds};
use cocoonbox_model::{Script, Server};
use cocoonbox_proto::{
    agent::v1::{
        Branch, EventsRequest, ReleaseRequest, SendRequest, agents_client::AgentsClient,
        box_log_client::BoxLogClient, saves_client::SavesClient, session_client::SessionClient,
    },
    log::v1::{Event, EventOrHeartbeat, Tail, event_or_heartbeat::Item},
};
use ed25519_dalek::{Signer, SigningKey};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    time::{Instant, sleep, timeout},
};
use tonic::{
    Request, Status, Streaming,
    metadata::MetadataValue,
    service::{Interceptor, interceptor::InterceptedService},
    transport::{Channel, Endpoint},
};

/// Anything that a test waits for happens by then, or the test fails.
pub(crate) const DEADLINE: Duration = Duration::from_mins(1);

const AGENT: &str = env!("CARGO_BIN_EXE_cocoonbox-agent");

pub(crate) struct World {
    pub(crate) folder: TempDir,
    pub(crate) model: Server,
    pub(crate) key: SigningKey,
    /// What the box is released with.
    pub(crate) lineage: Vec<Branch>,
    /// Whether it is told at its release to have files saved before they may be destroyed.
    pub(crate) saves_first: bool,
    door: crate::door::Door,
    toolhost: Option<Child>,
    serve: Option<tokio::process::Child>,
    pub(crate) addr: SocketAddr,
}

#[derive(Clone)]
pub(crate) struct Signed(pub(crate) String);

impl Interceptor for Signed {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let value = MetadataValue::try_from(&self.0).expect("ascii");
        request
            .metadata_mut()
            .insert("x-cocoonbox-credential", value);
        Ok(request)
    }
}

pub(crate) type Client = InterceptedService<Channel, Signed>;

impl World {
    /// A box on the wire `anthropic` or `openai` whose model plays `script`.
    pub(crate) async fn new(wire: &str, script: &str) -> Self {
        let mut world = Self::dark(wire, script).await;
        world.start_toolhost();
        world.start_serve(&[]).await;
        world
    }

    /// Everything but the agent's processes.
    pub(crate) async fn dark(wire: &str, script: &str) -> Self {
        let folder = TempDir::with_prefix("box").expect("a folder");
        for name in ["data", "workspace", "home", "tmp"] {
            std::fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        let script = Script::parse(script).expect("a script");
        let model = Server::start_local(script).await.expect("a model");
        let door = crate::door::Door::to(model.addr()).await;
        let key = SigningKey::from_bytes(&[7; 32]);
        let identity = serde_json::json!({
            "box_id": "box1",
            "wake_id": "wake1",
            "key_id": "key1",
            "public_key": BASE64_URL_SAFE_NO_PAD.encode(key.verifying_key().as_bytes()),
            "models": { "main": { "wire": wire, "model": "scripted", "output_tokens_max": 4096 } },
        });
        std::fs::write(folder.path().join("identity"), identity.to_string()).expect("a write");
        let lineage = vec![Branch {
            log_id: LogId(SystemIds.draw()).as_bytes().to_vec(),
            ..Branch::default()
        }];
        let addr = SocketAddr::from(([127, 0, 0, 1], 1));
        Self {
            folder,
            model,
            key,
            lineage,
            saves_first: false,
            door,
            toolhost: None,
            serve: None,
            addr,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.path("workspace")
    }

    pub(crate) fn start_toolhost(&mut self) {
        self.start_toolhost_by(Command::new(AGENT), None);
    }

    /// As a user who may have so many processes.
    pub(crate) fn start_toolhost_as(&mut self, uid: u32, processes: u32) {
        // Where it was built, others may not look.
        let program = self.path("cocoonbox-agent");
        if std::fs::hard_link(AGENT, &program).is_err() {
            std::fs::copy(AGENT, &program).expect("a copy of the agent");
        }
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid", &uid.to_string(), "--regid", &uid.to_string()])
            .args(["--clear-groups", "prlimit", &format!("--nproc={processes}")])
            .arg(program);
        self.start_toolhost_by(command, None);
    }

    /// With another door for everything that it fetches.
    pub(crate) fn start_toolhost_behind(&mut self, door: SocketAddr) {
        self.start_toolhost_by(Command::new(AGENT), Some(door));
    }

    /// With another door, and a certificate that it trusts in the place of all others.
    pub(crate) fn start_toolhost_trusting(&mut self, certificate: &Path, door: SocketAddr) {
        let mut command = Command::new(AGENT);
        command.env("SSL_CERT_FILE", certificate);
        command.env_remove("SSL_CERT_DIR");
        self.start_toolhost_by(command, Some(door));
    }

    fn start_toolhost_by(&mut self, mut command: Command, door: Option<SocketAddr>) {
        self.stop_toolhost();
        std::fs::remove_file(self.path("toolhost.sock")).ok();
        if let Some(door) = door {
            command.arg("toolhost").arg("--door").arg(door.to_string());
        } else {
            command.arg("toolhost");
        }
        let child = command
            .arg("--socket")
            .arg(self.path("toolhost.sock"))
            .arg("--workspace")
            .arg(self.workspace())
            .arg("--home")
            .arg(self.path("home"))
            .arg("--temporary")
            .arg(self.path("tmp"))
            .stdin(Stdio::null())
            .spawn()
            .expect("a toolhost");
        self.toolhost = Some(child);
        let path = self.path("toolhost.sock");
        for _ in 0..2_000 {
            // The file is there a moment before somebody listens.
            if std::os::unix::net::UnixStream::connect(&path).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("no toolhost");
    }

    pub(crate) fn toolhost_pid(&self) -> u32 {
        self.toolhost.as_ref().expect("a toolhost").id()
    }

    pub(crate) fn serve_pid(&self) -> u32 {
        self.serve
            .as_ref()
            .and_then(tokio::process::Child::id)
            .expect("a serve")
    }

    /// Starts the serve process and releases it; false if it ended before it answered.
    pub(crate) async fn start_serve(&mut self, env: &[(&str, String)]) -> bool {
        self.start_paused(env).await && self.release().await.is_ok()
    }

    /// Tells the box which log it writes.
    pub(crate) async fn release(&self) -> Result<Tail, Status> {
        let lineage = self.lineage.clone();
        let released = self
            .box_log()
            .release(ReleaseRequest {
                lineage,
                ends_turns: false,
                saves_first: self.saves_first,
            })
            .await;
        released.map(tonic::Response::into_inner)
    }

    /// Starts the serve process; false if it ended before it listened.
    pub(crate) async fn start_paused(&mut self, env: &[(&str, String)]) -> bool {
        let mut child = tokio::process::Command::new(env!("CARGO_BIN_EXE_cocoonbox-agent"))
            .args(["serve", "--listen", "127.0.0.1:0"])
            .arg("--identity")
            .arg(self.path("identity"))
            .arg("--data")
            .arg(self.path("data"))
            .arg("--toolhost")
            .arg(self.path("toolhost.sock"))
            .arg("--door")
            .arg(self.door.addr.to_string())
            .envs(env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("a serve");
        let stdout = child.stdout.take().expect("a pipe");
        let mut lines = BufReader::new(stdout).lines();
        let line = timeout(DEADLINE, lines.next_line())
            .await
            .expect("in time")
            .expect("readable");
        self.serve = Some(child);
        let Some(line) = line else { return false };
        self.addr = line.trim().parse().expect("an address");
        true
    }

    /// Waits for the serve process to end by itself.
    pub(crate) async fn serve_ended(&mut self) -> bool {
        let serve = self.serve.as_mut().expect("a serve");
        timeout(DEADLINE, serve.wait()).await.is_ok()
    }

    pub(crate) fn serve_is_running(&mut self) -> bool {
        self.serve
            .as_mut()
            .is_some_and(|serve| serve.try_wait().expect("a status").is_none())
    }

    pub(crate) async fn kill_serve(&mut self) {
        if let Some(mut serve) = self.serve.take() {
            serve.kill().await.ok();
        }
    }

    pub(crate) fn stop_toolhost(&mut self) {
        if let Some(mut toolhost) = self.toolhost.take() {
            toolhost.kill().ok();
            toolhost.wait().ok();
        }
    }

    pub(crate) fn credential(&self, box_id: &str, wake_id: &str, in_s: i64) -> String {
        let expires = SystemClock.now_us() / 1_000_000 + in_s;
        sign(&self.key, &format!("key1|{box_id}|{wake_id}|{expires}"))
    }

    fn client(&self) -> Client {
        let channel = Endpoint::from_shared(format!("http://{}", self.addr))
            .expect("an address")
            .initial_connection_window_size(64 * 1024 * 1024)
            .connect_lazy();
        InterceptedService::new(channel, Signed(self.credential("box1", "wake1", 600)))
    }

    pub(crate) fn session(&self) -> SessionClient<Client> {
        SessionClient::new(self.client())
    }

    pub(crate) fn agents(&self) -> AgentsClient<Client> {
        AgentsClient::new(self.client())
    }

    pub(crate) fn box_log(&self) -> BoxLogClient<Client> {
        BoxLogClient::new(self.client())
    }

    pub(crate) fn saves(&self) -> SavesClient<Client> {
        SavesClient::new(self.client())
    }

    pub(crate) async fn send(&self, prompt: &str) -> String {
        let request = SendRequest {
            prompt: prompt.to_owned(),
            client_nonce: "n1".to_owned(),
            ..SendRequest::default()
        };
        self.agents()
            .send(request)
            .await
            .expect("accepted")
            .into_inner()
            .offset_key
    }

    /// Every event so far.
    pub(crate) async fn events(&self) -> Vec<Event> {
        let request = EventsRequest {
            no_follow: true,
            ..EventsRequest::default()
        };
        let mut stream = self
            .session()
            .events(request)
            .await
            .expect("a stream")
            .into_inner();
        let mut events = Vec::new();
        while let Some(item) = stream.message().await.expect("an item") {
            if let Some(Item::Event(event)) = item.item {
                events.push(event);
            }
        }
        events
    }

    /// Follows the log from its beginning.
    pub(crate) async fn follow(&self) -> Following {
        let request = EventsRequest::default();
        let stream = self.session().events(request).await.expect("a stream");
        Following(stream.into_inner())
    }

    /// Follows the log until `found` says so and returns everything up to there.
    pub(crate) async fn until(&self, mut found: impl FnMut(&Event) -> bool) -> Vec<Event> {
        let request = EventsRequest::default();
        let mut stream = self
            .session()
            .events(request)
            .await
            .expect("a stream")
            .into_inner();
        let mut events = Vec::new();
        let deadline = Instant::now() + DEADLINE;
        loop {
            let item = tokio::time::timeout_at(deadline, stream.message()).await;
            let Ok(item) = item else {
                panic!("not in time; so far:\n{}", story(&events).join("\n"))
            };
            let Some(item) = item.expect("an item") else {
                panic!("the stream ended")
            };
            if let Some(Item::Event(event)) = item.item {
                let last = found(&event);
                events.push(event);
                if last {
                    return events;
                }
            }
        }
    }

    pub(crate) async fn until_kind(&self, kind: &str) -> Vec<Event> {
        self.until(|event| event.kind == kind).await
    }
}

/// The log as it grows.
pub(crate) struct Following(Streaming<EventOrHeartbeat>);

impl Following {
    pub(crate) async fn next(&mut self) -> Event {
        loop {
            let item = timeout(DEADLINE, self.0.message()).await.expect("in time");
            let item = item.expect("an item").expect("not the end");
            if let Some(Item::Event(event)) = item.item {
                return event;
            }
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop_toolhost();
    }
}

pub(crate) fn sign(key: &SigningKey, fields: &str) -> String {
    let signed = format!("v1.{}", BASE64_URL_SAFE_NO_PAD.encode(fields));
    let signature = key.sign(signed.as_bytes()).to_bytes();
    format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
}

pub(crate) fn payload(event: &Event) -> Payload {
    let kind = Kind::from_name(&event.kind).expect("a known kind");
    Payload::decode(kind.number(), event.version, &event.payload).expect("a payload")
}

/// Kinds, in order.
pub(crate) fn story(events: &[Event]) -> Vec<String> {
    events
        .iter()
        .map(|event| format!("{} {}", event.stream, event.kind))
        .collect()
}

/// Waits until `holds`.
pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// A number of seconds that no other test, in this run or another, sleeps for: it tells processes.
pub(crate) fn mark() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!(
        "9{}.{}7",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    )
}

/// Process ids whose command line holds `text`, zombies left out.
pub(crate) fn processes_with(text: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("proc").flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if String::from_utf8_lossy(&line)
            .replace('\0', " ")
            .contains(text)
        {
            found.push(pid);
        }
    }
    found
}

/// Resident bytes of a process.
pub(crate) fn resident_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a status");
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .expect("a line");
    let kib: u64 = line
        .split_ascii_whitespace()
        .nth(1)
        .expect("a number")
        .parse()
        .expect("digits");
    kib * 1024
}

pub(crate) fn read(path: &Path) -> String {
    std::fs::read_to_string(path).expect("a file")
}
