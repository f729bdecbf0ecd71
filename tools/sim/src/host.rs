//! What runs the machines: one per box, on the box's disk. Refuses reactors that were overtaken.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use crate::{
    agent::{Agent, Parts},
    broken::Broken,
    clock::{SeededIds, SkewedClock},
    disk::{Disk, Fault},
    ledger::Ledger,
    net::{Net, Place},
    scheduler::{Sim, lock},
    store::SimStore,
};

/// Machines and disks of all boxes.
pub struct Host {
    sim: Sim,
    net: Net,
    ledger: Ledger,
    ids: Arc<SeededIds>,
    broken: Broken,
    slots: Mutex<BTreeMap<String, Slot>>,
}

struct Slot {
    number: usize,
    owner: String,
    disk: Disk,
    /// Grows with each disk that is not the one before.
    generation: u64,
    /// Whether what the disk has lost is to be filled up from the copy, or given up.
    refill: bool,
    /// Older states of the disk.
    snapshots: Vec<Disk>,
    term: u64,
    machine: Option<Machine>,
    is_damaged: bool,
}

#[derive(Clone)]
struct Machine {
    wake: String,
    agent: Arc<Agent>,
}

/// What the host says of a box.
#[derive(Clone, Debug)]
pub struct Standing {
    pub place: Place,
    pub owner: String,
    /// The wake id of the machine that runs.
    pub wake: Option<String>,
    pub generation: u64,
    pub refill: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostError {
    /// A reactor with a greater term drives this box.
    Overtaken,
    /// The disk cannot be read.
    Damaged,
    NoSuchBox,
}

/// Who drives, and what for.
#[derive(Clone, Debug)]
pub struct Spec {
    pub box_id: String,
    pub owner: String,
    pub wake: String,
    pub term: u64,
}

impl Host {
    pub fn new(sim: Sim, net: Net, ledger: Ledger, ids: Arc<SeededIds>, broken: Broken) -> Self {
        Self {
            sim,
            net,
            ledger,
            ids,
            broken,
            slots: Mutex::default(),
        }
    }

    /// Brings a machine up; nothing if it is.
    pub fn ensure(&self, spec: &Spec) -> Result<(), HostError> {
        let mut slots = lock(&self.slots);
        let number = slots.len();
        let slot = slots
            .entry(spec.box_id.clone())
            .or_insert_with(|| Slot::new(number, &spec.owner, Disk::default()));
        self.fence(slot, &spec.box_id, spec.term, "machine started")?;
        if let Some(machine) = &slot.machine {
            if machine.wake == spec.wake && self.sim.is_alive(machine.agent.life) {
                return Ok(());
            }
            self.stop(slot);
        }
        let place = Place::Box(slot.number);
        let offset = self.sim.draw(|c| c.between(-3_000_000, 3_000_000));
        let clock = Arc::new(SkewedClock::new(self.sim.clone(), offset));
        let store = SimStore::open(
            self.sim.clone(),
            &place.to_string(),
            slot.disk.clone(),
            clock,
            self.ids.clone(),
            self.broken,
        )
        .map_err(|damaged| {
            slot.is_damaged = true;
            self.sim.note(&place.to_string(), || {
                format!("disk is damaged at record {}", damaged.record)
            });
            HostError::Damaged
        })?;
        let life = self.sim.new_life();
        let agent = Agent::start(Parts {
            sim: self.sim.clone(),
            net: self.net.clone(),
            ledger: self.ledger.clone(),
            place,
            life,
            box_id: spec.box_id.clone(),
            broken: self.broken,
            store,
            ids: self.ids.clone(),
        });
        self.net.set_life(place, Some(life));
        slot.machine = Some(Machine {
            wake: spec.wake.clone(),
            agent,
        });
        self.sim.note(&place.to_string(), || {
            format!("machine of {} runs as {}", spec.box_id, spec.wake)
        });
        Ok(())
    }

    /// Makes room for a box that begins with a disk.
    pub fn prepare(&self, box_id: &str, owner: &str, disk: Disk) {
        let mut slots = lock(&self.slots);
        let number = slots.len();
        slots.insert(box_id.to_owned(), Slot::new(number, owner, disk));
    }

    /// Whether the last start found the disk unreadable.
    pub fn is_damaged(&self, box_id: &str) -> bool {
        lock(&self.slots).get(box_id).is_some_and(|s| s.is_damaged)
    }

    /// Mends what is wrong with the disks for the moment.
    pub fn mend_disks(&self) {
        for slot in lock(&self.slots).values() {
            slot.disk.set_fault(Fault::None);
        }
    }

