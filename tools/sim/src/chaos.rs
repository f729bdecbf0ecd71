//! What goes wrong, and the operator who puts it right (or makes it worse).

use std::sync::Arc;

use cocoonbox_commands::boxes::{self, Command};
use cocoonbox_events::{
    CommandId, Fold, Ids, LogId, Meta, NewLog, Store, StreamName,
    store::{LogKind, Parent},
};
use cocoonbox_proto::log::v1::{Actor, ModelRoles};

use crate::{
    disk::Fault,
    ledger::short,
    net::{Place, Weather},
    scheduler::Sim,
    store::SimStore,
    world::World,
};

/// Which kinds of faults a run has. Each can be taken out, to find out which a failure needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults(pub u32);

impl Faults {
    pub const NETWORK: u32 = 1;
    pub const CRASHES: u32 = 2;
    pub const PAUSES: u32 = 4;
    pub const CLOCKS: u32 = 8;
    pub const DISKS: u32 = 16;
    pub const RESTORES: u32 = 32;
    pub const PROMOTIONS: u32 = 64;
    pub const FORKS: u32 = 128;
    pub const ALL: Self = Self(255);

    pub const NAMES: [(u32, &'static str); 8] = [
        (Self::NETWORK, "network"),
        (Self::CRASHES, "crashes"),
        (Self::PAUSES, "pauses"),
        (Self::CLOCKS, "clocks"),
        (Self::DISKS, "disks"),
        (Self::RESTORES, "restores"),
        (Self::PROMOTIONS, "promotions"),
        (Self::FORKS, "forks"),
    ];

    pub fn has(self, fault: u32) -> bool {
        self.0 & fault != 0
    }

    #[must_use]
    pub fn without(self, fault: u32) -> Self {
        Self(self.0 & !fault)
    }
}

impl std::fmt::Display for Faults {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = Self::NAMES
            .iter()
            .filter(|(bit, _)| self.has(*bit))
            .map(|(_, name)| *name)
            .collect();
        f.write_str(&names.join(","))
    }
}

impl World {
    /// Starts everything that goes wrong, until the run is calm.
    pub fn start_chaos(self: &Arc<Self>) {
        let life = self.sim.new_life();
        self.net.set_life(Place::Desk, Some(life));
        let faults = self.faults;
        if faults.has(Faults::NETWORK) {
            self.net.set_weather(Weather {
                lost: 25,
                repeated: 40,
                shuffled: 60,
                delay_ms_max: 400,
            });
            self.sim.spawn(life, Arc::clone(self).cuts());
        }
        if faults.has(Faults::CRASHES) {
            self.sim.spawn(life, Arc::clone(self).crashes());
        }
        if faults.has(Faults::PAUSES) {
            self.sim.spawn(life, Arc::clone(self).pauses());
        }
        if faults.has(Faults::CLOCKS) {
            self.sim.spawn(life, Arc::clone(self).clock_jumps());
        }
        if faults.has(Faults::DISKS) {
            self.sim.spawn(life, Arc::clone(self).disk_faults());
        }
        if faults.has(Faults::RESTORES) {
            self.sim.spawn(life, Arc::clone(self).restores());
        }
        if faults.has(Faults::PROMOTIONS) {
            self.sim.spawn(life, Arc::clone(self).promotions());
        }
        if faults.has(Faults::FORKS) {
            self.sim.spawn(life, Arc::clone(self).forks());
        }
        self.sim.spawn(life, Arc::clone(self).operate());
    }

    async fn pause(&self, low_ms: i64, high_ms: i64) {
        let pause = self.sim.draw(|chance| chance.between(low_ms, high_ms));
        self.sim.sleep_ms(pause).await;
    }

    fn any_place(&self) -> Place {
        let boxes = self.host.list();
        self.sim.draw(|chance| match chance.below(4) {
            0 => Place::Control,
            1 => Place::Host,
            2 => chance
                .pick(&boxes)
                .map_or(Place::Control, |(_, standing)| standing.place),
            _ => Place::Client(chance.index(self.clients)),
        })
    }

    fn any_box(&self) -> Option<String> {
        let boxes = self.host.list();
        self.sim.draw(|c| c.pick(&boxes).map(|(id, _)| id.clone()))
    }

    async fn cuts(self: Arc<Self>) {
        loop {
            self.pause(500, 4_000).await;
            if self.is_calm() {
                return;
            }
            let api = self.sim.draw(|c| c.index(self.apis_count()));
            let (a, b) = (Place::Api(api), self.any_place());
            self.sim.note("chaos", || format!("cut {a} from {b}"));
            self.net.cut(a, b);
            self.pause(200, 6_000).await;
            self.net.mend(a, b);
        }
    }

