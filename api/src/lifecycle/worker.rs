//! One box: its debt, its machine, its connection.

mod idle;
mod inherit;
mod start;
mod stay;
mod stop;

use std::{sync::Arc, time::Duration};

use cocoonbox_commands::boxes::{self, Command, Debt, Phase};
use cocoonbox_events::{CommandId, Execute, Fold, LoadError, Meta};
use cocoonbox_installation::LeasesError;
use cocoonbox_machines::{self as machines, BoxId};
use cocoonbox_proto::log::v1::{Actor, actor};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::{
    capsules,
    channel::Life,
    images::NoImage,
    lease::{self, Tenure},
    lifecycle::{Context, attached::Attached, box_id},
    replica,
    status::describe,
};

/// From a started machine to an agent that answers. A slow host takes seconds; more is a fault.
const READY: Duration = Duration::from_secs(30);
const RETRY_MIN: Duration = Duration::from_millis(200);
const RETRY_MAX: Duration = Duration::from_secs(10);
/// A box that is driven elsewhere is looked at this often, in case its disks come here.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// Drives one box.
pub(super) struct Worker {
    context: Arc<Context>,
    fold: Fold<boxes::State>,
    bell: Arc<Notify>,
    attached: Option<Attached>,
    /// The right to drive the box. Without it nothing is done to it.
    tenure: Option<Tenure>,
    attempts: u32,
    /// The box was quiesced when it last slept, and no machine was started since.
    is_untouched: bool,
}

#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error(transparent)]
    Machine(#[from] machines::Error),
    #[error(transparent)]
    Image(#[from] NoImage),
    #[error("the agent did not answer within {} s", READY.as_secs())]
    NotReady,
    #[error("the box that was forked does not sleep any more where it did; fork it again")]
    Origin,
    #[error("the files that the box begins with cannot be given to it")]
    Snapshot(#[source] capsules::PlaceError),
    #[error("the box's log cannot go on: {0}")]
    NotReleased(String),
    #[error("the machine ended while it was starting")]
    Ended,
    #[error(transparent)]
    Execute(#[from] Execute<boxes::Rejection>),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("the box's log cannot be opened")]
    Log(#[source] cocoonbox_events::AppendError),
    #[error("who drives the box cannot be found out")]
    Leases(#[from] LeasesError),
}

impl Worker {
    pub(super) fn new(context: Arc<Context>, fold: Fold<boxes::State>, bell: Arc<Notify>) -> Self {
        Self {
            context,
            fold,
            bell,
            attached: None,
            tenure: None,
            attempts: 0,
            is_untouched: false,
        }
    }

    /// Runs until the box is deleted or the api stops. The machine is left as it is then.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        let mut pause = RETRY_MIN;
        loop {
            let lost = self.tenure.as_ref().map(Tenure::lost);
            let step = tokio::select! {
                // A lease that is lost ends whatever is being done, before anything else does.
                biased;
                () = stop.cancelled() => break,
                () = lost_or_never(lost) => {
                    tracing::warn!(stream = %self.fold.stream, "box is left to another api process");
                    self.detach().await;
                    self.tenure = None;
                    continue;
                }
                step = self.step() => step,
            };
            match step {
                Ok(true) => pause = RETRY_MIN,
                Ok(false) => break,
                Err(fault) => {
                    let error = describe(&fault);
                    tracing::warn!(stream = %self.fold.stream, error, "box is not as its log wants it");
                    let lost = self.tenure.as_ref().map(Tenure::lost);
                    tokio::select! {
                        () = stop.cancelled() => break,
                        () = lost_or_never(lost) => {}
                        () = tokio::time::sleep(pause) => pause = (pause * 2).min(RETRY_MAX),
                    }
                }
            }
        }
        self.let_go().await;
    }

    /// Does one thing that is owed, or waits for something to be. `false`: there will be nothing.
    async fn step(&mut self) -> Result<bool, Fault> {
        self.fold.refresh(&*self.context.store).await?;
        let debt = self.fold.state.owed();
        let has_work = debt.is_some() || matches!(self.fold.state.phase, Phase::Running { .. });
        if has_work && !self.tenure.as_ref().is_some_and(Tenure::is_valid) {
            self.detach().await;
            self.tenure = None;
            self.hold().await?;
            // Whoever had it before may have changed everything.
            return Ok(true);
        }
        match debt {
            Some(Debt::Start { wake, .. }) => self.start(wake).await?,
            Some(Debt::Stop { wake, .. }) => self.stop(wake).await?,
            Some(Debt::Remove { .. }) => self.remove().await?,
            None => match self.fold.state.phase.clone() {
                Phase::Running { wake } => self.supervise(&wake).await?,
                Phase::Deleted => return Ok(false),
                _ => {
                    self.let_go().await;
                    self.bell.notified().await;
                }
            },
        }
        Ok(true)
    }

    /// Waits until the box may be driven from here, or is asked something else.
    async fn hold(&mut self) -> Result<(), Fault> {
        let Some(id) = box_id(&self.fold.stream) else {
            self.bell.notified().await;
            return Ok(());
        };
        if !self.is_here(&id).await? {
            tokio::select! {
                () = self.bell.notified() => {}
                () = tokio::time::sleep(LOOK_AGAIN) => {}
            }
            return Ok(());
        }
        let owners = self.context.owners.clone();
        let name = lease::name_of(id.as_str());
        let tenure = tokio::select! {
            () = self.bell.notified() => return Ok(()),
            tenure = owners.hold(&name) => tenure,
        };
        // Late changes of whoever had it before are refused from here on.
        if owners.are_shared() {
            self.context.machines.claim(&id, tenure.fence()).await?;
        }
        self.tenure = Some(tenure);
        Ok(())
    }

    /// Whether the box's machine is where this process can drive it. A new box has none and may start
    /// anywhere; one that was begun elsewhere and has no disks yet is begun there.
    async fn is_here(&self, id: &BoxId) -> Result<bool, Fault> {
        let owners = &self.context.owners;
        if !owners.are_shared() || self.context.machines.get(id).await?.is_some() {
            return Ok(true);
        }
        let last = owners.last_holder(&lease::name_of(id.as_str())).await?;
        Ok(match last {
            Some(last) => last.holder.place == owners.me().place,
            // A fork is made where the files are that it is made from.
            None if let Some(origin) = self.inherits_from() => {
                if origin.snapshot_id.is_some() {
                    return Ok(self.context.capsules.is_usable());
                }
                let source = BoxId::new(origin.box_id.clone())?;
                self.context.machines.get(&source).await?.is_some()
            }
            None => !matches!(self.fold.state.phase, Phase::Running { .. }),
        })
    }

    /// Lets go of the box: nothing is owed to it, or somebody else goes on.
    async fn let_go(&mut self) {
        self.detach().await;
        if let Some(tenure) = self.tenure.take() {
            tenure.release().await;
        }
    }

    /// Opens what hangs on this life of the box, unless it is open.
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
            account: self.fold.log,
            stream: self.fold.stream.clone(),
            is_untouched: std::mem::take(&mut self.is_untouched),
        };
        let opened = replica::open(&*self.context.store, &self.fold.state).await;
        opened.map_err(Fault::Log)?;
        self.attached = Some(Attached::open(&self.context, life).await);
        Ok(())
    }

    async fn detach(&mut self) {
        if let Some(attached) = self.attached.take() {
            attached.close(&self.context).await;
        }
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
}

/// Waits for what is cancelled, or for ever if there is nothing.
async fn lost_or_never(token: Option<CancellationToken>) {
    match token {
        Some(token) => token.cancelled_owned().await,
        None => std::future::pending().await,
    }
}
