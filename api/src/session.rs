//! What a box's history answers, awake or asleep: read here, from the replica.
//!
//! `Session.Events`, `Agents.List`, `Agents.Transcript` and `Agents.ReadBlob` are answered by the api for
//! every box. The other methods of these services go to the box; they are routed before they would get
//! here.

use std::{pin::Pin, sync::Arc, time::Duration};

use cocoonbox_events::{LogId, OffsetKey, Store};
use cocoonbox_projections::Views;
use cocoonbox_proto::{
    agent::v1::{
        Agent, AgentRef, BlobPart, BranchRequest, ConfigureRequest, CreateAgentRequest,
        EventsRequest, ExecRequest, ExecResponse, HelloRequest, HelloResponse, ListAgentsRequest,
        ListAgentsResponse, ReadBlobRequest, RespondRequest, ScreenRequest, ScreenResponse,
        SelectBranchRequest, SendAccepted, SendRequest, SignalExecRequest, SignalExecResponse,
        TranscriptPage, TranscriptRequest, WithdrawRequest, agents_server::Agents,
        session_server::Session,
    },
    log::v1::EventOrHeartbeat,
};
use futures::Stream;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Request, Response, Status, Streaming, metadata::MetadataMap};

use crate::{
    auth::Caller,
    blobs,
    edge::{Edge, no_such_box},
    status,
    stream::{self, Selection},
    users::{page_size, page_token},
};

/// Paths that are answered here and not by the box.
pub const SERVED_HERE: [&str; 4] = [
    "/cocoonbox.agent.v1.Session/Events",
    "/cocoonbox.agent.v1.Agents/List",
    "/cocoonbox.agent.v1.Agents/Transcript",
    "/cocoonbox.agent.v1.Agents/ReadBlob",
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

type Parts = Pin<Box<dyn Stream<Item = Result<BlobPart, Status>> + Send>>;
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
        match self.store.current(log) {
            Ok(log) => Ok((box_id, log)),
            // Written down a moment ago, and about to be opened.
            Err(_) => Err(status::status(
                Code::Unavailable,
                "REPLICA_BEHIND",
                "the box's log is being opened; try again",
            )),
        }
    }

    /// Tells a key that the box has written, and that is on its way here, from one that nobody gave out.
    async fn behind(
        &self,
        box_id: &str,
        headers: &http::HeaderMap,
        key: &str,
        ahead: Status,
    ) -> Status {
        let channel = self.edge.channels.get(box_id);
        if channel.is_some_and(|channel| !channel.fault.borrow().is_empty()) {
            return ahead;
        }
        let hello = tokio::time::timeout(HELLO, self.edge.hello(box_id, headers)).await;
        let pos = |key: &str| key.parse::<OffsetKey>().map_or(0, |key| key.pos);
        match hello {
            Ok(None) => ahead,
            Ok(Some(Ok(hello))) if hello.released && pos(&hello.offset_key) < pos(key) => ahead,
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
    type ScreenStream = Pin<Box<dyn Stream<Item = Result<ScreenResponse, Status>> + Send>>;

    async fn events(&self, request: Request<EventsRequest>) -> Result<Response<Events>, Status> {
        let (box_id, log) = self.log(&request).await?;
        let headers = headers(request.metadata());
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
                return Err(self.behind(&box_id, &headers, &key, ahead).await);
            }
            opened => opened?,
        };
        let attending = self.edge.channels.attention(&box_id).begin();
        Ok(Response::new(Box::pin(attending.hold(Box::pin(events)))))
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

    async fn screen(
        &self,
        _: Request<Streaming<ScreenRequest>>,
    ) -> Result<Response<Self::ScreenStream>, Status> {
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
    type ReadBlobStream = Parts;

    async fn read_blob(
        &self,
        request: Request<ReadBlobRequest>,
    ) -> Result<Response<Parts>, Status> {
        let (_, log) = self.log(&request).await?;
        let parts = blobs::read(self.store.clone(), log, request.get_ref())?;
        Ok(Response::new(Box::pin(parts)))
    }

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
            agents: with_children(agents.into_iter().map(Into::into).collect()),
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
        let page = if request.newest_first {
            self.views.transcript_back(log, agent, token, size).await
        } else {
            self.views.transcript(log, agent, token, size).await
        };
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

    async fn withdraw(&self, _: Request<WithdrawRequest>) -> Result<Response<()>, Status> {
        Err(served_by_the_box())
    }

    async fn branch(&self, _: Request<BranchRequest>) -> Result<Response<SendAccepted>, Status> {
        Err(served_by_the_box())
    }

    async fn select_branch(&self, _: Request<SelectBranchRequest>) -> Result<Response<()>, Status> {
        Err(served_by_the_box())
    }

    async fn configure(&self, _: Request<ConfigureRequest>) -> Result<Response<Agent>, Status> {
        Err(served_by_the_box())
    }
}

/// Shows what subagents ask with the agent that they work for, too.
fn with_children(mut agents: Vec<Agent>) -> Vec<Agent> {
    let asks = |agent: &&Agent| {
        let is_child = !agent.parent_agent_id.is_empty();
        is_child && !(agent.approvals.is_empty() && agent.questions.is_empty())
    };
    let asking: Vec<Agent> = agents.iter().filter(asks).cloned().collect();
    for child in asking {
        let parent = agents
            .iter_mut()
            .find(|agent| agent.id == child.parent_agent_id);
        if let Some(parent) = parent {
            "waiting".clone_into(&mut parent.state);
            parent.approvals.extend(child.approvals);
            parent.questions.extend(child.questions);
        }
    }
    agents
}

fn headers(metadata: &MetadataMap) -> http::HeaderMap {
    metadata.clone().into_headers()
}

/// Never seen by a caller: the router sends these methods to the box.
pub(crate) fn served_by_the_box() -> Status {
    status::status(
        Code::Unimplemented,
        "SERVED_BY_THE_BOX",
        "this call goes to the box",
    )
}
