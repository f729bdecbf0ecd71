//! Which agents there are and which of their loops run.
//!
//! A loop holds its agent's conversation, so one that has nothing to do ends after a while, and is
//! started again by whoever rings next. A ring is never lost between the two: both look here.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Notify, watch};

#[derive(Clone)]
pub(super) struct Roster {
    known: Arc<Mutex<HashMap<String, Option<Running>>>>,
    settled: Arc<watch::Sender<u64>>,
}

struct Running {
    bell: Arc<Notify>,
    /// Somebody rang since the loop last wanted to leave.
    is_rung: bool,
}

/// What came of a ring.
pub(super) enum Ring {
    Unknown,
    Heard,
    /// Nobody was there: whoever gets this starts the loop.
    Start(Arc<Notify>),
}

impl Roster {
    pub(super) fn new() -> Self {
        Self {
            known: Arc::default(),
            settled: Arc::new(watch::Sender::new(0)),
        }
    }

    /// Enters an agent that the log has.
    pub(super) fn add(&self, agent_id: &str) {
        self.known().entry(agent_id.to_owned()).or_insert(None);
    }

    pub(super) fn has(&self, agent_id: &str) -> bool {
        self.known().contains_key(agent_id)
    }

    pub(super) fn count(&self) -> usize {
        self.known().len()
    }

    /// Ids of all agents, in order.
    pub(super) fn ids(&self) -> Vec<String> {
        let mut ids: Vec<_> = self.known().keys().cloned().collect();
        ids.sort_unstable();
        ids
    }

    /// Ids of the agents whose loops run and whose ids begin with this.
    pub(super) fn working(&self, prefix: &str) -> Vec<String> {
        let known = self.known();
        let working = known.iter().filter(|(_, running)| running.is_some());
        let ids = working
            .map(|(id, _)| id)
            .filter(|id| id.starts_with(prefix));
        ids.cloned().collect()
    }

    pub(super) fn ring(&self, agent_id: &str) -> Ring {
        let mut known = self.known();
        match known.get_mut(agent_id) {
            None => Ring::Unknown,
            Some(Some(running)) => {
                running.is_rung = true;
                running.bell.notify_one();
                Ring::Heard
            }
            Some(nobody) => {
                let bell = Arc::new(Notify::new());
                *nobody = Some(Running {
                    bell: Arc::clone(&bell),
                    is_rung: false,
                });
                Ring::Start(bell)
            }
        }
    }

    /// Rings every loop that runs.
    pub(super) fn ring_all(&self) {
        for running in self.known().values_mut().flatten() {
            running.is_rung = true;
            running.bell.notify_one();
        }
    }

    /// Takes a loop that has nothing to do off the list. False if somebody rang meanwhile: it has to
    /// look again.
    pub(super) fn leave(&self, agent_id: &str) -> bool {
        let mut known = self.known();
        let Some(entry) = known.get_mut(agent_id) else {
            return true;
        };
        let was_rung = entry
            .as_mut()
            .is_some_and(|running| std::mem::take(&mut running.is_rung));
        if !was_rung {
            *entry = None;
        }
        !was_rung
    }

    /// Says that some agent has come to rest, or waits.
    pub(super) fn settle(&self) {
        self.settled.send_modify(|count| *count += 1);
    }

    /// Changes whenever an agent comes to rest.
    pub(super) fn settled(&self) -> watch::Receiver<u64> {
        self.settled.subscribe()
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Option<Running>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_is_heard_or_starts_a_loop() {
        let roster = Roster::new();
        assert!(matches!(roster.ring("a"), Ring::Unknown));
        roster.add("a");
        assert!(matches!(roster.ring("a"), Ring::Start(_)));
        assert!(matches!(roster.ring("a"), Ring::Heard));
        roster.add("b");
        assert_eq!(roster.working(""), ["a"]);
        // It was rung, so it stays; then it leaves, and the next ring starts another.
        assert!(!roster.leave("a"));
        assert!(roster.leave("a"));
        assert!(matches!(roster.ring("a"), Ring::Start(_)));
        assert!(roster.has("a") && roster.ids() == ["a", "b"]);
    }
}
