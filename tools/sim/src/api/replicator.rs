//! The copy of a running box's log. The checks are the store's own; this is the pull around them.

use std::sync::Arc;

use cocoonbox_events::{
    Append, AppendError, CommandId, Ids, LogId, NewEvent, Recorded, ReplicaError, Store, erasure,
};
use cocoonbox_proto::log::v1::Actor;

use super::Api;
use crate::{
    agent::is_moved,
    broken::Broken,
    law::Law,
    ledger::short,
    scheduler::{Life, lock},
};

/// The replication of one life of a box. Dropping it ends it.
pub(super) struct Attached {
    pub(super) wake: String,
    life: Life,
    sim: crate::scheduler::Sim,
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.sim.end(self.life);
    }
}

impl Api {
    /// Starts copying this life's log, unless it is being copied.
    pub(super) fn attach(self: &Arc<Self>, box_id: &str, wake: &str, log: LogId) {
        let mut state = lock(&self.state);
        if state.attached.get(box_id).is_some_and(|a| a.wake == wake) {
            return;
        }
        let life = self.sim.new_life();
        let api = Arc::clone(self);
        let of = box_id.to_owned();
        self.sim
            .spawn(life, async move { api.copy(&of, log).await });
        let attached = Attached {
            wake: wake.to_owned(),
            life,
            sim: self.sim.clone(),
        };
        state.attached.insert(box_id.to_owned(), attached);
    }

    pub(super) fn detach(&self, box_id: &str) {
        let attached = lock(&self.state).attached.remove(box_id);
        drop(attached);
    }

    async fn copy(self: Arc<Self>, box_id: &str, log: LogId) {
        while self.sim.is_alive(self.life) {
            self.breathe().await;
            let ended = self.follow(box_id, log).await;
            if ended.is_err() {
                return;
            }
            let pause = self.sim.draw(|chance| chance.between(20, 400));
            self.sim.sleep_ms(pause).await;
        }
    }

    /// Copies until the stream breaks. `Err`: the box's history cannot be taken.
    async fn follow(self: &Arc<Self>, box_id: &str, log: LogId) -> Result<(), ()> {
        let Ok(tail) = self.store.tail(log) else {
            return Ok(());
        };
        let Some(standing) = self.host.get(box_id) else {
            return Ok(());
        };
        let (host, of, to) = (Arc::clone(&self.host), box_id.to_owned(), self.place);
        let opened = self
            .net
            .call(self.place, standing.place, move || {
                let (host, of) = (Arc::clone(&host), of.clone());
                async move { host.agent(&of).and_then(|a| a.follow(to, log, tail.pos)) }
            })
            .await;
        let Ok(Some(batches)) = opened else {
            return Ok(());
        };
        // Silence may be a batch that was lost: then the box is asked again.
        while let Some(Some(batch)) = self.sim.timeout_ms(2_000, batches.next()).await {
            self.breathe().await;
            if !self.sim.is_alive(self.life) {
                return Err(());
            }
            for event in &batch {
                self.ledger.saw(box_id, event);
            }
            let mut first = batch;
            let mut said = if self.broken == Broken::ForgottenErasure {
                Vec::new()
            } else {
                first.split_off(erasure::before_done(&first))
            };
            if !first.is_empty() && !self.take(box_id, log, first).await? {
                return Ok(());
            }
            if said.is_empty() {
                continue;
            }
            if erasure::honour(&self.store, log, &mut said).await.is_err() {
                return Ok(());
            }
            if !self.take(box_id, log, said).await? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Takes events into the copy. `false`: ask again from what is held.
    async fn take(&self, box_id: &str, log: LogId, events: Vec<Recorded>) -> Result<bool, ()> {
        match self.store.replicate(log, events.clone()).await {
            Ok(_) => Ok(true),
            Err(ReplicaError::Gap { .. }) if self.broken == Broken::BlindReplica => {
                self.append_blindly(log, &events).await;
                Ok(true)
            }
            // Something was lost on the way.
            Err(ReplicaError::Gap { .. } | ReplicaError::NoSuchLog { .. }) => Ok(false),
            Err(ReplicaError::Store(error)) if error.is_retryable() => Ok(false),
            Err(error) if is_moved(&error) => Err(()),
            Err(error @ (ReplicaError::Diverged { .. } | ReplicaError::Broken(_))) => {
                let what = format!("the copy of log {} refuses: {error}", short(log));
                self.sim.fail(Law::Durable, box_id, what);
                Err(())
            }
            Err(error) => {
                self.note(|| format!("copy of {box_id}: {error}"));
                Err(())
            }
        }
    }

    /// The broken variant: numbers and links by itself.
    async fn append_blindly(&self, log: LogId, batch: &[Recorded]) {
        let events = batch.iter().filter_map(|event| {
            Some(NewEvent {
                stream: event.stream.clone(),
                payload: event.payload().ok()??,
            })
        });
        let append = Append {
            command: CommandId(self.ids.draw()),
            digest: [0; 32],
            expect: Vec::new(),
            events: events.collect(),
            actor: Actor::default(),
            cause: None,
        };
        let appended = self.store.append(log, append).await;
        debug_assert!(!matches!(appended, Err(AppendError::Conflict { .. })));
    }
}
