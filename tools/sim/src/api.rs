//! One api replica: what it serves to clients, and what it drives.

pub mod connection;
mod machine;
mod reactor;
mod reconcile;
mod replicator;
mod serve;
pub mod views;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use cocoonbox_events::{Ids, LogId, ReadError, Store};

use crate::{
    broken::Broken,
    clock::{SeededIds, SkewedClock},
    control::Control,
    host::Host,
    ledger::Ledger,
    net::{Net, Place},
    scheduler::{Life, Sim, lock},
};

use self::{connection::Connection, replicator::Attached, views::ViewFile};

pub use serve::{ApiError, Item, Operation};

/// One process of the api.
pub struct Api {
    pub sim: Sim,
    pub net: Net,
    pub ledger: Ledger,
    pub place: Place,
    pub life: Life,
    pub broken: Broken,
    pub clock: Arc<SkewedClock>,
    /// Users by their name, with the log that their account began with.
    pub users: BTreeMap<String, LogId>,
    store: Connection,
    control: Arc<Control>,
    host: Arc<Host>,
    ids: Arc<SeededIds>,
    views: Arc<ViewFile>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Boxes that a worker looks after, whoever has the lease.
    workers: BTreeSet<String>,
    attached: BTreeMap<String, Attached>,
    /// Until then this process does nothing: a pause that it does not notice.
    paused_until_us: i64,
}

/// What an api is made of.
pub struct Parts {
    pub sim: Sim,
    pub net: Net,
    pub ledger: Ledger,
    pub number: usize,
    pub broken: Broken,
    pub clock: Arc<SkewedClock>,
    pub users: BTreeMap<String, LogId>,
    pub control: Arc<Control>,
    pub host: Arc<Host>,
    pub ids: Arc<SeededIds>,
    pub views: Arc<ViewFile>,
}

impl Api {
    pub fn start(parts: Parts) -> Arc<Self> {
        let Parts {
            sim,
            net,
            ledger,
            number,
            broken,
            clock,
            users,
            control,
            host,
            ids,
            views,
        } = parts;
        let place = Place::Api(number);
        let life = sim.new_life();
        net.set_life(place, Some(life));
        let store = Connection {
            sim: sim.clone(),
            net: net.clone(),
            control: control.clone(),
            from: place,
            clock: clock.clone(),
        };
        let api = Arc::new(Self {
            sim,
            net,
            ledger,
            place,
            life,
            broken,
            clock,
            users,
            store,
            control,
            host,
            ids,
            views,
            state: Mutex::default(),
        });
        api.sim.spawn(life, Arc::clone(&api).react());
        api.sim.spawn(life, Arc::clone(&api).keep_views());
        api.note(|| "runs".to_owned());
        api
    }

    fn note(&self, text: impl FnOnce() -> String) {
        self.sim.note(&self.place.to_string(), text);
    }

    /// Holds the process up for as long as it is paused, as a machine that swaps would.
    async fn breathe(&self) {
        loop {
            let until = lock(&self.state).paused_until_us;
            let left = until - self.sim.now_us();
            if left <= 0 {
                return;
            }
            self.sim.sleep_us(left).await;
        }
    }

    pub fn pause(&self, ms: i64) {
        lock(&self.state).paused_until_us = self.sim.now_us() + ms * 1_000;
        self.note(|| format!("paused for {ms} ms"));
    }

    /// Ends the process and everything that hangs on it.
    pub fn end(&self) {
        self.sim.end(self.life);
        let attached = std::mem::take(&mut lock(&self.state).attached);
        drop(attached);
    }

    /// The log that a user's account is written to today.
    fn account(&self, user: &str) -> Result<LogId, ReadError> {
        let root = self.users.get(user).copied();
        let root = root.ok_or(ReadError::NoSuchLog {
            log: LogId(self.ids.draw()),
        })?;
        self.store.current(root)
    }
}
