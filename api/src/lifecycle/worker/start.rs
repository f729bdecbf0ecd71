//! From a box that is wanted to one that runs.

use std::time::Duration;

use cocoonbox_commands::{
    boxes::{Command, Phase},
    models::inherited,
};
use cocoonbox_machines::{self as machines, Identity, Spec, WakeId};
use cocoonbox_proto::{
    agent::v1::{HelloRequest, HelloResponse, session_client::SessionClient},
    control::v1::Flavor,
};
use serde_json::json;
use tokio::time::{Instant, timeout_at};

use super::{Fault, READY, Worker};
use crate::{
    capsules,
    channel::BoxChannel,
    config::{self, Models},
    lifecycle::box_id,
    status::describe,
};

const READY_POLL: Duration = Duration::from_millis(10);
/// Starts of a machine before an operation is called failed.
const ATTEMPTS_MAX: u32 = 3;

impl Worker {
    pub(super) async fn start(&mut self, wake: Option<String>) -> Result<(), Fault> {
        let wake = match wake {
            Some(wake) => wake,
            None => {
                self.is_untouched = self.fold.state.quiesced;
                let wake = self.context.ids.draw().simple().to_string();
                let image = self.context.images.version(self.flavor());
                self.report(Command::Starting {
                    wake_id: wake.clone(),
                    image,
                })
                .await?;
                wake
            }
        };
        match self.bring_up(&wake).await {
            Ok(Some(hello)) => {
                self.attempts = 0;
                let agent_version = hello.agent_version;
                self.report(Command::Running {
                    wake_id: wake,
                    agent_version,
                })
                .await
            }
            // Something else is wanted by now.
            Ok(None) => Ok(()),
            Err(fault) => {
                self.detach().await;
                self.attempts += 1;
                if self.attempts < ATTEMPTS_MAX {
                    return Err(fault);
                }
                self.attempts = 0;
                if let Some(id) = box_id(&self.fold.stream) {
                    self.context.machines.hibernate(&id).await?;
                }
                let reason = match &fault {
                    Fault::Machine(machines::Error::MissingProgram { .. }) => "HOST_INCOMPLETE",
                    Fault::NotReady | Fault::Ended => "AGENT_NOT_READY",
                    Fault::NotReleased(_) => "LOG_REFUSED",
                    Fault::Origin => "FORK_SOURCE_MOVED",
                    Fault::Snapshot(error) => capsules::reason(error),
                    Fault::Image(_) => "NO_IMAGE",
                    _ => "MACHINE_FAILED",
                };
                let detail = describe(&fault);
                tracing::error!(stream = %self.fold.stream, detail, "box failed to start");
                self.report(Command::Failed {
                    reason: reason.into(),
                    detail,
                })
                .await
            }
        }
    }

    fn flavor(&self) -> Flavor {
        let number = i32::try_from(self.fold.state.flavor).unwrap_or_default();
        Flavor::try_from(number).unwrap_or_default()
    }

    /// Brings the machine and its agent up. `None` if the log asks for something else meanwhile.
    async fn bring_up(&mut self, wake: &str) -> Result<Option<HelloResponse>, Fault> {
        let Some(id) = box_id(&self.fold.stream) else {
            return Ok(None);
        };
        if !self.inherit(&id).await? {
            return Ok(None);
        }
        let wake_id = WakeId(wake.to_owned());
        let spec = Spec {
            box_id: id.clone(),
            wake_id: wake_id.clone(),
            image: self.context.images.find(self.flavor())?,
            agent: self.context.agent.clone(),
            identity: self.identity(wake),
            limits: self.context.limits,
        };
        self.context.machines.ensure(&spec).await?;
        self.attach(wake).await?;
        let Some(attached) = &self.attached else {
            return Ok(None);
        };
        let channel = attached.channel.clone();
        let machines = self.context.machines.clone();
        let bell = self.bell.clone();
        let ready = released(&channel);
        tokio::pin!(ready);
        let ended = machines.wait(&id, &wake_id);
        tokio::pin!(ended);
        loop {
            tokio::select! {
                hello = &mut ready => return hello.map(Some),
                ended = &mut ended => return Err(ended.map_or_else(Fault::Machine, |()| Fault::Ended)),
                () = bell.notified() => {
                    self.fold.refresh(&*self.context.store).await?;
                    if !matches!(&self.fold.state.phase, Phase::Starting { wake: Some(w), .. } if w == wake) {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// What the box is told about itself. Nothing in it is secret.
    pub(super) fn identity(&self, wake: &str) -> Identity {
        let state = &self.fold.state;
        let models = self.context.models.as_ref().map(Models::roles);
        let models = inherited(&state.models, &models.unwrap_or_default());
        Identity(json!({
            "box_id": state.box_id,
            "wake_id": wake,
            "key_id": self.context.signer.key_id(),
            "public_key": self.context.signer.public_key(),
            "models": config::to_json(&models),
        }))
    }
}

/// Waits until the agent answers and knows which log it writes. Giving a lost log back may take longer than
/// [`READY`]; the agent says meanwhile that it is there.
async fn released(channel: &BoxChannel) -> Result<HelloResponse, Fault> {
    let mut heard_by = Instant::now() + READY;
    loop {
        let mut client = SessionClient::new(channel.transport.clone());
        let hello = timeout_at(heard_by, client.hello(channel.sign(HelloRequest {}))).await;
        match hello {
            Ok(Ok(hello)) if hello.get_ref().released => return Ok(hello.into_inner()),
            Ok(Ok(_)) => heard_by = Instant::now() + READY,
            Ok(Err(_)) if Instant::now() < heard_by => {}
            Ok(Err(_)) | Err(_) => return Err(Fault::NotReady),
        }
        let fault = channel.fault.borrow().clone();
        if !fault.is_empty() {
            return Err(Fault::NotReleased(fault));
        }
        tokio::time::sleep(READY_POLL).await;
    }
}
