//! One run, from a seed to a verdict.

use crate::{
    broken::Broken,
    chance::Chance,
    chaos::Faults,
    law::{Law, Violation},
    scheduler::{Ended, Scheduler},
    trace::Trace,
    world::World,
};

/// How long things go wrong, in simulated time.
const CHAOS_US: i64 = 25_000_000;
/// How long everything that is owed may take once they do not.
const REST_US: i64 = 120_000_000;
/// Between two looks whether it is done.
const LOOK_US: i64 = 1_000_000;

/// What to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub seed: u64,
    pub faults: Faults,
    pub broken: Broken,
}

/// What came of it.
pub struct Outcome {
    pub violation: Option<Violation>,
    pub trace: Trace,
    /// Polls of tasks.
    pub steps: u64,
    /// Events that somebody was shown.
    pub events: u64,
    pub logs: usize,
    /// Simulated time.
    pub took_us: i64,
}

impl Run {
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            faults: Faults::ALL,
            broken: Broken::Nothing,
        }
    }

    /// Runs it. The same run gives the same outcome, bit for bit.
    pub fn go(self) -> Outcome {
        let mut chance = Chance::new(self.seed);
        let mut scheduler = Scheduler::new(chance.fork("scheduler"), Trace::default());
        let sim = scheduler.sim();
        let world = World::new(&sim, &mut chance, self.faults, self.broken);
        let life = sim.new_life();
        sim.spawn(life, std::sync::Arc::clone(&world).begin());
        if scheduler.run_until(CHAOS_US) == Ended::Time {
            world.calm();
            Self::come_to_rest(&mut scheduler, &world);
        }
        let outcome = Outcome {
            violation: sim.violation(),
            steps: scheduler.steps(),
            events: world.ledger.events(),
            logs: world.ledger.logs().len(),
            took_us: sim.now_us(),
            trace: sim.take_trace(),
        };
        // Tasks hold the world, and the world holds processes.
        drop(scheduler);
        outcome
    }

    fn come_to_rest(scheduler: &mut Scheduler, world: &World) {
        let sim = scheduler.sim();
        let end = sim.now_us() + REST_US;
        loop {
            if scheduler.run_until(sim.now_us() + LOOK_US) != Ended::Time {
                return;
            }
            let owed = world.owed();
            if owed.is_none() {
                world.rest();
                if world.is_left() {
                    return world.finish();
                }
            }
            if sim.now_us() >= end {
                let what = owed.unwrap_or_else(|| "a client still waits".to_owned());
                sim.fail(Law::Liveness, "world", what);
                return;
            }
        }
    }
}
