//! What a box's history answers, awake or asleep: read here, from the replica.
//!
//! `Session.Events`, `Agents.List` and `Agents.Transcript` are answered by the api for every box. The
//! other methods of these services go to the box; they are routed before they would get here.

use std::{pin::Pin, sync::Arc, time::Duration};

use cocoonbox_events::{LogId, OffsetKey, Store};
use cocoonbox_projections::Views;
use cocoonbox_proto::{
    agent::v1::{
        Agent, AgentRef, CreateAgentRequest, EventsRequest, ExecRequest, ExecResponse,
        HelloRequest, HelloResponse, ListAgentsRequest, ListAgentsResponse, RespondRequest,
        SendAccepted, SendRequest, SignalExecRequest, SignalExecResponse, TranscriptPage,
        TranscriptRequest, agents_server::Agents, session_client::SessionClient,
        session_server::Session,
    },
    log::v1::EventOrHeartbeat,
};
use futures::Stream;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Request, Response, Status, Streaming, metadata::MetadataMap};

use crate::{
    auth::Caller,
    edge::{Edge, no_such_box},
    status,
    stream::{self, Selection},
    users::{page_size, page_token},
};

/// Paths that are answered here and not by the box.
pub const SERVED_HERE: [&str; 3] = [
    "/cocoonbox.agent.v1.Session/Events",
    "/cocoonbox.agent.v1.Agents/List",
    "/cocoonbox.agent.v1.Agents/Transcript",
];
/// For a box to say how far its log is.
const HELLO: Duration = Duration::from_secs(2);
const AGENT_DEFAULT: &str = "main";

/// Reads replicas.
#[derive(Clone)]
pub struct Replica {
    pub edge: Arc<Edge>,
    pub store: Arc<dyn Store>,
    pub views: Views,
    pub stop: CancellationToken,
}

type Events = Pin<Box<dyn Stream<Item = Result<EventOrHeartbeat, Status>> + Send>>;

impl Replica {
    /// Checks the caller's right to the box and returns its log.
    async fn log<T>(&self, request: &Request<T>) -> Result<(String, LogId), Status> {
        let caller = Caller::of(request.extensions());
        let headers = headers(request.metadata());
        let box_id = self.edge.authorise(&caller, &headers).await?;
        let owner = self.views.box_owner(&box_id).await;
        let (_, row) = owner
            .map_err(|error| status::internal(&error))?
            .ok_or_else(|| no_such_box(&box_id))?;
        let log = row.box_log.parse().map_err(|_| no_such_box(&box_id))?;
        Ok((box_id, log))
    }

    /// Tells a key that the box has written, and that is on its way here, from one that nobody gave out.
    async fn behind(&self, box_id: &str, key: &str, ahead: Status) -> Status {
        let Some(channel) = self.edge.channels.get(box_id) else {
            return ahead;
        };
        if !channel.fault.borrow().is_empty() {
            return ahead;
        }
        let mut client = SessionClient::new(channel.transport.clone());
        let hello = client.hello(channel.sign(HelloRequest {}));
        let hello = tokio::time::timeout(HELLO, hello).await;
        let pos = |key: &str| key.parse::<OffsetKey>().map_or(0, |key| key.pos);
        match hello {
            Ok(Ok(hello)) if pos(&hello.get_ref().offset_key) < pos(key) => ahead,
            // The box has it, or does not answer at the moment and may have it.
            _ => status::status(
                Code::Unavailable,
                "REPLICA_BEHIND",
                "the box has written this, but it is not here yet; resume again",
            ),
        }
    }
}

#[tonic::async_trait]
impl Session for Replica {
    type EventsStream = Events;
    type ExecStream = Pin<Box<dyn Stream<Item = Result<ExecResponse, Status>> + Send>>;

    async fn events(&self, request: Request<EventsRequest>) -> Result<Response<Events>, Status> {
        let (box_id, log) = self.log(&request).await?;
        let request = request.into_inner();
        let key = request.from_offset.clone();
        let channel = self.edge.channels.get(&box_id);
        let selection = Selection {
            log,
            from: request.from_offset,
            streams: request.streams,
            follow: !request.no_follow,
            fault: channel.as_ref().map(|channel| channel.fault.subscribe()),
        };
        let opened = stream::open(self.store.clone(), selection, self.stop.clone()).await;
        let events = match opened {
            Err(ahead) if ahead.code() == Code::OutOfRange => {
                return Err(self.behind(&box_id, &key, ahead).await);
            }
            opened => opened?,
        };
        Ok(Response::new(Box::pin(events)))
    }

    async fn hello(&self, _: Request<HelloRequest>) -> Result<Response<HelloResponse>, Status> {
        Err(served_by_the_box())
    }

    async fn exec(
        &self,
        _: Request<Streaming<ExecRequest>>,
    ) -> Result<Response<Self::ExecStream>, Status> {
        Err(served_by_the_box())
    }

    async fn signal_exec(
        &self,
        _: Request<SignalExecRequest>,
    ) -> Result<Response<SignalExecResponse>, Status> {
        Err(served_by_the_box())
    }
}

#[tonic::async_trait]
impl Agents for Replica {
    async fn list(
        &self,
        request: Request<ListAgentsRequest>,
    ) -> Result<Response<ListAgentsResponse>, Status> {
        let (_, log) = self.log(&request).await?;
        let agents = self
            .views
            .agents(log)
            .await
            .map_err(|error| status::internal(&error))?;
        Ok(Response::new(ListAgentsResponse {
            agents: agents.into_iter().map(Into::into).collect(),
        }))
    }

    async fn transcript(
        &self,
        request: Request<TranscriptRequest>,
    ) -> Result<Response<TranscriptPage>, Status> {
        let (_, log) = self.log(&request).await?;
        let request = request.into_inner();
        if !request.at_least.is_empty() {
            stream::seen(&*self.store, &self.views, log, &request.at_least).await?;
        }
        let agent = if request.agent_id.is_empty() {
            AGENT_DEFAULT
        } else {
            &request.agent_id
        };
        let size = page_size(request.page_size);
        let token = page_token(&request.page_token);
        let page = self.views.transcript(log, agent, token, size).await;
        let page = page.map_err(|error| status::internal(&error))?;
        Ok(Response::new(TranscriptPage {
            items: page.items.into_iter().map(Into::into).collect(),
            next_page_token: page.next.unwrap_or_default(),
        }))
    }

    async fn create(&self, _: Request<CreateAgentRequest>) -> Result<Response<Agent>, Status> {
        Err(served_by_the_box())
    }

    async fn send(&self, _: Request<SendRequest>) -> Result<Response<SendAccepted>, Status> {
        Err(served_by_the_box())
    }

    async fn respond(&self, _: Request<RespondRequest>) -> Result<Response<()>, Status> {
        Err(served_by_the_box())
    }

    async fn cancel(&self, _: Request<AgentRef>) -> Result<Response<()>, Status> {
        Err(served_by_the_box())
    }
}

fn headers(metadata: &MetadataMap) -> http::HeaderMap {
    metadata.clone().into_headers()
}

/// Never seen by a caller: the router sends these methods to the box.
fn served_by_the_box() -> Status {
    status::status(
        Code::Unimplemented,
        "SERVED_BY_THE_BOX",
        "this call goes to the box",
    )
}
