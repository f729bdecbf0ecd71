//! The api's own gateway behind a door, as a box sees it.

use std::{net::SocketAddr, sync::Arc};

use anyhow::Result;
use async_trait::async_trait;
use cocoonbox_api::{
    door::{self, Channel, DoorServices, WebPolicy},
    gateway::{Gateway, GatewayConfig, Secret, UsageSink, Vendor},
};
use cocoonbox_proto::log::v1::UsageModelCalled;
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;

/// The door of one box.
pub(crate) struct Door {
    pub(crate) address: SocketAddr,
    serving: JoinHandle<()>,
}

/// Nobody counts here.
struct Uncounted;

#[async_trait]
impl UsageSink for Uncounted {
    async fn record(&self, _: UsageModelCalled, _: &Channel) {}
}

impl Door {
    /// Opens a door to a gateway whose vendors are at `base_url`.
    pub(crate) async fn open(base_url: &str) -> Result<Self> {
        let vendor = || {
            Some(Vendor {
                base_url: base_url.to_owned(),
                key: Secret::new("sk-proof".into()),
            })
        };
        let config = GatewayConfig {
            anthropic: vendor(),
            openai: vendor(),
        };
        let gateway = Arc::new(Gateway::new(config, Arc::new(Uncounted))?);
        let services = DoorServices::new(gateway, WebPolicy::default(), Vec::new());
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let channel = Channel {
            user_id: "proof".to_owned(),
            box_id: "box1".to_owned(),
            wake_id: "wake1".to_owned(),
        };
        let serving = door::serve(
            listener,
            channel,
            Arc::new(services),
            CancellationToken::new(),
        );
        let serving = tokio::spawn(serving);
        Ok(Self { address, serving })
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
