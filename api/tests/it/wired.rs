//! Machines that are nothing but the way to what listens on this host.

use std::net::SocketAddr;

use async_trait::async_trait;
use cocoonbox_machines::{
    BoxId, Error, Listener, Machine, Machines, Promises, Spec, Stream, Usage, WakeId,
    machine::Isolation,
};

/// Where an agent listens in a box.
pub(crate) const AGENT: u16 = 7443;
/// Where the first display does.
pub(crate) const DISPLAY: u16 = 5900;

/// Ports of every box, and what is behind them.
pub(crate) struct Wired(pub(crate) Vec<(u16, SocketAddr)>);

#[async_trait]
impl Machines for Wired {
    fn promises(&self) -> Promises {
        Promises {
            memory_kept_on_hibernate: false,
            survives_host_restart: true,
            isolation: Isolation::Container,
        }
    }

    async fn ensure(&self, spec: &Spec) -> Result<Machine, Error> {
        Err(Error::NotFound(spec.box_id.to_string()))
    }

    async fn get(&self, _: &BoxId) -> Result<Option<Machine>, Error> {
        Ok(None)
    }

    async fn list(&self) -> Result<Vec<Machine>, Error> {
        Ok(Vec::new())
    }

    async fn hibernate(&self, _: &BoxId) -> Result<(), Error> {
        Ok(())
    }

    async fn delete(&self, _: &BoxId) -> Result<(), Error> {
        Ok(())
    }

    async fn wait(&self, _: &BoxId, _: &WakeId) -> Result<(), Error> {
        Ok(())
    }

    async fn dial(&self, id: &BoxId, _: &WakeId, port: u16) -> Result<Stream, Error> {
        let gone = || Error::NotRunning(id.to_string());
        let address = self.0.iter().find(|(listening, _)| *listening == port);
        let (_, address) = address.ok_or_else(gone)?;
        Stream::connect(address).await.map_err(|_| gone())
    }

    async fn listen(&self, id: &BoxId, _: &WakeId, _: u16) -> Result<Listener, Error> {
        Err(Error::NotRunning(id.to_string()))
    }

    async fn usage(&self, _: &BoxId) -> Result<Usage, Error> {
        Ok(Usage::default())
    }
}
