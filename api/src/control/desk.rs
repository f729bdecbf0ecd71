//! Decides for one box, one thing after the other.

use std::{sync::Arc, time::Duration};

use cocoonbox_commands::control::Command;
use cocoonbox_events::{Clock, CommandId, Execute, Ids, LogId, Meta, Store};
use cocoonbox_proto::{
    agent::v1::{ControlState, FenceState},
    log::v1::{Actor, actor, control_released::Reason},
};
use tokio::{
    sync::{mpsc, watch},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::{
    DISPLAYS, fence,
    handle::{Ask, Handle},
    refusal,
    seat::Seat,
};
use crate::{channel::BoxChannel, status};

/// Waiting to be decided, for all displays of a box.
const ASKS_MAX: usize = 64;
/// For a box's agents to end what they are at.
const FENCED: Duration = Duration::from_secs(3);
/// Between two tries to read the log, or to write that a lease has run out.
const AGAIN: Duration = Duration::from_secs(1);

/// What a desk works with.
#[derive(Clone)]
pub struct Parts {
    pub store: Arc<dyn Store>,
    pub ids: Arc<dyn Ids>,
    pub clock: Arc<dyn Clock>,
}

/// Decides who drives the displays of one box, for one of its lives.
pub struct Desk {
    parts: Parts,
    channel: BoxChannel,
    seats: Vec<Seat>,
    asks: mpsc::Receiver<Ask>,
    told: watch::Sender<Option<FenceState>>,
    version: u64,
    acked: watch::Receiver<u64>,
    link: Option<(watch::Receiver<Option<FenceState>>, watch::Sender<u64>)>,
}

impl Desk {
    /// Makes a desk and the way to it; `over` is cancelled when the box is let go.
    pub fn new(
        parts: Parts,
        account: LogId,
        channel: BoxChannel,
        over: CancellationToken,
    ) -> Result<(Handle, Self), cocoonbox_events::id::BadStreamName> {
        let seat = |display| Seat::new(account, &channel.box_id, display);
        let seats = (0..DISPLAYS).map(seat).collect::<Result<Vec<_>, _>>()?;
        let (asks, asked) = mpsc::channel(ASKS_MAX);
        let standing = seats.iter().map(Seat::watch).collect();
        let handle = Handle::new(asks, standing, channel.wake_id.clone(), over);
        let (told, tell) = watch::channel(None);
        let (ack, acked) = watch::channel(0);
        let desk = Self {
            parts,
            channel,
            seats,
            asks: asked,
            told,
            version: 0,
            acked,
            link: Some((tell, ack)),
        };
        Ok((handle, desk))
    }

    /// Works until stopped.
    pub async fn run(mut self, stop: CancellationToken) {
        let Some((tell, ack)) = self.link.take() else {
            return;
        };
        let fence = fence::run(self.channel.clone(), tell, ack, stop.clone());
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.work() => {}
            () = fence => {}
        }
    }

    async fn work(&mut self) {
        while let Err(error) = self.load().await {
            tracing::warn!(
                box_id = self.channel.box_id,
                error,
                "who has control cannot be read"
            );
            sleep(AGAIN).await;
        }
        loop {
            let expiry = self.expiry();
            tokio::select! {
                ask = self.asks.recv() => match ask {
                    Some(ask) => self.answer(ask).await,
                    None => return,
                },
                display = expiry => self.expire(display).await,
            }
        }
    }

    /// Takes up what the log has: an earlier process, or an earlier life of the box, may have left a lease. The box
    /// has not been told of any other, so that its agents keep still.
    async fn load(&mut self) -> Result<(), String> {
        for seat in &mut self.seats {
            let read = seat.fold.refresh(&*self.parts.store).await;
            read.map_err(|error| status::describe(&error))?;
            seat.admit();
        }
        self.tell();
        Ok(())
    }

    async fn answer(&mut self, ask: Ask) {
        match ask {
            Ask::Execute {
                display,
                command,
                actor,
                reply,
            } => {
                let done = self.execute(display, &command, actor).await;
                match (reply, done) {
                    (Some(reply), done) => drop(reply.send(done)),
                    (None, Err(status)) => {
                        tracing::debug!(box_id = self.channel.box_id, %status, "control");
                    }
                    (None, Ok(_)) => {}
                }
            }
            Ask::Attach {
                display,
                lease_id,
                user_id,
                reply,
            } => {
                let seat = self.seat(display);
                let attached = seat.and_then(|seat| seat.attach(&lease_id, &user_id));
                drop(reply.send(attached));
            }
        }
    }

    async fn execute(
        &mut self,
        display: u32,
        command: &Command,
        actor: Actor,
    ) -> Result<ControlState, Status> {
        let decided = self.decide(display, command, actor.clone()).await;
        // Also after a refusal: the log may have got something since, or have run out of time.
        let settled = self.settle(display, actor).await;
        decided?;
        settled?;
        Ok(self.seat(display)?.state())
    }

    async fn decide(
        &mut self,
        display: u32,
        command: &Command,
        actor: Actor,
    ) -> Result<(), Status> {
        let meta = Meta {
            command: CommandId(self.parts.ids.draw()),
            actor,
            cause: None,
        };
        let digest = *blake3::hash(format!("{command:?}").as_bytes()).as_bytes();
        let store = Arc::clone(&self.parts.store);
        let fold = &mut self.seat(display)?.fold;
        let read = fold.refresh(&*store).await;
        read.map_err(|error| status::internal(&error))?;
        match fold.execute(&*store, command, &meta, digest).await {
            Ok(_) => Ok(()),
            Err(Execute::Rejected(rejection)) => Err(refusal::rejected(rejection)),
            Err(error) => Err(status::from_execute(error, refusal::rejected)),
        }
    }

    /// Brings what goes on in line with the log, in the order that keeps two from acting at once.
    async fn settle(&mut self, display: u32, actor: Actor) -> Result<(), Status> {
        let seat = self.seat(display)?;
        let fence = seat.lease().map(|lease| lease.fence);
        let admitted = seat.admitted();
        if fence == admitted {
            // Renewed, or nothing.
            seat.publish();
            self.tell();
            return Ok(());
        }
        if admitted.is_some() {
            seat.end_input().await;
        }
        let version = self.tell();
        if fence.is_none() {
            self.seat(display)?.publish();
            return Ok(());
        }
        let mut acked = self.acked.clone();
        let fenced = timeout(FENCED, acked.wait_for(|acked| *acked >= version)).await;
        let is_fenced = matches!(fenced, Ok(Ok(_)));
        drop(fenced);
        if is_fenced {
            self.seat(display)?.admit();
            return Ok(());
        }
        let release = Command::Release {
            lease_id: None,
            reason: Reason::Unfenced,
            note: String::new(),
            now_us: self.parts.clock.now_us(),
        };
        self.decide(display, &release, actor).await?;
        self.tell();
        self.seat(display)?.publish();
        Err(refusal::unfenced())
    }

    /// Tells the box how things stand, if it does not know. Returns the version that says so.
    fn tell(&mut self) -> u64 {
        let held = self.seats.iter().filter(|seat| seat.lease().is_some());
        let mut state = FenceState {
            version: self.version,
            held: held.map(Seat::state).collect(),
            handed_back: self.seats.iter().filter_map(Seat::handed_back).collect(),
        };
        self.told.send_if_modified(|told| {
            if told.as_ref() == Some(&state) {
                return false;
            }
            self.version += 1;
            state.version = self.version;
            *told = Some(state);
            true
        });
        self.version
    }

    /// Resolves when the first lease runs out, with its display.
    fn expiry(&self) -> impl Future<Output = u32> + use<> {
        let now_us = self.parts.clock.now_us();
        let leases = self.seats.iter().filter_map(|seat| {
            let left = seat.lease()?.until_us.saturating_sub(now_us);
            Some((u64::try_from(left).unwrap_or(0), seat.display))
        });
        let next = leases.min();
        async move {
            match next {
                Some((left, display)) => {
                    sleep(Duration::from_micros(left)).await;
                    display
                }
                None => std::future::pending().await,
            }
        }
    }

    async fn expire(&mut self, display: u32) {
        let actor = Actor {
            kind: actor::Kind::System.into(),
            id: String::new(),
        };
        let now_us = self.parts.clock.now_us();
        let command = Command::Expire { now_us };
        if let Err(status) = self.execute(display, &command, actor).await {
            tracing::warn!(box_id = self.channel.box_id, %status, "a lease cannot be ended");
            sleep(AGAIN).await;
        }
    }

    fn seat(&mut self, display: u32) -> Result<&mut Seat, Status> {
        let index = usize::try_from(display).unwrap_or(usize::MAX);
        let problem = || status::bad_field("display", format!("is 0 to {}", DISPLAYS - 1));
        self.seats.get_mut(index).ok_or_else(problem)
    }
}
