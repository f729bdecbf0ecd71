//! One box: its debt, its machine, its connection.

use std::{sync::Arc, time::Duration};

use cocoonbox_commands::boxes::{self, Command, Debt, Phase};
use cocoonbox_events::{CommandId, Execute, Fold, LoadError, LogKind, Meta, NewLog};
use cocoonbox_machines::{self as machines, Identity, MachineState, Spec, WakeId};
use cocoonbox_proto::{
    agent::v1::{HelloRequest, HelloResponse, session_client::SessionClient},
    log::v1::{Actor, actor},
};
use serde_json::json;
use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    channel::{BoxChannel, Life},
    door::{self, Channel},
    lifecycle::{Context, box_id},
    replica,
    status::describe,
};

/// Where a box finds the egress door in its own network.
const DOOR_PORT: u16 = 3128;
/// From a started machine to an agent that answers. A slow host takes seconds; more is a fault.
const READY: Duration = Duration::from_secs(30);
const READY_POLL: Duration = Duration::from_millis(10);
/// Writing down what is under way and copying it out. Past it the box is stopped all the same: its
/// own copy of the log is on its disk and is copied at the next wake.
const QUIESCE: Duration = Duration::from_secs(10);
const RETRY_MIN: Duration = Duration::from_millis(200);
const RETRY_MAX: Duration = Duration::from_secs(10);
/// Starts of a machine before an operation is called failed.
const ATTEMPTS_MAX: u32 = 3;
/// A box log is tied into its account log at least this often while it grows.
const ANCHOR: Duration = Duration::from_secs(60);

/// Drives one box.
pub(super) struct Worker {
    context: Arc<Context>,
    fold: Fold<boxes::State>,
    bell: Arc<Notify>,
    attached: Option<Attached>,
    attempts: u32,
}

/// What hangs on one life of a box: its channel, its door, its replication.
struct Attached {
    channel: BoxChannel,
    stop: CancellationToken,
    tasks: TaskTracker,
}

