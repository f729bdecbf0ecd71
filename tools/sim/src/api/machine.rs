//! Calls to what runs the machines, and to the agents in them.

use std::{future::Future, sync::Arc};

use super::Api;
use crate::{
    agent::{Agent, Refusal},
    host::{Host, HostError, Spec},
    net::Place,
};

/// Why a call had no effect, as far as is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// No answer.
    Lost,
    Host(HostError),
    Agent(Refusal),
    /// The box is not there, or its machine does not run.
    Down,
    Store(String),
}

impl Api {
    async fn at_host<R: Send + 'static>(
        &self,
        work: impl Fn(&Host) -> R + Clone + Send + Sync + 'static,
    ) -> Result<R, Fault> {
        let host = Arc::clone(&self.host);
        let done = self.net.call(self.place, Place::Host, move || {
            let (host, work) = (Arc::clone(&host), work.clone());
            async move { work(&host) }
        });
        done.await.map_err(|_| Fault::Lost)
    }

    pub(super) async fn machine_ensure(&self, spec: Spec) -> Result<(), Fault> {
        let done = self.at_host(move |host| host.ensure(&spec)).await?;
        done.map_err(Fault::Host)
    }

    pub(super) async fn machine_hibernate(&self, box_id: &str, term: u64) -> Result<(), Fault> {
        let of = box_id.to_owned();
        let done = self.at_host(move |host| host.hibernate(&of, term)).await?;
        done.map_err(Fault::Host)
    }

    pub(super) async fn machine_delete(&self, box_id: &str, term: u64) -> Result<(), Fault> {
        let of = box_id.to_owned();
        let done = self.at_host(move |host| host.delete(&of, term)).await?;
        done.map_err(Fault::Host)
    }

    /// Asks the process in a box.
    pub(super) async fn ask<R, F>(
        &self,
        box_id: &str,
        work: impl Fn(Arc<Agent>) -> F + Clone + Send + Sync + 'static,
    ) -> Result<R, Fault>
    where
        R: Send + 'static,
        F: Future<Output = Result<R, Refusal>> + Send + 'static,
    {
        let place = self.host.get(box_id).ok_or(Fault::Down)?.place;
        let (host, of) = (Arc::clone(&self.host), box_id.to_owned());
        let done = self.net.call(self.place, place, move || {
            let (host, of, work) = (Arc::clone(&host), of.clone(), work.clone());
            async move {
                match host.agent(&of) {
                    Some(agent) => work(agent).await,
                    None => Err(Refusal::NotReleased),
                }
            }
        });
        done.await.map_err(|_| Fault::Lost)?.map_err(Fault::Agent)
    }
}
