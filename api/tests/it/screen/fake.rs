//! A box as far as screens go: an agent that is told who drives, and a display.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use cocoonbox_machines::Machines;
use cocoonbox_proto::agent::v1::{
    FenceAck, FenceState,
    fence_server::{Fence, FenceServer},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::{mpsc, watch},
};
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Request, Response, Status, Streaming};

use crate::wired::{AGENT, DISPLAY, Wired};

/// What a display says of itself.
/// 1280 by 800, four bytes a pixel.
pub(crate) const DESCRIBED: &[u8] =
    b"\x05\x00\x03\x20\x20\x18\x00\x01\x00\xff\x00\xff\x00\xff\x10\x08\x00\x00\x00\x00\x00\x00\x00\x04fake";

/// A box with one display.
pub(crate) struct FakeBox {
    agent: SocketAddr,
    display: SocketAddr,
    /// Everything that displays were sent behind the greeting, of all connections.
    pub(crate) heard: watch::Sender<Vec<u8>>,
    /// What the agent was told, each with how much the display had heard by then.
    pub(crate) told: watch::Sender<Vec<(FenceState, usize)>>,
    /// Whether the agent acknowledges.
    pub(crate) is_still: Arc<AtomicBool>,
    /// What the next display says once it is asked for something.
    pub(crate) says: Mutex<Vec<u8>>,
    /// Bytes that displays have got rid of, once they are told to paint.
    pub(crate) painted: Arc<AtomicU64>,
}

impl FakeBox {
    /// The way to it.
    pub(crate) fn machines(&self) -> Arc<dyn Machines> {
        Arc::new(Wired(vec![(AGENT, self.agent), (DISPLAY, self.display)]))
    }

    pub(crate) async fn start() -> Arc<Self> {
        let agent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let display = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let fake = Arc::new(Self {
            agent: agent.local_addr().unwrap(),
            display: display.local_addr().unwrap(),
            heard: watch::Sender::default(),
            told: watch::Sender::default(),
            is_still: Arc::new(AtomicBool::new(true)),
            says: Mutex::default(),
            painted: Arc::default(),
        });
        let service = FenceServer::new(FakeAgent(fake.clone()));
        let server = tonic::transport::Server::builder().add_service(service);
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(agent)));
        let shown = fake.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = display.accept().await {
                tokio::spawn(shown.clone().display(stream));
            }
        });
        fake
    }

    async fn display(self: Arc<Self>, mut stream: TcpStream) {
        stream.write_all(b"RFB 003.008\n").await.unwrap();
        let mut said = [0; 12];
        stream.read_exact(&mut said).await.unwrap();
        stream.write_all(&[1, 1]).await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), 1);
        stream.write_all(&[0; 4]).await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), 1, "not shared");
        stream.write_all(DESCRIBED).await.unwrap();
        let mut bytes = vec![0; 4_096];
        loop {
            let count = stream.read(&mut bytes).await.unwrap_or(0);
            if count == 0 {
                return;
            }
            let bytes = &bytes[..count];
            self.heard.send_modify(|heard| heard.extend(bytes));
            let says = std::mem::take(&mut *self.says.lock().unwrap());
            stream.write_all(&says).await.unwrap();
            if bytes.starts_with(PAINT) {
                break;
            }
        }
        let picture = vec![7; 1 << 16];
        while stream.write_all(&picture).await.is_ok() {
            self.painted.fetch_add(1 << 16, Ordering::SeqCst);
        }
    }
}

/// A fence of the viewer's that makes a fake display paint for good.
pub(crate) const PAINT: &[u8] = &[248, 0, 0, 0, 0, 0, 0, 0, 5, b'p', b'a', b'i', b'n', b't'];

struct FakeAgent(Arc<FakeBox>);

#[async_trait]
impl Fence for FakeAgent {
    type FollowStream = ReceiverStream<Result<FenceAck, Status>>;

    async fn follow(
        &self,
        request: Request<Streaming<FenceState>>,
    ) -> Result<Response<Self::FollowStream>, Status> {
        let (acks, acked) = mpsc::channel(1);
        let fake = self.0.clone();
        tokio::spawn(async move {
            let mut states = request.into_inner();
            while let Ok(Some(state)) = states.message().await {
                let (version, heard) = (state.version, fake.heard.borrow().len());
                fake.told.send_modify(|told| told.push((state, heard)));
                if fake.is_still.load(Ordering::SeqCst) {
                    acks.send(Ok(FenceAck { version })).await.ok();
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(acked)))
    }
}