    async fn crashes(self: Arc<Self>) {
        loop {
            self.pause(1_000, 7_000).await;
            if self.is_calm() {
                return;
            }
            match self.sim.draw(|chance| chance.below(10)) {
                0..4 => {
                    let number = self.sim.draw(|c| c.index(self.apis_count()));
                    self.crash_api(number);
                    self.pause(100, 5_000).await;
                    self.start_api(number);
                }
                4..8 => {
                    if let Some(box_id) = self.any_box() {
                        self.sim
                            .note("chaos", || format!("machine of {box_id} crashes"));
                        self.host.crash(&box_id);
                    }
                }
                _ => {
                    self.control.crash();
                    self.pause(50, 1_500).await;
                }
            }
        }
    }

    async fn pauses(self: Arc<Self>) {
        loop {
            self.pause(2_000, 9_000).await;
            if self.is_calm() {
                return;
            }
            let number = self.sim.draw(|c| c.index(self.apis_count()));
            let ms = self.sim.draw(|chance| chance.between(1_000, 9_000));
            if let Some(api) = self.api(number) {
                api.pause(ms);
            }
        }
    }

    async fn clock_jumps(self: Arc<Self>) {
        loop {
            self.pause(1_000, 8_000).await;
            if self.is_calm() {
                return;
            }
            let number = self.sim.draw(|c| c.index(self.apis_count()));
            let by = self.sim.draw(|c| c.between(-20_000_000, 20_000_000));
            self.sim.note("chaos", || {
                format!("clock of api-{number} jumps by {by} us")
            });
            self.jump_clock(number, by);
        }
    }

    async fn disk_faults(self: Arc<Self>) {
        loop {
            self.pause(2_000, 10_000).await;
            if self.is_calm() {
                return;
            }
            let of_box = self.sim.draw(|chance| chance.happens(600));
            let (name, disk) = match self.any_box() {
                Some(box_id) if of_box => {
                    let disk = self.host.disk(&box_id).unwrap_or_default();
                    (box_id, disk)
                }
                _ => ("control".to_owned(), self.control.disk()),
            };
            let which = self.sim.draw(|chance| chance.below(8));
            let fault = match which {
                0..3 => Fault::SyncFails,
                3..5 => Fault::Full,
                5 => Fault::ReadOnly,
                _ => {
                    if self.sim.draw(|chance| disk.flip_a_bit(chance)) {
                        self.sim.note("chaos", || format!("a bit flips on {name}"));
                    }
                    // Found when the disk is read, which is at the next start.
                    if name == "control" {
                        self.control.crash();
                    } else {
                        self.host.crash(&name);
                    }
                    continue;
                }
            };
            self.sim
                .note("chaos", || format!("disk of {name}: {fault:?}"));
            disk.set_fault(fault);
            self.pause(300, 3_000).await;
            disk.set_fault(Fault::None);
        }
    }

    async fn restores(self: Arc<Self>) {
        loop {
            self.pause(1_500, 6_000).await;
            if self.is_calm() {
                return;
            }
            let Some(box_id) = self.any_box() else {
                continue;
            };
            if self.sim.draw(|chance| chance.happens(600)) {
                self.host.snapshot(&box_id);
            } else {
                let (refill, empty) = self.sim.draw(|c| (c.happens(400), c.happens(200)));
                self.restore(&box_id, refill, empty);
            }
        }
    }

    /// Puts another disk into a box. What the one before had, and nobody else has, is given up.
    fn restore(&self, box_id: &str, refill: bool, empty: bool) {
        let Some((_, after)) = self.host.restore(box_id, refill, empty) else {
            return;
        };
        let kept = self.read_disk(&after);
        self.sim.note("chaos", || {
            format!("{box_id} gets another disk (empty {empty}, refill {refill})")
        });
        // Whatever log of this box somebody knows: the disk keeps this much of it.
        for log in self.ledger.logs_of_box(box_id) {
            let tail = kept.as_ref().and_then(|store| store.tail(log).ok());
            self.ledger.give_up(log, tail.map_or(0, |tail| tail.pos));
        }
    }

    /// Reads a copy of a disk, as a process that starts on it would.
    pub(crate) fn read_disk(&self, disk: &crate::disk::Disk) -> Option<SimStore> {
        let sim: Sim = self.sim.clone();
        let clock = self.control.clock();
        SimStore::open(
            sim,
            "desk",
            disk.copy(usize::MAX),
            clock,
            self.ids.clone(),
            self.broken,
        )
        .ok()
    }

