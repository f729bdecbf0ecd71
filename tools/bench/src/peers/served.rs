//! The stream of events as clients get it: gRPC over TCP, from the api's own cursor.

use std::{
    convert::Infallible,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use anyhow::Context as _;
use cocoonbox_api::stream::{self, Selection};
use cocoonbox_events::{LogId, Store};
use cocoonbox_proto::{
    agent::v1::{EventsRequest, session_client::SessionClient},
    log::v1::{EventOrHeartbeat, event_or_heartbeat::Item},
};
use tokio::{net::TcpListener, task::AbortHandle};
use tokio_stream::Stream;
use tokio_util::sync::CancellationToken;
use tonic::{
    Request, Response, Status,
    body::Body,
    codegen::{BoxFuture, Service, http},
    server::{Grpc, NamedService, ServerStreamingService},
    transport::{Channel, Server, server::TcpIncoming},
};
use tonic_prost::ProstCodec;

/// One log, served on a port of its own until this is dropped.
pub(crate) struct Served {
    address: SocketAddr,
    server: AbortHandle,
}

/// `Session.Events` and nothing else of it: whose log it is has been found out before.
#[derive(Clone)]
struct Session {
    store: Arc<dyn Store>,
    log: LogId,
}

impl Served {
    pub(crate) async fn start(store: Arc<dyn Store>, log: LogId) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        let serving = Server::builder()
            .add_service(Session { store, log })
            .serve_with_incoming(incoming);
        let server = tokio::spawn(serving).abort_handle();
        Ok(Self { address, server })
    }

    pub(crate) async fn connect(&self) -> anyhow::Result<SessionClient<Channel>> {
        let client = SessionClient::connect(format!("http://{}", self.address)).await;
        client.context("connecting to the stream of events")
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Reads the next `events` events behind `key`.
pub(crate) async fn read(
    client: &mut SessionClient<Channel>,
    key: &str,
    events: u64,
) -> anyhow::Result<()> {
    let request = EventsRequest {
        from_offset: key.to_owned(),
        ..EventsRequest::default()
    };
    let mut stream = client.events(request).await?.into_inner();
    let mut left = events;
    while left > 0 {
        let message = stream.message().await?.context("the stream ended")?;
        if let Some(Item::Event(event)) = message.item {
            anyhow::ensure!(!event.payload.is_empty(), "a payload is missing");
            left -= 1;
        }
    }
    Ok(())
}

impl NamedService for Session {
    const NAME: &'static str = "cocoonbox.agent.v1.Session";
}

impl Service<http::Request<Body>> for Session {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let events = self.clone();
        Box::pin(async move {
            let codec = ProstCodec::<EventOrHeartbeat, EventsRequest>::default();
            Ok(Grpc::new(codec).server_streaming(events, request).await)
        })
    }
}

impl ServerStreamingService<EventsRequest> for Session {
    type Response = EventOrHeartbeat;
    type ResponseStream = Pin<Box<dyn Stream<Item = Result<EventOrHeartbeat, Status>> + Send>>;
    type Future = BoxFuture<Response<Self::ResponseStream>, Status>;

    fn call(&mut self, request: Request<EventsRequest>) -> Self::Future {
        let selection = Selection {
            log: self.log,
            from: request.into_inner().from_offset,
            streams: Vec::new(),
            follow: true,
            fault: None,
        };
        let opening = stream::open(self.store.clone(), selection, CancellationToken::new());
        Box::pin(async move {
            let stream: Self::ResponseStream = Box::pin(opening.await?);
            Ok(Response::new(stream))
        })
    }
}
