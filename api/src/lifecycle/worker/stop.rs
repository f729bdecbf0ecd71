//! From a box that runs to one that sleeps, or is gone.

use std::time::Duration;

use cocoonbox_commands::boxes::Command;
use cocoonbox_machines::{BoxId, MachineState};

use super::{Fault, Worker};
use crate::{lifecycle::box_id, replica, status::describe};

/// Writing down what is under way and copying it out. Past it the box is stopped all the same: its
/// own copy of the log is on its disk and is copied at the next wake.
const QUIESCE: Duration = Duration::from_secs(10);

impl Worker {
    pub(super) async fn stop(&mut self, wake: Option<String>) -> Result<(), Fault> {
        let Some(id) = box_id(&self.fold.stream) else {
            return Ok(());
        };
        let is_quiesced = match &wake {
            Some(wake) => self.settle(&id, Some(wake)).await?,
            None => false,
        };
        // The agent ends at once when nobody listens to it any more.
        self.detach().await;
        self.context.machines.hibernate(&id).await?;
        let memory_kept = self.context.machines.promises().memory_kept_on_hibernate;
        self.report(Command::Hibernated {
            memory_kept,
            quiesced: is_quiesced,
        })
        .await
    }

    /// Has a running box write down what is under way, and copies it out. `false` if the replica does not
    /// end where the box does.
    async fn settle(&mut self, id: &BoxId, wake: Option<&str>) -> Result<bool, Fault> {
        let machine = self.context.machines.get(id).await?;
        let running = machine.filter(|machine| machine.state == MachineState::Running);
        let Some(found) = running.and_then(|machine| machine.wake_id) else {
            return Ok(false);
        };
        if wake.is_some_and(|wake| wake != found.0) {
            return Ok(false);
        }
        self.attach(&found.0).await?;
        let mut is_quiesced = false;
        if let Some(attached) = &self.attached {
            let quiesced = replica::quiesce(&*self.context.store, &attached.channel, QUIESCE).await;
            match quiesced {
                Ok(tail) => is_quiesced = self.is_at(tail.pos),
                Err(error) => {
                    tracing::warn!(box_id = %id, %error, "box did not quiesce; stopping it as it is");
                }
            }
        }
        self.fold.refresh(&*self.context.store).await?;
        self.anchor().await?;
        // What the box did until it ended is signed now, not with the next thing that it does.
        let logs = self.fold.state.box_log.into_iter().chain([self.fold.log]);
        logs.for_each(|log| self.context.checkpoints.now(log));
        Ok(is_quiesced)
    }

    /// Whether the replica ends at this position.
    fn is_at(&self, pos: u64) -> bool {
        let log = self
            .attached
            .as_ref()
            .map(|attached| attached.channel.log());
        let tail = log.and_then(|log| self.context.store.tail(log).ok());
        tail.is_some_and(|tail| tail.pos == pos)
    }

    pub(super) async fn remove(&mut self) -> Result<(), Fault> {
        if let Some(id) = box_id(&self.fold.stream) {
            // Its history stays, to the last thing that it did. A box that cannot tell is removed all the same.
            if let Err(fault) = self.settle(&id, None).await {
                let error = describe(&fault);
                tracing::warn!(box_id = %id, error, "box is removed without its last events");
            }
            self.detach().await;
            self.context.machines.delete(&id).await?;
        }
        self.report(Command::Deleted).await
    }
}
