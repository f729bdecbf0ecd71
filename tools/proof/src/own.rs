//! Our own agent on the same task: its processes without a container, and a signed client.

use std::{net::SocketAddr, path::Path, process::Stdio, time::Duration};

use anyhow::{Context as _, Result, bail};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use cocoonbox_events::{AgentEvent, Clock, Ids, Kind, LogId, Payload, SystemClock, SystemIds};
use cocoonbox_proto::{
    agent::v1::{
        Branch, CreateAgentRequest, EventsRequest, ReleaseRequest, SendRequest,
        agents_client::AgentsClient, box_log_client::BoxLogClient, session_client::SessionClient,
    },
    log::v1::{Event, agent_turn_ended::Outcome, event_or_heartbeat::Item},
};
use ed25519_dalek::{Signer, SigningKey};
use futures::{StreamExt as _, stream};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    time::{Instant, sleep, timeout},
};
use tonic::{
    Request, Status,
    metadata::MetadataValue,
    service::{Interceptor, interceptor::InterceptedService},
    transport::{Channel, Endpoint},
};

use crate::usage::{self, Usage, Watch};

/// A real model on a small machine reads slowly.
const WAIT_MAX: Duration = Duration::from_mins(10);

/// Conversations that are begun at one time.
const TALKS_MAX: usize = 8;

#[derive(Clone)]
struct Signed(String);

impl Interceptor for Signed {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let value = MetadataValue::try_from(&self.0);
        let value = value.map_err(|_| Status::internal("not a header"))?;
        request
            .metadata_mut()
            .insert("x-cocoonbox-credential", value);
        Ok(request)
    }
}

type Line = InterceptedService<Channel, Signed>;

/// Our agent's processes, and a way to them. They end with this.
struct Own {
    serve: Child,
    toolhost: Child,
    line: Line,
}

/// What a turn took.
pub(crate) struct Turn {
    pub(crate) wall: Duration,
    /// Of the process that holds the log and the loops.
    pub(crate) agent: Usage,
    /// Of the process that starts commands, with these.
    pub(crate) toolhost: Usage,
    /// How long each command ran, by the log.
    pub(crate) commands: Vec<Duration>,
}

/// Plays the task once; the model is behind `door`.
pub(crate) async fn run(agent: &Path, wire: &str, door: SocketAddr, folder: &Path) -> Result<Turn> {
    let own = Own::start(agent, wire, door, folder).await?;
    let watch = Watch::over(own.serve.id().into_iter().collect());
    let beside = Watch::over(own.toolhost.id().into_iter().collect());
    let begun = Instant::now();
    own.send("", "go").await?;
    let ended = timeout(WAIT_MAX, own.ended(1)).await;
    let commands = ended.context("the turn did not end")??;
    Ok(Turn {
        wall: begun.elapsed(),
        agent: watch.usage().await,
        toolhost: beside.usage().await,
        commands,
    })
}

/// Holds `count` conversations of a turn each in one agent; returns its memory before and after.
pub(crate) async fn idle(
    agent: &Path,
    door: SocketAddr,
    folder: &Path,
    count: usize,
) -> Result<(u64, u64)> {
    let own = Own::start(agent, "openai", door, folder).await?;
    let pid = own.serve.id().context("the agent ended")?;
    let before = usage::resident(pid);
    let mut talks = stream::iter(0..count)
        .map(|number| own.talk(number))
        .buffer_unordered(TALKS_MAX);
    while let Some(talk) = talks.next().await {
        talk?;
    }
    drop(talks);
    let ended = timeout(WAIT_MAX, own.ended(count)).await;
    ended.context("the turns did not end")??;
    Ok((before, usage::resident(pid)))
}

impl Own {
    async fn start(agent: &Path, wire: &str, door: SocketAddr, folder: &Path) -> Result<Self> {
        let key = SigningKey::from_bytes(&[7; 32]);
        for name in ["data", "project", "home", "tmp"] {
            std::fs::create_dir_all(folder.join(name))?;
        }
        // The chat wire has no thinking to give back.
        let thinking = if wire == "openai" { 0 } else { 2_048 };
        let identity = serde_json::json!({
            "box_id": "box1", "wake_id": "wake1", "key_id": "key1",
            "public_key": BASE64_URL_SAFE_NO_PAD.encode(key.verifying_key().as_bytes()),
            "models": { "main": {
                "wire": wire, "model": "scripted-1", "output_tokens_max": 4_096, "thinking_tokens_max": thinking,
            } },
        });
        std::fs::write(folder.join("identity"), identity.to_string())?;
        let socket = folder.join("toolhost.sock");
        let mut toolhost = Command::new(agent);
        toolhost.arg("toolhost").arg("--socket").arg(&socket);
        for (flag, name) in [
            ("--workspace", "project"),
            ("--home", "home"),
            ("--temporary", "tmp"),
        ] {
            toolhost.arg(flag).arg(folder.join(name));
        }
        toolhost.stdin(Stdio::null()).stderr(log(folder)?);
        let toolhost = toolhost.kill_on_drop(true).spawn();
        let toolhost = toolhost.with_context(|| format!("starting `{}`", agent.display()))?;
        let (serve, address) = serve(agent, folder, &socket, door).await?;
        let line = line(&key, address)?;
        let lineage = vec![Branch {
            log_id: LogId(SystemIds.draw()).as_bytes().to_vec(),
            ..Branch::default()
        }];
        BoxLogClient::new(line.clone())
            .release(ReleaseRequest {
                lineage,
                ends_turns: false,
                saves_first: false,
            })
            .await?;
        Ok(Self {
            serve,
            toolhost,
            line,
        })
    }

