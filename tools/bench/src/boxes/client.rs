//! Calls to the api.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use cocoonbox_proto::{
    agent::v1::{
        agents_client::AgentsClient, control_client::ControlClient, session_client::SessionClient,
    },
    control::v1::{
        BoxRef, EnsureRequest, Flavor, Operation, Phase, WatchBoxesRequest, WatchRequest,
        boxes_client::BoxesClient, desktop, users_client::UsersClient,
    },
};
use tonic::{
    Request, Response, Status,
    metadata::{Ascii, MetadataValue},
    service::{Interceptor, interceptor::InterceptedService},
    transport::{Channel, Endpoint},
};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// An operation that takes longer is not slow but stuck.
const OPERATION_TIMEOUT: Duration = Duration::from_mins(2);

/// Adds what every call carries: who calls, and which box is meant.
#[derive(Clone)]
pub(crate) struct Caller {
    metadata: Vec<(&'static str, MetadataValue<Ascii>)>,
}

impl Caller {
    pub(crate) fn with(name: &'static str, value: &str) -> anyhow::Result<Self> {
        let mut value: MetadataValue<Ascii> = value
            .parse()
            .with_context(|| format!("`{name}` has odd characters"))?;
        value.set_sensitive(true);
        Ok(Self {
            metadata: vec![(name, value)],
        })
    }
}

impl Interceptor for Caller {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        for (name, value) in &self.metadata {
            request.metadata_mut().insert(*name, value.clone());
        }
        Ok(request)
    }
}

pub(crate) type Wire = InterceptedService<Channel, Caller>;

pub(crate) struct Api {
    channel: Channel,
    caller: Caller,
}

impl Api {
    pub(crate) async fn connect(address: &str, token: &str) -> anyhow::Result<Self> {
        let channel = Endpoint::from_shared(address.to_owned())
            .with_context(|| format!("address `{address}`"))?
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .connect()
            .await
            .with_context(|| format!("no api answers at {address}"))?;
        let caller = Caller::with("authorization", &format!("Bearer {token}"))?;
        Ok(Self { channel, caller })
    }

    pub(crate) fn users(&self) -> UsersClient<Wire> {
        UsersClient::with_interceptor(self.channel.clone(), self.caller.clone())
    }

    fn boxes(&self) -> BoxesClient<Wire> {
        BoxesClient::with_interceptor(self.channel.clone(), self.caller.clone())
    }

    pub(crate) fn session(&self, id: &str) -> anyhow::Result<SessionClient<Wire>> {
        let caller = self.about(id)?;
        let channel = self.channel.clone();
        Ok(SessionClient::with_interceptor(channel, caller))
    }

    pub(crate) fn control(&self, id: &str) -> anyhow::Result<ControlClient<Wire>> {
        let caller = self.about(id)?;
        let channel = self.channel.clone();
        Ok(ControlClient::with_interceptor(channel, caller))
    }

    pub(crate) fn agents(&self, id: &str) -> anyhow::Result<AgentsClient<Wire>> {
        let caller = self.about(id)?;
        let channel = self.channel.clone();
        Ok(AgentsClient::with_interceptor(channel, caller))
    }

    fn about(&self, id: &str) -> anyhow::Result<Caller> {
        let mut caller = self.caller.clone();
        let id = id.parse().context("the box id has odd characters")?;
        caller.metadata.push(("box_id", id));
        Ok(caller)
    }

    /// Creates or wakes a box and waits until it runs. Returns its id and how long it took. The id is
    /// told to `known` as soon as it is there.
    pub(crate) async fn ensure(
        &self,
        name: &str,
        flavor: Flavor,
        known: &mut Vec<String>,
    ) -> anyhow::Result<(String, Duration)> {
        let start = Instant::now();
        let request = EnsureRequest {
            flavor: flavor.into(),
            box_id: String::new(),
            name: name.to_owned(),
            command_id: String::new(),
        };
        let found = self
            .boxes()
            .ensure(request)
            .await
            .context("Ensure")?
            .into_inner();
        if !known.contains(&found.id) {
            known.push(found.id.clone());
        }
        self.wait(&found.operation_id).await?;
        Ok((found.id, start.elapsed()))
    }

    /// Waits until every part of a box's desktop answers.
    pub(crate) async fn desktop_ready(&self, id: &str) -> anyhow::Result<()> {
        let looking = async {
            let mut boxes = self.boxes();
            let lists = boxes.watch(WatchBoxesRequest::default()).await;
            let mut lists = lists.context("Watch")?.into_inner();
            while let Some(list) = lists.message().await.context("Watch")? {
                let found = list.boxes.iter().find(|one| one.id == id);
                let desktop = found.and_then(|one| one.desktop.as_ref());
                if desktop.is_some_and(|desktop| desktop.state() == desktop::State::Ready) {
                    return Ok(());
                }
            }
            bail!("the list of boxes ended")
        };
        tokio::time::timeout(OPERATION_TIMEOUT, looking)
            .await
            .context("the desktop takes too long")?
    }

    pub(crate) async fn hibernate(&self, id: &str) -> anyhow::Result<Duration> {
        let mut boxes = self.boxes();
        self.timed("Hibernate", boxes.hibernate(reference(id)))
            .await
    }

    pub(crate) async fn delete(&self, id: &str) -> anyhow::Result<Duration> {
        let mut boxes = self.boxes();
        self.timed("Delete", boxes.delete(reference(id))).await
    }

    /// Makes a call and waits until its operation is done.
    async fn timed(
        &self,
        name: &'static str,
        call: impl Future<Output = Result<Response<Operation>, Status>>,
    ) -> anyhow::Result<Duration> {
        let start = Instant::now();
        let operation = call.await.context(name)?.into_inner();
        self.wait(&operation.id).await?;
        Ok(start.elapsed())
    }

    /// Waits until an operation is done. Nothing to wait for if there is none.
    async fn wait(&self, operation: &str) -> anyhow::Result<()> {
        if operation.is_empty() {
            return Ok(());
        }
        let following = async {
            let request = WatchRequest {
                operation_id: operation.to_owned(),
                from_offset: String::new(),
            };
            let mut events = self
                .boxes()
                .watch_operation(request)
                .await
                .context("WatchOperation")?
                .into_inner();
            while let Some(event) = events.message().await.context("WatchOperation")? {
                match event.phase() {
                    Phase::Done => return Ok(()),
                    Phase::FailedPhase => bail!("operation failed: {}", event.detail),
                    Phase::BackingUp | Phase::Creating | Phase::Moving | Phase::CleaningUp => {}
                }
            }
            bail!("the operation's stream ended without an ending")
        };
        tokio::time::timeout(OPERATION_TIMEOUT, following)
            .await
            .context("the operation takes too long")?
    }
}

fn reference(id: &str) -> BoxRef {
    BoxRef {
        box_id: id.to_owned(),
        ..BoxRef::default()
    }
}