#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error(transparent)]
    Machine(#[from] machines::Error),
    #[error("the agent did not answer within {} s", READY.as_secs())]
    NotReady,
    #[error("the machine ended while it was starting")]
    Ended,
    #[error(transparent)]
    Execute(#[from] Execute<boxes::Rejection>),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("the box's log cannot be opened")]
    Log(#[source] cocoonbox_events::AppendError),
    #[error("the door cannot listen in the box")]
    Door(#[source] machines::Error),
}

impl Worker {
    pub(super) fn new(context: Arc<Context>, fold: Fold<boxes::State>, bell: Arc<Notify>) -> Self {
        Self {
            context,
            fold,
            bell,
            attached: None,
            attempts: 0,
        }
    }

    /// Runs until the box is deleted or the api stops. The machine is left as it is then.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        let mut pause = RETRY_MIN;
        loop {
            let step = tokio::select! {
                () = stop.cancelled() => break,
                step = self.step() => step,
            };
            match step {
                Ok(true) => pause = RETRY_MIN,
                Ok(false) => break,
                Err(fault) => {
                    let error = describe(&fault);
                    tracing::warn!(stream = %self.fold.stream, error, "box is not as its log wants it");
                    tokio::select! {
                        () = stop.cancelled() => break,
                        () = tokio::time::sleep(pause) => pause = (pause * 2).min(RETRY_MAX),
                    }
                }
            }
        }
        self.detach().await;
    }

    /// Does one thing that is owed, or waits for something to be. `false`: there will be nothing.
    async fn step(&mut self) -> Result<bool, Fault> {
        self.fold.refresh(&*self.context.store).await?;
        match self.fold.state.owed() {
            Some(Debt::Start { wake, .. }) => self.start(wake).await?,
            Some(Debt::Stop { wake, .. }) => self.stop(wake).await?,
            Some(Debt::Remove { .. }) => self.remove().await?,
            None => match self.fold.state.phase.clone() {
                Phase::Running { wake } => self.supervise(&wake).await?,
                Phase::Deleted => return Ok(false),
                _ => {
                    self.detach().await;
                    self.bell.notified().await;
                }
            },
        }
        Ok(true)
    }

    async fn start(&mut self, wake: Option<String>) -> Result<(), Fault> {
        let wake = match wake {
            Some(wake) => wake,
            None => {
                let wake = self.context.ids.draw().simple().to_string();
                let image = self.context.image.file_stem().unwrap_or_default();
                let image = image.to_string_lossy().into_owned();
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

    /// Brings the machine and its agent up. `None` if the log asks for something else meanwhile.
    async fn bring_up(&mut self, wake: &str) -> Result<Option<HelloResponse>, Fault> {
        let Some(id) = box_id(&self.fold.stream) else {
            return Ok(None);
        };
        let wake_id = WakeId(wake.to_owned());
        let spec = Spec {
            box_id: id.clone(),
            wake_id: wake_id.clone(),
            image: self.context.image.clone(),
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
        let ready = async {
            loop {
                let mut client = SessionClient::new(channel.transport.clone());
                if let Ok(hello) = client.hello(channel.sign(HelloRequest {})).await {
                    return hello.into_inner();
                }
                tokio::time::sleep(READY_POLL).await;
            }
        };
        tokio::pin!(ready);
        let deadline = tokio::time::sleep(READY);
        tokio::pin!(deadline);
        let ended = machines.wait(&id, &wake_id);
        tokio::pin!(ended);
        loop {
            tokio::select! {
                hello = &mut ready => return Ok(Some(hello)),
                () = &mut deadline => return Err(Fault::NotReady),
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

    async fn stop(&mut self, wake: Option<String>) -> Result<(), Fault> {
        let Some(id) = box_id(&self.fold.stream) else {
            return Ok(());
        };
        let running = self.context.machines.get(&id).await?.filter(|machine| {
            machine.state == MachineState::Running
                && machine.wake_id.as_ref().map(|w| &w.0) == wake.as_ref()
        });
        if let (Some(wake), Some(_)) = (&wake, running) {
            self.attach(wake).await?;
            if let Some(attached) = &self.attached {
                let quiesced =
                    replica::quiesce(&*self.context.store, &attached.channel, QUIESCE).await;
                if let Err(error) = quiesced {
                    tracing::warn!(box_id = %id, %error, "box did not quiesce; stopping it as it is");
                }
            }
            self.anchor().await?;
        }
        // The agent ends at once when nobody listens to it any more.
        self.detach().await;
        self.context.machines.hibernate(&id).await?;
        let memory_kept = self.context.machines.promises().memory_kept_on_hibernate;
        self.report(Command::Hibernated { memory_kept }).await
    }

    async fn remove(&mut self) -> Result<(), Fault> {
        self.detach().await;
        if let Some(id) = box_id(&self.fold.stream) {
            self.context.machines.delete(&id).await?;
        }
        self.report(Command::Deleted).await
    }

    /// Stays with a running box until it ends or something else is wanted.
    async fn supervise(&mut self, wake: &str) -> Result<(), Fault> {
        let Some(id) = box_id(&self.fold.stream) else {
            return Ok(());
        };
        let wake_id = WakeId(wake.to_owned());
        let alive = self
            .context
            .machines
            .get(&id)
            .await?
            .is_some_and(|machine| {
                machine.state == MachineState::Running && machine.wake_id.as_ref() == Some(&wake_id)
            });
        if !alive {
            return self.lost(wake, "the machine does not run any more").await;
        }
        self.attach(wake).await?;
        let machines = self.context.machines.clone();
        let ended = machines.wait(&id, &wake_id);
        tokio::pin!(ended);
        loop {
            tokio::select! {
                ended = &mut ended => {
                    ended?;
                    return self.lost(wake, "the machine ended by itself").await;
                }
                () = self.bell.notified() => {
                    self.fold.refresh(&*self.context.store).await?;
                    if self.fold.state.phase != (Phase::Running { wake: wake.to_owned() }) {
                        return Ok(());
                    }
                }
                () = tokio::time::sleep(ANCHOR) => {
                    self.anchor().await?;
                    // Asking also cuts the console log of the box to its limit.
                    let usage = self.context.machines.usage(&id).await?;
                    tracing::debug!(box_id = %id, memory_bytes = usage.memory_bytes, "box in use");
                }
            }
        }
    }

    async fn lost(&mut self, wake: &str, detail: &str) -> Result<(), Fault> {
        self.detach().await;
        if let Some(id) = box_id(&self.fold.stream) {
            self.context.machines.hibernate(&id).await?;
        }
        let (wake_id, detail) = (wake.to_owned(), detail.to_owned());
        self.report(Command::MachineLost { wake_id, detail }).await
    }

    /// Opens the door, the channel and the replication of this life, unless they are.
    async fn attach(&mut self, wake: &str) -> Result<(), Fault> {
        if self
            .attached
            .as_ref()
            .is_some_and(|attached| attached.channel.wake_id == wake)
        {
            return Ok(());
        }
        self.detach().await;
        let Some(id) = box_id(&self.fold.stream) else {
            return Ok(());
        };
        let state = &self.fold.state;
        let Some(box_log) = state.box_log else {
            return Ok(());
        };
        let life = Life {
            user_id: state.user_id.clone(),
            box_id: id.clone(),
            wake_id: wake.to_owned(),
            log: box_log,
        };
        let log = NewLog {
            id: life.log,
            kind: LogKind::Box,
            owner: life.user_id.clone(),
            parent: None,
        };
        self.context.store.open(log).await.map_err(Fault::Log)?;
        let context = &self.context;
        let listener = context
            .machines
            .listen(&id, &WakeId(wake.to_owned()), DOOR_PORT)
            .await
            .map_err(Fault::Door)?;
        let channel = BoxChannel::new(
            &life,
            context.machines.clone(),
            context.signer.clone(),
            context.clock.clone(),
        );
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let who = Channel {
            user_id: life.user_id,
            box_id: life.box_id.to_string(),
            wake_id: life.wake_id,
        };
        tasks.spawn(door::serve(
            listener,
            who,
            context.door.clone(),
            stop.clone(),
        ));
        tasks.spawn(replica::run(
            context.store.clone(),
            channel.clone(),
            stop.clone(),
        ));
        context.channels.insert(channel.clone());
        self.attached = Some(Attached {
            channel,
            stop,
            tasks,
        });
        Ok(())
    }

    async fn detach(&mut self) {
        if let Some(attached) = self.attached.take() {
            self.context
                .channels
                .remove(&attached.channel.box_id, &attached.channel.wake_id);
            attached.stop.cancel();
            attached.tasks.close();
            attached.tasks.wait().await;
        }
    }

    /// Ties the replica's tail into the account log, if it has moved.
    async fn anchor(&mut self) -> Result<(), Fault> {
        let tail = self
            .fold
            .state
            .box_log
            .map(|log| self.context.store.tail(log));
        let Some(Ok(tail)) = tail else { return Ok(()) };
        if tail.pos <= self.fold.state.anchored {
            return Ok(());
        }
        let command = Command::Anchor {
            box_log: tail.log,
            pos: tail.pos,
            chain: tail.chain,
        };
        self.report(command).await
    }

    /// Reports a fact. The command id follows from the last event, so that a crash between an effect
    /// and its event leads to one event. A report that the state no longer takes is dropped: the next
    /// step sees what is wanted instead.
    async fn report(&mut self, command: Command) -> Result<(), Fault> {
        let step = format!("{command:?}");
        let cause = self.fold.last;
        let seed = cause.map(|id| *id.as_bytes()).unwrap_or_default();
        let meta = Meta {
            command: CommandId::derive(&seed, &step),
            actor: Actor {
                kind: actor::Kind::System.into(),
                id: "lifecycle".into(),
            },
            cause,
        };
        let digest = *blake3::hash(step.as_bytes()).as_bytes();
        match self
            .fold
            .execute(&*self.context.store, &command, &meta, digest)
            .await
        {
            Ok(_) => Ok(()),
            Err(Execute::Rejected(rejection)) => {
                tracing::debug!(stream = %self.fold.stream, %rejection, "report came too late");
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// What the box is told about itself. Nothing in it is secret.
    fn identity(&self, wake: &str) -> Identity {
        let state = &self.fold.state;
        let model = self.context.model.as_ref().map(|model| {
            json!({
                "wire": model.wire,
                "model": model.model,
                "output_tokens_max": model.output_tokens_max,
            })
        });
        Identity(json!({
            "box_id": state.box_id,
            "wake_id": wake,
            "key_id": self.context.signer.key_id(),
            "public_key": self.context.signer.public_key(),
            "log_id": state.box_log.map(|log| log.to_string()),
            "models": model.map_or_else(|| json!({}), |model| json!({ "main": model })),
        }))
    }
}
