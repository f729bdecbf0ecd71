//! The ways of a call to the vendor.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::ensure;
use cocoonbox_api::{
    accounts::Accounts,
    budget::{Books, Prices},
    door::{self, Channel, DoorServices, WebPolicy},
    gateway::{self, Gateway, GatewayConfig, Secret},
    usage::Ledger,
    vault::Vault,
};
use cocoonbox_commands::budget::{Command, Key, Limit};
use cocoonbox_events::{Ids as _, LogId, LogKind, NewLog, SystemClock, SystemIds};
use cocoonbox_installation::{Address, Installation, Purpose};
use cocoonbox_proto::log::v1::Actor;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use super::vendor::{self, Vendor};

const USER: &str = "bench";

pub(super) enum Way {
    Direct(SocketAddr),
    Gateway(Box<Behind>),
}

pub(super) struct Behind {
    address: SocketAddr,
    has_budget: bool,
    gateway: Arc<Gateway>,
    installation: Installation,
    stop: CancellationToken,
    serving: JoinHandle<()>,
    _dir: TempDir,
}

impl Way {
    pub(super) fn direct(vendor: &Vendor) -> Self {
        Self::Direct(vendor.address)
    }

    pub(super) async fn gateway(
        vendor: &Vendor,
        dir: &Path,
        has_budget: bool,
    ) -> anyhow::Result<Self> {
        let dir = TempDir::new_in(dir)?;
        let address = Address::parse("sqlite:", dir.path())?;
        let (clock, ids) = (Arc::new(SystemClock), Arc::new(SystemIds));
        let opening = Installation::open(
            &address,
            dir.path(),
            Purpose::Use,
            clock.clone(),
            ids.clone(),
        );
        let installation = opening.await?;
        let account = NewLog {
            id: LogId(SystemIds.draw()),
            kind: LogKind::Account,
            owner: USER.to_owned(),
            parent: None,
        };
        installation.store.open(account).await?;
        let key = installation.keys.derive("token hashes");
        let vault = Vault::new(installation.tokens.clone(), key);
        let store = installation.store.clone();
        let accounts = Arc::new(Accounts::new(store.clone(), vault, ids.clone()));
        let prices = Prices::new(&BTreeMap::new())?;
        let books = Arc::new(Books::new(accounts, store, ids, clock, prices));
        if has_budget {
            let key = Key::default();
            let limit = Limit {
                tokens: Some(u64::MAX),
                micros: None,
            };
            let set = Command::Set { key, limit };
            books.execute(USER, &set, Actor::default()).await?;
        }
        let config = GatewayConfig {
            anthropic: Some(gateway::Vendor {
                base_url: format!("http://{}", vendor.address),
                key: Secret::new("bench".to_owned()),
            }),
            openai: None,
        };
        let gateway = Arc::new(Gateway::new(config, Arc::new(Ledger { books }))?);
        let web = WebPolicy::default();
        let services = Arc::new(DoorServices::new(gateway.clone(), web, Vec::new()));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let channel = Channel {
            user_id: USER.to_owned(),
            box_id: "box".to_owned(),
            wake_id: "wake".to_owned(),
        };
        let stop = CancellationToken::new();
        let serving = tokio::spawn(door::serve(listener, channel, services, stop.clone()));
        Ok(Self::Gateway(Box::new(Behind {
            address,
            has_budget,
            gateway,
            installation,
            stop,
            serving,
            _dir: dir,
        })))
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Direct(_) => "direct",
            Self::Gateway(behind) if behind.has_budget => "gateway, with a budget",
            Self::Gateway(_) => "gateway",
        }
    }

    /// Makes a call; returns how long each event was under way, and how long the first took altogether.
    pub(super) async fn call(
        &self,
        vendor: &Vendor,
        body: &str,
    ) -> anyhow::Result<(Vec<Duration>, Duration)> {
        let (address, target) = match self {
            Self::Direct(address) => (*address, "/v1/messages"),
            Self::Gateway(behind) => (
                behind.address,
                "http://gateway.cocoonbox/anthropic/v1/messages",
            ),
        };
        let body = format!("{{\"model\":\"m\",\"max_tokens\":8,\"x\":\"{body}\"}}");
        let head = format!(
            "POST {target} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let began = Instant::now();
        let mut stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(body.as_bytes()).await?;
        let (mut read, mut piece) = (Vec::new(), [0; 16 << 10]);
        let mut arrived = Vec::new();
        loop {
            let bytes = stream.read(&mut piece).await?;
            let now = Instant::now();
            if bytes == 0 {
                break;
            }
            read.extend_from_slice(&piece[..bytes]);
            while arrived.len() < vendor::EVENTS && has(&read, &vendor::event(arrived.len())) {
                arrived.push(now);
            }
        }
        ensure!(
            arrived.len() == vendor::EVENTS,
            "an answer is cut: {}",
            String::from_utf8_lossy(&read)
        );
        let written = vendor.written();
        let events = arrived.iter().zip(&written);
        Ok((
            events.map(|(at, from)| at.duration_since(*from)).collect(),
            arrived[0].duration_since(began),
        ))
    }

    pub(super) async fn end(self) {
        let Self::Gateway(behind) = self else { return };
        behind.stop.cancel();
        let _ended = behind.serving.await;
        behind.gateway.drained().await;
        behind.installation.close().await;
    }
}

/// An event may be cut into chunks; its first line is what counts.
fn has(read: &[u8], event: &str) -> bool {
    let line = event.lines().next().unwrap_or_default().as_bytes();
    read.windows(line.len()).any(|window| window == line)
}