    /// Takes a machine down and keeps its disk.
    pub fn hibernate(&self, box_id: &str, term: u64) -> Result<(), HostError> {
        let mut slots = lock(&self.slots);
        let Some(slot) = slots.get_mut(box_id) else {
            return Ok(());
        };
        self.fence(slot, box_id, term, "machine stopped")?;
        self.stop(slot);
        Ok(())
    }

    /// Takes a machine down and its disk away.
    pub fn delete(&self, box_id: &str, term: u64) -> Result<(), HostError> {
        let mut slots = lock(&self.slots);
        let Some(slot) = slots.get_mut(box_id) else {
            return Ok(());
        };
        self.fence(slot, box_id, term, "machine removed")?;
        self.stop(slot);
        // What was not copied goes with the disk: a delete does not wait for the copy.
        for log in self.ledger.logs_of_box(box_id) {
            self.ledger.give_up(log, 0);
        }
        slot.disk.restore(&Disk::default());
        slot.snapshots.clear();
        slot.generation += 1;
        Ok(())
    }

    pub fn get(&self, box_id: &str) -> Option<Standing> {
        let slots = lock(&self.slots);
        slots.get(box_id).map(|slot| self.standing(slot))
    }

    pub fn list(&self) -> Vec<(String, Standing)> {
        let slots = lock(&self.slots);
        let all = slots.iter();
        all.map(|(id, slot)| (id.clone(), self.standing(slot)))
            .collect()
    }

    /// Returns the process that runs in a box.
    pub fn agent(&self, box_id: &str) -> Option<Arc<Agent>> {
        let slots = lock(&self.slots);
        let machine = slots.get(box_id)?.machine.as_ref()?;
        let agent = Arc::clone(&machine.agent);
        self.sim.is_alive(agent.life).then_some(agent)
    }

    pub fn disk(&self, box_id: &str) -> Option<Disk> {
        lock(&self.slots).get(box_id).map(|slot| slot.disk.clone())
    }

    /// Ends the machine of a box without asking.
    pub fn crash(&self, box_id: &str) {
        if let Some(slot) = lock(&self.slots).get_mut(box_id) {
            self.stop(slot);
        }
    }

    /// Remembers what is on a disk at this moment.
    pub fn snapshot(&self, box_id: &str) {
        if let Some(slot) = lock(&self.slots).get_mut(box_id) {
            let snapshot = slot.disk.copy(usize::MAX);
            slot.snapshots.push(snapshot);
        }
    }

    /// Puts an older disk, or an empty one, into a box; its machine ends. Returns the disk that was there.
    pub fn restore(&self, box_id: &str, refill: bool, empty: bool) -> Option<(Disk, Disk)> {
        let mut slots = lock(&self.slots);
        let slot = slots.get_mut(box_id)?;
        let older = if empty {
            Disk::default()
        } else {
            let index = self
                .sim
                .draw(|chance| chance.index(slot.snapshots.len().max(1)));
            slot.snapshots.get(index)?.copy(usize::MAX)
        };
        self.stop(slot);
        let before = slot.disk.copy(usize::MAX);
        slot.disk.restore(&older);
        slot.is_damaged = false;
        slot.generation += 1;
        slot.refill = refill;
        Some((before, older))
    }

    fn stop(&self, slot: &mut Slot) {
        if let Some(machine) = slot.machine.take() {
            self.sim.end(machine.agent.life);
            self.net.set_life(Place::Box(slot.number), None);
            self.sim.draw(|chance| slot.disk.crash(chance));
            self.sim.note(&Place::Box(slot.number).to_string(), || {
                format!("machine {} ends", machine.wake)
            });
        }
    }

    fn fence(&self, slot: &mut Slot, box_id: &str, term: u64, what: &str) -> Result<(), HostError> {
        if term < slot.term && self.broken != Broken::UnfencedLease {
            return Err(HostError::Overtaken);
        }
        slot.term = slot.term.max(term);
        self.ledger.driven(box_id, term, what);
        Ok(())
    }

    fn standing(&self, slot: &Slot) -> Standing {
        let alive = |machine: &&Machine| self.sim.is_alive(machine.agent.life);
        let machine = slot.machine.as_ref().filter(alive);
        Standing {
            place: Place::Box(slot.number),
            owner: slot.owner.clone(),
            wake: machine.map(|machine| machine.wake.clone()),
            generation: slot.generation,
            refill: slot.refill,
        }
    }
}

impl Slot {
    fn new(number: usize, owner: &str, disk: Disk) -> Self {
        Self {
            number,
            owner: owner.to_owned(),
            disk,
            generation: 1,
            refill: false,
            snapshots: Vec::new(),
            term: 0,
            machine: None,
            is_damaged: false,
        }
    }
}
