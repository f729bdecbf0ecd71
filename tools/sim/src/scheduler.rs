//! The scheduler: one thread, simulated time, and a seed that decides who goes next.
//!
//! Tasks are ordinary futures. Each belongs to a [`Life`] (one process from its start to its end), and
//! ending a life drops its tasks wherever they wait: a crash at any `.await`.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Wake, Waker},
};

use futures::future::{Either, select};

use crate::{
    chance::Chance,
    law::{Law, Violation},
    trace::Trace,
};

/// Steps at one moment, past which a run does not get on.
const IDLE_STEPS_MAX: u64 = 100_000;

/// One process from its start to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Life(u64);

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The run, as everything in it sees it. Cheap to clone.
#[derive(Clone)]
pub struct Sim(Arc<Shared>);

struct Shared {
    core: Mutex<Core>,
    ready: Arc<Mutex<BTreeSet<u64>>>,
}

struct Core {
    now_us: i64,
    timers: BTreeMap<(i64, u64), Waker>,
    /// Tasks that the scheduler has not taken over yet.
    spawned: Vec<(u64, Life, Work)>,
    alive: BTreeSet<Life>,
    /// Whether a process has ended since the scheduler looked.
    has_ended: bool,
    drawn: u64,
    chance: Chance,
    trace: Trace,
    violation: Option<Violation>,
}

/// What came of running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The time is up.
    Time,
    /// A law was broken.
    Violation,
    /// Every task waits for something that will not come.
    Stuck,
}

/// The tasks of a run. Only this can poll them.
pub struct Scheduler {
    sim: Sim,
    tasks: BTreeMap<u64, (Life, Work, Waker)>,
    steps: u64,
    /// Steps since time has moved.
    idle_steps: u64,
}

struct TaskWaker {
    task: u64,
    ready: Arc<Mutex<BTreeSet<u64>>>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        lock(&self.ready).insert(self.task);
    }
}

impl Scheduler {
    pub fn new(chance: Chance, trace: Trace) -> Self {
        let core = Core {
            now_us: 0,
            timers: BTreeMap::new(),
            spawned: Vec::new(),
            alive: BTreeSet::new(),
            has_ended: false,
            drawn: 0,
            chance,
            trace,
            violation: None,
        };
        let ready = Arc::default();
        Self {
            sim: Sim(Arc::new(Shared {
                core: Mutex::new(core),
                ready,
            })),
            tasks: BTreeMap::new(),
            steps: 0,
            idle_steps: 0,
        }
    }

    pub fn sim(&self) -> Sim {
        self.sim.clone()
    }

    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Runs until the time is up or a law is broken.
    pub fn run_until(&mut self, end_us: i64) -> Ended {
        loop {
            self.take_over();
            if self.sim.core().violation.is_some() {
                return Ended::Violation;
            }
            let Some(task) = self.choose() else {
                match self.sim.next_moment(end_us) {
                    Some(()) => {
                        self.idle_steps = 0;
                        continue;
                    }
                    None if self.sim.now_us() >= end_us => return Ended::Time,
                    None => return Ended::Stuck,
                }
            };
            let Some((_, work, waker)) = self.tasks.get_mut(&task) else {
                continue;
            };
            self.steps += 1;
            self.idle_steps += 1;
            if self.idle_steps > IDLE_STEPS_MAX {
                let what = "tasks wake each other without end".to_owned();
                self.sim.fail(Law::Liveness, "scheduler", what);
            }
            self.sim.core().trace.step(task);
            let waker = waker.clone();
            if work
                .as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_ready()
            {
                self.tasks.remove(&task);
            }
        }
    }

    /// Takes new tasks in and drops those whose process has ended.
    fn take_over(&mut self) {
        let (spawned, alive) = {
            let mut core = self.sim.core();
            let alive = std::mem::take(&mut core.has_ended).then(|| core.alive.clone());
            (std::mem::take(&mut core.spawned), alive)
        };
        for (task, life, work) in spawned {
            let ready = Arc::clone(&self.sim.0.ready);
            let waker = Waker::from(Arc::new(TaskWaker { task, ready }));
            self.tasks.insert(task, (life, work, waker));
        }
        let Some(alive) = alive else { return };
        let dead: Vec<u64> = self
            .tasks
            .iter()
            .filter(|(_, (life, ..))| !alive.contains(life))
            .map(|(task, _)| *task)
            .collect();
        for task in dead {
            self.tasks.remove(&task);
            lock(&self.sim.0.ready).remove(&task);
        }
    }

