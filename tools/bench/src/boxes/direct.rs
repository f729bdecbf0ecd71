//! The same calls without the edge: straight into the box's network, as the api itself dials.
//!
//! Needs what the api has: root, for the network namespace, and the data folder, for the key that signs
//! calls to boxes.

use std::{
    fs::File,
    net::{Ipv4Addr, SocketAddr, TcpStream},
    path::Path,
    process::Command,
};

use anyhow::{Context, bail, ensure};
use cocoonbox_api::credential::{HEADER, Signer};
use cocoonbox_events::{Clock as _, KeyStore, SystemClock};
use cocoonbox_proto::agent::v1::session_client::SessionClient;
use hyper_util::rt::TokioIo;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tonic::transport::{Endpoint, Uri};

use crate::boxes::client::{Caller, Wire};

const AGENT: u16 = 7443;

/// The network of a running box.
pub(crate) struct Dialled(File);

impl Dialled {
    pub(crate) fn of(data: &Path, id: &str) -> anyhow::Result<Self> {
        let pid = init_pid(data, id)?;
        let namespace = File::open(format!("/proc/{pid}/ns/net"));
        Ok(Self(namespace.context("the box's network")?))
    }

    /// Connects to the box's agent.
    pub(crate) async fn session(
        &self,
        data: &Path,
        id: &str,
    ) -> anyhow::Result<SessionClient<Wire>> {
        let identity = data.join(format!("boxes/{id}/run/identity/identity"));
        let text = std::fs::read_to_string(&identity)
            .with_context(|| format!("reading `{}`", identity.display()))?;
        let identity: serde_json::Value =
            serde_json::from_str(&text).context("the box's identity")?;
        let wake = identity["wake_id"]
            .as_str()
            .context("the identity has no wake id")?;
        let keys = KeyStore::open_read_only(data).context("opening the keys")?;
        let signer = Signer::new(&keys.derive("edge signing key"));
        let credential = signer.sign(id, wake, SystemClock.now_us());
        let stream = self.connect(AGENT)?;
        let mut stream = Some(TokioIo::new(stream));
        let channel = Endpoint::from_static("http://agent.cocoonbox")
            .connect_with_connector(tower::service_fn(move |_: Uri| {
                let stream = stream
                    .take()
                    .ok_or_else(|| std::io::Error::other("connected once"));
                async move { stream }
            }))
            .await
            .context("the agent does not answer")?;
        let caller = Caller::with(HEADER, &credential)?;
        Ok(SessionClient::with_interceptor(channel, caller))
    }

    /// Makes the connection on a thread that enters the box's network and ends there.
    pub(crate) fn connect(&self, port: u16) -> anyhow::Result<tokio::net::TcpStream> {
        let namespace = self.0.try_clone()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let dialling = std::thread::spawn(move || -> anyhow::Result<TcpStream> {
            move_into_link_name_space(
                std::os::fd::AsFd::as_fd(&namespace),
                Some(LinkNameSpaceType::Network),
            )
            .context("entering the box's network")?;
            TcpStream::connect(address).with_context(|| format!("connecting to {address}"))
        });
        let Ok(stream) = dialling.join() else {
            bail!("the dialling thread panicked")
        };
        let stream = stream?;
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(tokio::net::TcpStream::from_std(stream)?)
    }
}

/// Asks the runtime for the process id of the box's init.
fn init_pid(data: &Path, id: &str) -> anyhow::Result<u64> {
    let root = data.join("run/runc");
    let listed = Command::new("runc")
        .arg("--root")
        .arg(&root)
        .args(["list", "--format", "json"])
        .output()
        .context("running runc")?;
    ensure!(listed.status.success(), "runc cannot list its containers");
    let containers: Vec<serde_json::Value> = serde_json::from_slice(&listed.stdout)?;
    containers
        .iter()
        .find(|container| {
            container["id"]
                .as_str()
                .is_some_and(|name| name.ends_with(id))
        })
        .and_then(|container| container["pid"].as_u64())
        .with_context(|| format!("box `{id}` has no container"))
}
