//! A box's disk with an agent in front of it that only keeps a log.

use std::{
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use cocoonbox_events::{
    AppendError, ChainHash, Follower, LogId, LogKind, NewLog, Parent, Recorded, Store,
};
use cocoonbox_proto::{
    agent::v1::{
        self as wire, EraseRequest, FollowRequest, LinkRequest, LinkResponse, LogStanding,
        QuiesceRequest, ReleaseRequest, RestoreRequest, StandingRequest, StandingResponse,
        box_log_server::{BoxLog, BoxLogServer},
    },
    log::v1::{RecordedBatch, Tail},
};
use futures::stream;
use tokio::net::TcpListener;
use tonic::{Request, Response, Status, transport::server::TcpIncoming};

use super::{memory, read};

pub(super) struct Disk(Mutex<State>);

struct State {
    store: Arc<dyn Store>,
    released: Option<LogId>,
    is_restoring: bool,
    /// Calls until the process dies, and whether the last of them is done.
    dies: Option<(u32, bool)>,
    address: Option<SocketAddr>,
}

impl Disk {
    pub(super) fn empty() -> Arc<Self> {
        Arc::new(Self(Mutex::new(State {
            store: memory(),
            released: None,
            is_restoring: false,
            dies: None,
            address: None,
        })))
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub(super) fn store(&self) -> Arc<dyn Store> {
        self.state().store.clone()
    }

    pub(super) fn released(&self) -> Option<LogId> {
        self.state().released
    }

    /// A process that has just started is not released.
    pub(super) fn restart(&self) {
        self.state().released = None;
    }

    pub(super) fn lose(&self) {
        self.state().store = memory();
    }

    pub(super) fn die_at(&self, calls: u32, is_done: bool) {
        self.state().dies = Some((calls, is_done));
    }

    /// The disk as it was when its first log ended at `pos`.
    pub(super) async fn put_back(&self, log: LogId, pos: usize) {
        let events = read(&*self.store(), log).await;
        let store = memory();
        store.open(root(log)).await.unwrap();
        store.replicate(log, events[..pos].to_vec()).await.unwrap();
        self.state().store = store;
    }

    /// Lets the box go on in a branch that nobody told it to write.
    pub(super) async fn branch(&self, log: LogId, pos: u64, new: LogId) {
        let store = self.store();
        let chain = store.chain_at(log, pos).await.unwrap();
        let parent = Some(Parent { log, pos, chain });
        let new = NewLog {
            id: new,
            parent,
            ..root(log)
        };
        store.rewind(new.clone()).await.unwrap();
        super::write(&*store, new.id, "unheard").await;
    }

    pub(super) async fn address(self: &Arc<Self>) -> SocketAddr {
        if let Some(address) = self.state().address {
            return address;
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tonic::transport::Server::builder()
            .add_service(BoxLogServer::from_arc(self.clone()))
            .serve_with_incoming(TcpIncoming::from(listener));
        tokio::spawn(server);
        self.state().address = Some(address);
        address
    }

    /// Counts a call. The one at which the process dies is done before that or not.
    fn call(&self) -> Result<bool, Status> {
        let mut state = self.state();
        match state.dies {
            Some((0, is_done)) => {
                state.dies = None;
                state.released = None;
                if is_done { Ok(true) } else { Err(died()) }
            }
            Some((left, is_done)) => {
                state.dies = Some((left - 1, is_done));
                Ok(false)
            }
            None => Ok(false),
        }
    }

    fn answer<T>(&self, dies: bool, answer: T) -> Result<Response<T>, Status> {
        if dies {
            self.restart();
            return Err(died());
        }
        Ok(Response::new(answer))
    }

    async fn open(&self, branch: &wire::Branch) -> Result<LogId, Status> {
        let log = LogId::from_slice(&branch.log_id).unwrap();
        let parent = LogId::from_slice(&branch.parent_log).map(|parent| Parent {
            log: parent,
            pos: branch.parent_pos,
            chain: ChainHash::from_slice(&branch.parent_chain).unwrap(),
        });
        let new = NewLog {
            parent,
            ..root(log)
        };
        let store = self.store();
        let opened = match parent {
            None => store.open(new).await,
            Some(_) => match store.rewind(new.clone()).await {
                Err(AppendError::Moved { .. }) => store.open(new).await,
                opened => opened,
            },
        };
        let opened = opened.map_err(|error| Status::failed_precondition(error.to_string()));
        opened.map(|_| log)
    }

    fn tail(&self, log: LogId) -> Tail {
        let tail = self.store().tail(log).unwrap();
        Tail {
            log_id: tail.log.as_bytes().to_vec(),
            pos: tail.pos,
            chain: tail.chain.0.to_vec(),
        }
    }
}

fn root(log: LogId) -> NewLog {
    NewLog {
        id: log,
        kind: LogKind::Box,
        owner: String::new(),
        parent: None,
    }
}

fn died() -> Status {
    Status::unavailable("the process died")
}

#[async_trait]
impl BoxLog for Disk {
    type FollowStream = Pin<Box<dyn futures::Stream<Item = Result<RecordedBatch, Status>> + Send>>;

    async fn follow(
        &self,
        request: Request<FollowRequest>,
    ) -> Result<Response<Self::FollowStream>, Status> {
        let dies = self.call()?;
        let log = self
            .released()
            .ok_or_else(|| Status::unavailable("paused"))?;
        let after = request.get_ref().after_pos;
        let follower = Follower::new(self.store(), log, after).unwrap();
        let batches = stream::unfold(follower, move |mut follower| async move {
            let page = follower.next().await.unwrap();
            let batch = RecordedBatch {
                log_id: log.as_bytes().to_vec(),
                events: page.events.iter().map(Recorded::to_wire).collect(),
            };
            Some((Ok(batch), follower))
        });
        self.answer(dies, Box::pin(batches))
    }

    async fn quiesce(&self, _: Request<QuiesceRequest>) -> Result<Response<Tail>, Status> {
        Err(Status::unimplemented("not asked here"))
    }

    async fn erase(&self, _: Request<EraseRequest>) -> Result<Response<Tail>, Status> {
        Err(Status::unimplemented("not asked here"))
    }

    async fn standing(
        &self,
        _: Request<StandingRequest>,
    ) -> Result<Response<StandingResponse>, Status> {
        let dies = self.call()?;
        let logs = self.store().logs().into_iter();
        let logs = logs.map(|info| LogStanding {
            branch: Some(wire::Branch {
                log_id: info.id.as_bytes().to_vec(),
                parent_log: info
                    .parent
                    .map_or_else(Vec::new, |parent| parent.log.as_bytes().to_vec()),
                parent_pos: info.parent.map_or(0, |parent| parent.pos),
                ..wire::Branch::default()
            }),
            tail: Some(self.tail(info.id)),
        });
        let logs = logs.collect();
        let released = self.released().map(|log| log.as_bytes().to_vec());
        let restoring = self.state().is_restoring;
        let answer = StandingResponse {
            logs,
            released: released.unwrap_or_default(),
            restoring,
        };
        self.answer(dies, answer)
    }

    async fn link(&self, request: Request<LinkRequest>) -> Result<Response<LinkResponse>, Status> {
        let dies = self.call()?;
        let LinkRequest { log_id, pos } = request.into_inner();
        let log = LogId::from_slice(&log_id).unwrap();
        let chain = self.store().chain_at(log, pos).await.unwrap().0.to_vec();
        self.answer(dies, LinkResponse { chain })
    }

    async fn restore(&self, request: Request<RestoreRequest>) -> Result<Response<Tail>, Status> {
        let dies = self.call()?;
        let RestoreRequest { branch, events } = request.into_inner();
        self.state().is_restoring = true;
        let log = self.open(&branch.unwrap()).await?;
        let events = events.into_iter();
        let events = events.map(|event| Recorded::from_wire(log, event).unwrap());
        // As much as a killed process may have got to.
        let mut events: Vec<_> = events.collect();
        if dies {
            events.truncate(2);
        }
        self.store().replicate(log, events).await.unwrap();
        self.answer(dies, self.tail(log))
    }

    async fn release(&self, request: Request<ReleaseRequest>) -> Result<Response<Tail>, Status> {
        let dies = self.call()?;
        let mut last = None;
        for branch in request.into_inner().lineage {
            last = Some(self.open(&branch).await?);
        }
        {
            let mut state = self.state();
            state.is_restoring = false;
            state.released = last;
        }
        self.answer(dies, self.tail(last.unwrap()))
    }
}
