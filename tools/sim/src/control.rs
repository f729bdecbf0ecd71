//! The database that the api replicas share: a store, the leases, and a standby that is behind.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use cocoonbox_events::{
    Clock, Ids, LogId, NewLog, Store,
    store::{LogKind, Parent},
};

use crate::{
    broken::Broken,
    clock::{SeededIds, SkewedClock},
    disk::Disk,
    ledger::{Ledger, short},
    net::{Net, Place},
    scheduler::{Life, Sim, lock},
    store::SimStore,
};

/// How long a lease is given for.
pub const LEASE_MS: i64 = 4_000;

pub struct Control {
    sim: Sim,
    net: Net,
    ledger: Ledger,
    ids: Arc<SeededIds>,
    clock: Arc<SkewedClock>,
    broken: Broken,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    disk: Disk,
    standby: Disk,
    running: Option<(Life, SimStore)>,
    leases: BTreeMap<String, Lease>,
    promotions: u64,
}

#[derive(Clone, Debug)]
struct Lease {
    holder: String,
    term: u64,
    until_us: i64,
}

impl Control {
    pub fn new(sim: Sim, net: Net, ledger: Ledger, ids: Arc<SeededIds>, broken: Broken) -> Self {
        let clock = Arc::new(SkewedClock::new(sim.clone(), 0));
        Self {
            sim,
            net,
            ledger,
            ids,
            clock,
            broken,
            state: Mutex::default(),
        }
    }

    /// Starts the database on its disk. `false`: the disk is damaged.
    pub fn start(&self) -> bool {
        let disk = lock(&self.state).disk.clone();
        let opened = SimStore::open(
            self.sim.clone(),
            "control",
            disk,
            self.clock.clone(),
            self.ids.clone(),
            self.broken,
        );
        let store = match opened {
            Ok(store) => store,
            Err(damaged) => {
                self.sim.note("control", || {
                    format!("disk is damaged at record {}", damaged.record)
                });
                return false;
            }
        };
        let life = self.sim.new_life();
        self.net.set_life(Place::Control, Some(life));
        self.sim.spawn(life, store.clone().serve());
        lock(&self.state).running = Some((life, store));
        self.sim.note("control", || "runs".to_owned());
        true
    }

    /// Ends the database's process; what was not synced may be gone.
    pub fn crash(&self) {
        let mut state = lock(&self.state);
        if let Some((life, _)) = state.running.take() {
            self.sim.end(life);
            self.net.set_life(Place::Control, None);
            self.sim.draw(|chance| state.disk.crash(chance));
            self.sim.note("control", || "crashed".to_owned());
        }
    }

    pub fn store(&self) -> Option<SimStore> {
        let state = lock(&self.state);
        state.running.as_ref().map(|(_, store)| store.clone())
    }

    pub fn clock(&self) -> Arc<SkewedClock> {
        Arc::clone(&self.clock)
    }

    pub fn promotions(&self) -> u64 {
        lock(&self.state).promotions
    }

    pub fn disk(&self) -> Disk {
        lock(&self.state).disk.clone()
    }

    /// Brings the standby to within `behind` records.
    pub fn stream_to_standby(&self, behind: usize) {
        let state = lock(&self.state);
        let reached = state.disk.synced().saturating_sub(behind);
        state.standby.catch_up(&state.disk, reached);
    }

    /// Makes the standby the database, and moves every log that is written outside of boxes: what it was
    /// behind with is given up, and said so.
    pub async fn promote(&self) {
        self.crash();
        let lost = {
            let mut state = lock(&self.state);
            let lost = state.disk.synced() - state.standby.synced();
            let standby = state.standby.copy(usize::MAX);
            state.disk.restore(&standby);
            state.promotions += 1;
            // A lease that the standby had not heard of may be in somebody's hands.
            for lease in state.leases.values_mut() {
                lease.term += 1_000;
                lease.until_us = 0;
            }
            lost
        };
        self.sim.note("control", || {
            format!("standby is promoted; {lost} records are given up")
        });
        self.start();
        let Some(store) = self.store() else { return };
        let logs = store.logs();
        for known in self.ledger.logs() {
            let kept = logs.iter().find(|log| log.id == known);
            self.ledger
                .give_up(known, kept.map_or(0, |log| log.tail.pos));
        }
        if self.broken == Broken::SilentPromotion {
            return;
        }
        let open: Vec<_> = store
            .logs()
            .into_iter()
            .filter(|log| log.kind != LogKind::Box && log.moved_to.is_none())
            .collect();
        for log in open {
            let parent = Parent {
                log: log.id,
                pos: log.tail.pos,
                chain: log.tail.chain,
            };
            let new = NewLog {
                id: LogId(self.ids.draw()),
                kind: log.kind,
                owner: log.owner.clone(),
                parent: Some(parent),
            };
            let id = new.id;
            let moved = store.rewind(new).await;
            self.sim.note("control", || {
                let (from, to, pos) = (short(log.id), short(id), parent.pos);
                format!("log {from} goes on as {to} behind {pos}: {}", moved.is_ok())
            });
            if let Ok(info) = store.info(id) {
                self.ledger.opened(&info);
            }
        }
    }

    /// Takes a lease that nobody holds, or prolongs one's own. Judged by the database's clock.
    pub fn lease(&self, name: &str, holder: &str) -> Option<u64> {
        let now = self.clock.now_us();
        let mut state = lock(&self.state);
        let floor = state.promotions * 1_000;
        let lease = state.leases.entry(name.to_owned()).or_insert(Lease {
            holder: String::new(),
            term: floor,
            until_us: 0,
        });
        let held = lease.until_us > now;
        if held && lease.holder != holder {
            return None;
        }
        if !held || lease.holder != holder {
            lease.term += 1;
        }
        holder.clone_into(&mut lease.holder);
        lease.until_us = now + LEASE_MS * 1_000;
        Some(lease.term)
    }
}