    async fn promotions(self: Arc<Self>) {
        let mut left = self.sim.draw(|chance| chance.below(3));
        loop {
            self.pause(400, 2_500).await;
            if self.is_calm() {
                return;
            }
            let behind = self
                .sim
                .draw(|c| if c.happens(500) { 0 } else { c.index(80) });
            self.control.stream_to_standby(behind);
            if left > 0 && self.sim.draw(|chance| chance.happens(120)) {
                left -= 1;
                self.control.promote().await;
            }
        }
    }

    /// Forks boxes that sleep.
    async fn forks(self: Arc<Self>) {
        let mut number = 0;
        loop {
            self.pause(3_000, 9_000).await;
            if self.is_calm() || number == 2 {
                return;
            }
            let sleeping: Vec<String> = self
                .host
                .list()
                .into_iter()
                .filter(|(_, standing)| standing.wake.is_none())
                .map(|(id, _)| id)
                .collect();
            let Some(from) = self.sim.draw(|c| c.pick(&sleeping).cloned()) else {
                continue;
            };
            number += 1;
            if let Some(to) = self.fork(&from, number).await {
                self.sim
                    .note("chaos", || format!("{to} is forked from {from}"));
            }
        }
    }

    async fn fork(&self, from: &str, number: u32) -> Option<String> {
        let standing = self.host.get(from)?;
        let control = self.control.store()?;
        let disk = self.host.disk(from)?;
        let held = self.read_disk(&disk)?;
        let user = standing.owner.clone();
        let account = control.current(*self.users.get(&user)?).ok()?;
        let stream = StreamName::new(format!("box/{from}")).ok()?;
        let mut fold = Fold::<boxes::State>::new(account, stream);
        fold.refresh(&control).await.ok()?;
        let log = control.current(fold.state.box_log?).ok()?;
        let tail = control.tail(log).ok()?;
        // Only where the disk and the copy agree on the end.
        let on_disk = held.tail(log).ok()?;
        if on_disk != tail || tail.pos == 0 {
            return None;
        }
        let new = NewLog {
            id: LogId(self.ids.draw()),
            kind: LogKind::Box,
            owner: user.clone(),
            parent: Some(Parent {
                log,
                pos: tail.pos,
                chain: tail.chain,
            }),
        };
        let root = new.id;
        let box_id = format!("f{number}{}", &root.to_string()[..6]);
        self.host.prepare(&box_id, &user, disk.copy(usize::MAX));
        self.ledger.box_has(&box_id, root);
        let stream = StreamName::new(format!("box/{box_id}")).ok()?;
        let mut fold = Fold::<boxes::State>::new(account, stream);
        let ask = Command::Fork {
            box_id: box_id.clone(),
            flavor: 1,
            name: box_id.clone(),
            box_log: root,
            user_id: user,
            origin: Box::new(boxes::Origin {
                box_id: from.to_owned(),
                at: Parent {
                    log,
                    pos: tail.pos,
                    chain: tail.chain,
                },
                snapshot_id: None,
            }),
            models: ModelRoles::default(),
            operation_id: format!("fork-{box_id}"),
        };
        let meta = Meta {
            command: CommandId(self.ids.draw()),
            actor: Actor::default(),
            cause: None,
        };
        fold.execute(&control, &ask, &meta, [1; 32]).await.ok()?;
        // Behind the event that names it.
        control.open(new).await.ok()?;
        self.ledger.opened(&control.info(root).ok()?);
        self.sim.note("chaos", || {
            format!(
                "log {} branches off {} at {}",
                short(root),
                short(log),
                tail.pos
            )
        });
        Some(box_id)
    }

    /// Keeps things running as an operator would: restarts the database, replaces what is damaged.
    async fn operate(self: Arc<Self>) {
        loop {
            self.pause(300, 1_500).await;
            let stopped = self.control.store().is_none_or(|store| store.is_stopped());
            if stopped {
                self.control.crash();
                if !self.control.start() {
                    self.control.promote().await;
                }
            }
            for number in 0..self.apis_count() {
                if self.is_calm() && self.api(number).is_none() {
                    self.start_api(number);
                }
            }
            for (box_id, standing) in self.host.list() {
                let stopped = self
                    .host
                    .agent(&box_id)
                    .is_some_and(|a| a.store().is_stopped());
                if stopped {
                    self.host.crash(&box_id);
                }
                if standing.wake.is_none() && self.host.is_damaged(&box_id) {
                    self.restore(&box_id, true, true);
                }
            }
        }
    }
}
