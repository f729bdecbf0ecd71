//! A viewer's connection to a display: through the edge, or straight into the box's network.

use anyhow::{Context, bail, ensure};
use bytes::{Buf as _, Bytes};
use cocoonbox_proto::agent::v1::{
    ScreenRequest, ScreenResponse, ScreenStart, screen_request::Frame, screen_response,
    session_client::SessionClient,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::mpsc,
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::boxes::client::Wire;

/// What a viewer reads at once.
const READ_BYTES: usize = 256 * 1024;

pub(super) enum Way {
    Direct {
        screen: TcpStream,
        buffer: Vec<u8>,
    },
    Relayed {
        requests: mpsc::Sender<ScreenRequest>,
        frames: Streaming<ScreenResponse>,
    },
}

/// A viewer that has greeted.
pub(super) struct Viewer {
    way: Way,
    /// What was read and not looked at.
    rest: Bytes,
}

impl Viewer {
    pub(super) async fn direct(screen: TcpStream) -> anyhow::Result<Self> {
        let buffer = vec![0; READ_BYTES];
        Self::greet(Way::Direct { screen, buffer }).await
    }

    pub(super) async fn relayed(
        mut session: SessionClient<Wire>,
        display: u32,
        lease_id: &str,
    ) -> anyhow::Result<Self> {
        let (requests, sent) = mpsc::channel(16);
        let start = Frame::Start(ScreenStart {
            display,
            lease_id: lease_id.to_owned(),
        });
        requests.send(ScreenRequest { frame: Some(start) }).await?;
        let frames = session.screen(ReceiverStream::new(sent)).await;
        let frames = frames.context("Screen")?.into_inner();
        Self::greet(Way::Relayed { requests, frames }).await
    }

    async fn greet(way: Way) -> anyhow::Result<Self> {
        let rest = Bytes::new();
        let mut viewer = Self { way, rest };
        viewer.send(b"RFB 003.008\n").await?;
        viewer.skip(12).await?;
        ensure!(viewer.read(2).await? == [1, 1], "no security type None");
        viewer.send(&[1]).await?;
        viewer.skip(4).await?;
        viewer.send(&[1]).await?;
        viewer.skip(24).await?;
        Ok(viewer)
    }

    pub(super) async fn send(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        match &mut self.way {
            Way::Direct { screen, .. } => Ok(screen.write_all(bytes).await?),
            Way::Relayed { requests, .. } => {
                let frame = Some(Frame::Rfb(Bytes::copy_from_slice(bytes)));
                Ok(requests.send(ScreenRequest { frame }).await?)
            }
        }
    }

    pub(super) async fn read(&mut self, count: usize) -> anyhow::Result<Vec<u8>> {
        let mut all = Vec::with_capacity(count);
        while all.len() < count {
            let piece = self.some(count - all.len()).await?;
            all.extend_from_slice(&self.rest[..piece]);
            self.rest.advance(piece);
        }
        Ok(all)
    }

    pub(super) async fn skip(&mut self, mut count: usize) -> anyhow::Result<()> {
        while count > 0 {
            let piece = self.some(count).await?;
            self.rest.advance(piece);
            count -= piece;
        }
        Ok(())
    }

    /// Makes sure that something is there, and returns how much of `count`.
    async fn some(&mut self, count: usize) -> anyhow::Result<usize> {
        while self.rest.is_empty() {
            self.rest = match &mut self.way {
                Way::Direct { screen, buffer } => {
                    let read = screen.read(buffer).await?;
                    ensure!(read > 0, "the display ended");
                    Bytes::copy_from_slice(&buffer[..read])
                }
                Way::Relayed { frames, .. } => match frames.message().await.context("Screen")? {
                    Some(ScreenResponse {
                        frame: Some(screen_response::Frame::Rfb(bytes)),
                    }) => bytes,
                    Some(_) => Bytes::new(),
                    None => bail!("the screen ended"),
                },
            };
        }
        Ok(count.min(self.rest.len()))
    }
}
