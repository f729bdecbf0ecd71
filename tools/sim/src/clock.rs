//! Clocks that are wrong and ids that a seed decides.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicI64, Ordering},
};

use cocoonbox_events::{Clock, Ids};
use uuid::Uuid;

use crate::{chance::Chance, scheduler::Sim};

/// What every clock of a run shows at its start, give or take its own error.
const BEGIN_US: i64 = 1_767_225_600_000_000;

/// One machine's clock: the time of the run, off by something that jumps.
pub struct SkewedClock {
    sim: Sim,
    offset_us: AtomicI64,
}

impl SkewedClock {
    pub fn new(sim: Sim, offset_us: i64) -> Self {
        Self {
            sim,
            offset_us: AtomicI64::new(offset_us),
        }
    }

    pub fn jump(&self, by_us: i64) {
        self.offset_us.fetch_add(by_us, Ordering::SeqCst);
    }
}

impl Clock for SkewedClock {
    fn now_us(&self) -> i64 {
        BEGIN_US + self.sim.now_us() + self.offset_us.load(Ordering::SeqCst)
    }
}

/// Ids and salts from the seed.
pub struct SeededIds(Mutex<Chance>);

impl SeededIds {
    pub fn new(chance: Chance) -> Self {
        Self(Mutex::new(chance))
    }

    fn lock(&self) -> MutexGuard<'_, Chance> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ids for SeededIds {
    fn draw(&self) -> Uuid {
        uuid::Builder::from_custom_bytes(self.lock().bytes16()).into_uuid()
    }

    fn salt(&self) -> Option<[u8; 16]> {
        Some(self.lock().bytes16())
    }
}