    async fn send(&self, agent_id: &str, prompt: &str) -> Result<()> {
        let request = SendRequest {
            agent_id: agent_id.to_owned(),
            prompt: prompt.to_owned(),
            client_nonce: format!("proof {agent_id}"),
            ..SendRequest::default()
        };
        AgentsClient::new(self.line.clone()).send(request).await?;
        Ok(())
    }

    /// Makes an agent of its own and says something to it.
    async fn talk(&self, number: usize) -> Result<()> {
        let request = CreateAgentRequest {
            name: format!("agent {number}"),
            client_nonce: format!("agent {number}"),
            ..CreateAgentRequest::default()
        };
        let made = AgentsClient::new(self.line.clone()).create(request).await?;
        self.send(&made.into_inner().id, "go").await
    }

    /// Waits for the end of so many turns, which have to be good ones; returns how long commands ran.
    async fn ended(&self, turns: usize) -> Result<Vec<Duration>> {
        let mut events = SessionClient::new(self.line.clone())
            .events(EventsRequest::default())
            .await?
            .into_inner();
        let (mut commands, mut started, mut left) = (Vec::new(), 0, turns);
        while left > 0 {
            let item = events.message().await?.context("the events ended")?;
            let Some(Item::Event(event)) = item.item else {
                continue;
            };
            match event.kind.as_str() {
                "exec.started" => started = event.at_ms,
                "exec.exited" => {
                    let ran = u64::try_from(event.at_ms - started).unwrap_or(0);
                    commands.push(Duration::from_millis(ran));
                }
                "agent.turn_ended" => {
                    good(&event)?;
                    left -= 1;
                }
                _ => {}
            }
        }
        Ok(commands)
    }
}

/// Where processes of ours say what they do: it is not the proof's.
fn log(folder: &Path) -> Result<std::fs::File> {
    let mut options = std::fs::OpenOptions::new();
    Ok(options.create(true).append(true).open(folder.join("log"))?)
}

async fn serve(
    agent: &Path,
    folder: &Path,
    socket: &Path,
    door: SocketAddr,
) -> Result<(Child, SocketAddr)> {
    let deadline = Instant::now() + WAIT_MAX;
    while tokio::net::UnixStream::connect(socket).await.is_err() {
        if Instant::now() > deadline {
            bail!("the toolhost does not listen");
        }
        sleep(Duration::from_millis(5)).await;
    }
    let mut serve = Command::new(agent)
        .args([
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--door",
            &door.to_string(),
        ])
        .arg("--identity")
        .arg(folder.join("identity"))
        .arg("--data")
        .arg(folder.join("data"))
        .arg("--toolhost")
        .arg(socket)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log(folder)?)
        .kill_on_drop(true)
        .spawn()?;
    let stdout = serve.stdout.take().context("a pipe")?;
    let line = timeout(WAIT_MAX, BufReader::new(stdout).lines().next_line()).await??;
    let Some(line) = line else {
        let log = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
        bail!("the agent ended: {log}");
    };
    let address = line.trim().parse()?;
    Ok((serve, address))
}

fn line(key: &SigningKey, address: SocketAddr) -> Result<Line> {
    let expires = SystemClock.now_us() / 1_000_000 + 600;
    let fields = BASE64_URL_SAFE_NO_PAD.encode(format!("key1|box1|wake1|{expires}"));
    let signed = format!("v1.{fields}");
    let signature = BASE64_URL_SAFE_NO_PAD.encode(key.sign(signed.as_bytes()).to_bytes());
    let channel = Endpoint::from_shared(format!("http://{address}"))?.connect_lazy();
    Ok(InterceptedService::new(
        channel,
        Signed(format!("{signed}.{signature}")),
    ))
}

fn good(event: &Event) -> Result<()> {
    let kind = Kind::from_name(&event.kind).context("a known kind")?;
    match Payload::decode(kind.number(), event.version, &event.payload)? {
        Payload::Agent(AgentEvent::TurnEnded(end)) if end.outcome() == Outcome::Done => Ok(()),
        other => bail!("the turn ended badly: {other:?}"),
    }
}