    fn choose(&self) -> Option<u64> {
        let mut core = self.sim.core();
        let mut ready = lock(&self.sim.0.ready);
        if ready.is_empty() {
            return None;
        }
        let index = core.chance.index(ready.len());
        let task = ready.iter().nth(index).copied()?;
        ready.remove(&task);
        Some(task)
    }
}

impl Sim {
    fn core(&self) -> MutexGuard<'_, Core> {
        lock(&self.0.core)
    }

    /// Microseconds since the start of the run.
    pub fn now_us(&self) -> i64 {
        self.core().now_us
    }

    /// Moves to the next timer at or before `end_us`; `None` if there is none.
    fn next_moment(&self, end_us: i64) -> Option<()> {
        let due = {
            let mut core = self.core();
            let first = core.timers.first_key_value().map(|((at, _), _)| *at);
            let Some(at) = first.filter(|at| *at <= end_us) else {
                if first.is_some() {
                    core.now_us = end_us;
                }
                return None;
            };
            core.now_us = core.now_us.max(at);
            let later = core.timers.split_off(&(at + 1, 0));
            std::mem::replace(&mut core.timers, later)
        };
        for (_, waker) in due {
            waker.wake();
        }
        Some(())
    }

    pub fn new_life(&self) -> Life {
        let mut core = self.core();
        core.drawn += 1;
        let life = Life(core.drawn);
        core.alive.insert(life);
        life
    }

    /// Ends a process: none of its tasks is polled again.
    pub fn end(&self, life: Life) {
        let mut core = self.core();
        core.alive.remove(&life);
        core.has_ended = true;
    }

    pub fn is_alive(&self, life: Life) -> bool {
        self.core().alive.contains(&life)
    }

    /// Starts a task of a process. Nothing happens if that has ended.
    pub fn spawn(&self, life: Life, work: impl Future<Output = ()> + Send + 'static) {
        let work: Work = Box::pin(work);
        let mut core = self.core();
        if !core.alive.contains(&life) {
            drop(core);
            return;
        }
        core.drawn += 1;
        let task = core.drawn;
        core.spawned.push((task, life, work));
        lock(&self.0.ready).insert(task);
    }

    pub async fn sleep_us(&self, us: i64) {
        let at = self.now_us() + us.max(0);
        Sleep {
            sim: self,
            at,
            timer: None,
        }
        .await;
    }

    pub async fn sleep_ms(&self, ms: i64) {
        self.sleep_us(ms * 1_000).await;
    }

    /// Waits for `work`, at most this long.
    pub async fn timeout_ms<T>(&self, ms: i64, work: impl Future<Output = T>) -> Option<T> {
        let sleep = std::pin::pin!(self.sleep_ms(ms));
        let work = std::pin::pin!(work);
        match select(work, sleep).await {
            Either::Left((done, _)) => Some(done),
            Either::Right(_) => None,
        }
    }

    /// Draws from the run's own chance.
    pub fn draw<T>(&self, f: impl FnOnce(&mut Chance) -> T) -> T {
        f(&mut self.core().chance)
    }

    /// Writes a line of the trace. `about` names what it concerns, as violations name it.
    pub fn note(&self, who: &str, text: impl FnOnce() -> String) {
        let mut core = self.core();
        let now = core.now_us;
        core.trace.line(now, who, text());
    }

    /// Says that a law is broken. The first one ends the run.
    pub fn fail(&self, law: Law, about: &str, what: String) {
        let mut core = self.core();
        let at_us = core.now_us;
        core.trace
            .line(at_us, about, format!("LAW {} BROKEN: {what}", law.number()));
        core.violation.get_or_insert(Violation {
            law,
            about: about.to_owned(),
            what,
            at_us,
        });
    }

    pub fn violation(&self) -> Option<Violation> {
        self.core().violation.clone()
    }

    pub fn take_trace(&self) -> Trace {
        std::mem::take(&mut self.core().trace)
    }
}

struct Sleep<'a> {
    sim: &'a Sim,
    at: i64,
    timer: Option<(i64, u64)>,
}

impl Future for Sleep<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let sim = self.sim;
        let mut core = sim.core();
        if let Some(old) = self.timer.take() {
            core.timers.remove(&old);
        }
        if core.now_us >= self.at {
            return Poll::Ready(());
        }
        core.drawn += 1;
        let key = (self.at, core.drawn);
        core.timers.insert(key, context.waker().clone());
        self.timer = Some(key);
        Poll::Pending
    }
}

impl Drop for Sleep<'_> {
    fn drop(&mut self) {
        if let Some(timer) = self.timer {
            self.sim.core().timers.remove(&timer);
        }
    }
}

/// Locks what a panic elsewhere cannot have torn: a panic ends the run.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
