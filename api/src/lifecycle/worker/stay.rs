//! While a box runs.

use std::{future::Future, time::Duration};

use cocoonbox_commands::boxes::{Command, Phase};
use cocoonbox_machines::{MachineState, WakeId};
use tokio::time::{Instant, MissedTickBehavior};

use super::{Fault, Worker, idle::Stillness, lost_or_never};
use crate::{lease::Tenure, lifecycle::box_id};

/// So long nothing must be written to a box's log for the box to count as quiet.
const QUIET: Duration = Duration::from_secs(3);
/// A box that is never quiet changes its process all the same.
const QUIET_MAX: Duration = Duration::from_mins(2);
/// A box log is tied into its account log at least this often while it grows.
const ANCHOR: Duration = Duration::from_mins(1);
/// Between two looks at whether the box's memory was full, soon enough to explain why a program is gone, and at
/// whether it is idle.
const LOOK: Duration = Duration::from_secs(1);

impl Worker {
    /// Stays with a running box until it ends or something else is wanted.
    pub(super) async fn supervise(&mut self, wake: &str) -> Result<(), Fault> {
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
        let mut told = self.identity(wake);
        // Whoever drove it before may have been told of other models.
        self.context.machines.tell(&id, &wake_id, &told).await?;
        let machines = self.context.machines.clone();
        let ended = machines.wait(&id, &wake_id);
        tokio::pin!(ended);
        let leave = self.quiet_end();
        tokio::pin!(leave);
        let mut still = Stillness::new();
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut anchor = tokio::time::interval_at(Instant::now() + ANCHOR, ANCHOR);
        anchor.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                ended = &mut ended => {
                    ended?;
                    return self.lost(wake, "the machine ended by itself").await;
                }
                () = &mut leave => {
                    self.let_go().await;
                    return Ok(());
                }
                () = self.bell.notified() => {
                    self.fold.refresh(&*self.context.store).await?;
                    if self.fold.state.phase != (Phase::Running { wake: wake.to_owned() }) {
                        return Ok(());
                    }
                    let identity = self.identity(wake);
                    if identity != told {
                        self.context.machines.tell(&id, &wake_id, &identity).await?;
                        told = identity;
                    }
                }
                _ = look.tick() => {
                    let killed = self.context.machines.memory_kills(&id).await?;
                    if killed > self.fold.state.memory_kills {
                        tracing::info!(box_id = %id, killed, "a box's memory was full");
                        let wake_id = wake.to_owned();
                        self.report(Command::MemoryExhausted { wake_id, killed }).await?;
                    }
                    self.sleep_if_idle(&mut still).await?;
                }
                _ = anchor.tick() => {
                    self.anchor().await?;
                    // Asking also cuts the console log of the box to its limit.
                    let usage = self.context.machines.usage(&id).await?;
                    tracing::debug!(box_id = %id, memory_bytes = usage.memory_bytes, "box in use");
                }
            }
        }
    }

    /// Resolves when the box should be left to another process and nothing moves in it, so that no call to a
    /// model is cut off; at the latest after [`QUIET_MAX`].
    fn quiet_end(&self) -> impl Future<Output = ()> + use<> {
        let leave = self.tenure.as_ref().map(Tenure::leave);
        let (store, log) = (self.context.store.clone(), self.fold.state.box_log);
        async move {
            lost_or_never(leave).await;
            let tail = || {
                log.and_then(|log| store.tail(log).ok())
                    .map(|tail| tail.pos)
            };
            let quiet = async {
                loop {
                    let before = tail();
                    tokio::time::sleep(QUIET).await;
                    if tail() == before {
                        return;
                    }
                }
            };
            drop(tokio::time::timeout(QUIET_MAX, quiet).await);
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

    /// Ties the replica's tail into the account log, if it has moved.
    pub(super) async fn anchor(&mut self) -> Result<(), Fault> {
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
}
