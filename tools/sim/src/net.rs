//! A network that loses, delays, repeats and cuts.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
    future::Future,
    sync::{Arc, Mutex},
    task::{Poll, Waker},
};

use tokio::sync::oneshot;

use crate::scheduler::{Life, Sim, lock};

/// A call is given up after this long, whatever has become of it.
const CALL_MS: i64 = 2_000;
/// Items on their way through a pipe before the sender waits.
const PIPE_ITEMS_MAX: usize = 4;

/// Where something runs, whichever of its lives it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// The database that the api replicas share.
    Control,
    /// What runs the machines.
    Host,
    Api(usize),
    Box(usize),
    Client(usize),
    /// Operator, auditor and eraser.
    Desk,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Control => f.write_str("control"),
            Self::Host => f.write_str("host"),
            Self::Api(n) => write!(f, "api-{n}"),
            Self::Box(n) => write!(f, "box-{n}"),
            Self::Client(n) => write!(f, "client-{n}"),
            Self::Desk => f.write_str("desk"),
        }
    }
}

/// No answer. Whether the call was served is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost;

/// How bad the network is, in a thousand.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weather {
    pub lost: u64,
    pub repeated: u64,
    /// Batches of a pipe that are lost, repeated or swapped. No transport in use does that; the
    /// receiver must bear it all the same.
    pub shuffled: u64,
    pub delay_ms_max: i64,
}

#[derive(Clone)]
pub struct Net {
    sim: Sim,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    weather: Weather,
    cut: BTreeSet<(Place, Place)>,
    lives: BTreeMap<Place, Life>,
}

impl Net {
    pub fn new(sim: Sim) -> Self {
        Self {
            sim,
            state: Arc::default(),
        }
    }

    pub fn set_weather(&self, weather: Weather) {
        lock(&self.state).weather = weather;
    }

    pub fn weather(&self) -> Weather {
        lock(&self.state).weather
    }

    /// Says which process answers at a place; `None`: none does.
    pub fn set_life(&self, place: Place, life: Option<Life>) {
        let mut state = lock(&self.state);
        match life {
            Some(life) => drop(state.lives.insert(place, life)),
            None => drop(state.lives.remove(&place)),
        }
    }

    pub fn life(&self, place: Place) -> Option<Life> {
        let life = lock(&self.state).lives.get(&place).copied();
        life.filter(|life| self.sim.is_alive(*life))
    }

    pub fn cut(&self, a: Place, b: Place) {
        lock(&self.state).cut.insert((a.min(b), a.max(b)));
    }

    pub fn mend(&self, a: Place, b: Place) {
        lock(&self.state).cut.remove(&(a.min(b), a.max(b)));
    }

    pub fn heal(&self) {
        lock(&self.state).cut.clear();
    }

    pub fn is_cut(&self, a: Place, b: Place) -> bool {
        lock(&self.state).cut.contains(&(a.min(b), a.max(b)))
    }

    fn delay_us(&self) -> i64 {
        let max = self.weather().delay_ms_max.max(1);
        // Mostly quick, now and then as slow as it gets.
        self.sim.draw(|chance| {
            if chance.happens(900) {
                chance.between(50, 2_000)
            } else {
                chance.between(2_000, max * 1_000)
            }
        })
    }

    fn is_lost(&self) -> bool {
        let lost = self.weather().lost;
        self.sim.draw(|chance| chance.happens(lost))
    }

    /// Calls a place: `serve` makes the work that is done there, in the process that answers when the
    /// call arrives. It may be done twice, or with nobody hearing of it.
    pub async fn call<R, F>(
        &self,
        from: Place,
        to: Place,
        serve: impl Fn() -> F + Send + Sync + 'static,
    ) -> Result<R, Lost>
    where
        R: Send + 'static,
        F: Future<Output = R> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let repeated = self.weather().repeated;
        let again = self.sim.draw(|chance| chance.happens(repeated));
        if !self.is_lost() {
            let here = self.life(from);
            let first = self.deliver(from, to, serve(), Some(answer));
            // Both are on their way at once, in whatever order.
            if let Some(life) = here {
                self.sim.spawn(life, first);
                if again {
                    self.sim.spawn(life, self.deliver(from, to, serve(), None));
                }
            } else {
                first.await;
            }
        }
        match self.sim.timeout_ms(CALL_MS, answered).await {
            Some(Ok(answer)) => Ok(answer),
            Some(Err(_)) | None => Err(Lost),
        }
    }

    fn deliver<R: Send + 'static>(
        &self,
        from: Place,
        to: Place,
        work: impl Future<Output = R> + Send + 'static,
        answer: Option<oneshot::Sender<R>>,
    ) -> impl Future<Output = ()> + Send + 'static {
        let net = self.clone();
        async move {
            let delay = net.delay_us();
            net.sim.sleep_us(delay).await;
            if net.is_cut(from, to) {
                return;
            }
            let Some(life) = net.life(to) else { return };
            let back = net.clone();
            net.sim.spawn(life, async move {
                let done = work.await;
                let delay = back.delay_us();
                back.sim.sleep_us(delay).await;
                if back.is_cut(from, to) || back.is_lost() {
                    return;
                }
                if let Some(answer) = answer {
                    drop(answer.send(done));
                }
            });
        }
    }

    /// Opens a stream from one place to another, as a connection carries it: in order, until it breaks.
    pub fn pipe<T: Clone + Send + 'static>(
        &self,
        from: Place,
        to: Place,
    ) -> (Sender<T>, Receiver<T>) {
        self.open_pipe(from, to, false)
    }

    /// Opens a stream whose items may be lost, repeated or swapped.
    pub fn shuffled_pipe<T: Clone + Send + 'static>(
        &self,
        from: Place,
        to: Place,
    ) -> (Sender<T>, Receiver<T>) {
        self.open_pipe(from, to, true)
    }

    fn open_pipe<T>(&self, from: Place, to: Place, shuffles: bool) -> (Sender<T>, Receiver<T>) {
        let pipe = Arc::new(Pipe {
            net: self.clone(),
            from,
            to,
            shuffles,
            state: Mutex::new(PipeState {
                items: VecDeque::new(),
                last_us: 0,
                is_closed: false,
                waiting: None,
            }),
        });
        (Sender(Arc::clone(&pipe)), Receiver(pipe))
    }
}

struct Pipe<T> {
    net: Net,
    from: Place,
    to: Place,
    shuffles: bool,
    state: Mutex<PipeState<T>>,
}

struct PipeState<T> {
    /// With the moment at which each is there.
    items: VecDeque<(i64, T)>,
    last_us: i64,
    is_closed: bool,
    waiting: Option<Waker>,
}

pub struct Sender<T>(Arc<Pipe<T>>);
pub struct Receiver<T>(Arc<Pipe<T>>);

impl<T: Clone> Sender<T> {
    /// Whether somebody may be listening.
    pub fn is_open(&self) -> bool {
        !self.0.is_broken()
    }

    /// Sends, once there is room. `false`: the connection is broken.
    pub async fn send(&self, item: T) -> bool {
        let pipe = &self.0;
        loop {
            if pipe.is_broken() {
                return false;
            }
            if lock(&pipe.state).items.len() < PIPE_ITEMS_MAX {
                break;
            }
            pipe.net.sim.sleep_ms(5).await;
        }
        let delay = pipe.net.delay_us();
        let shuffled = if pipe.shuffles {
            pipe.net.weather().shuffled
        } else {
            0
        };
        let fate = pipe.net.sim.draw(|chance| {
            if chance.happens(shuffled) {
                chance.below(3)
            } else {
                u64::MAX
            }
        });
        let now = pipe.net.sim.now_us();
        let mut state = lock(&pipe.state);
        state.last_us = state.last_us.max(now + delay);
        let at = state.last_us;
        match fate {
            0 => {}
            1 => {
                state.items.push_back((at, item.clone()));
                state.items.push_back((at, item));
            }
            2 => {
                let before = state.items.len().saturating_sub(1);
                state.items.insert(before, (at, item));
            }
            _ => state.items.push_back((at, item)),
        }
        if let Some(waker) = state.waiting.take() {
            waker.wake();
        }
        true
    }
}

impl<T> Receiver<T> {
    /// Returns what comes next; `None` once the connection is broken.
    pub async fn next(&self) -> Option<T> {
        let pipe = &self.0;
        loop {
            let due = {
                let state = lock(&pipe.state);
                state.items.front().map(|(at, _)| *at)
            };
            let Some(at) = due else {
                if pipe.is_broken() {
                    return None;
                }
                // Nobody says that a connection is cut: one looks now and then.
                let arrived = std::future::poll_fn(|context| {
                    let mut state = lock(&pipe.state);
                    if state.items.is_empty() && !state.is_closed {
                        state.waiting = Some(context.waker().clone());
                        Poll::Pending
                    } else {
                        Poll::Ready(())
                    }
                });
                pipe.net.sim.timeout_ms(500, arrived).await;
                continue;
            };
            let wait = at - pipe.net.sim.now_us();
            if wait > 0 {
                pipe.net.sim.sleep_us(wait).await;
            }
            if pipe.net.is_cut(pipe.from, pipe.to) {
                lock(&pipe.state).is_closed = true;
                return None;
            }
            if let Some((_, item)) = lock(&pipe.state).items.pop_front() {
                return Some(item);
            }
        }
    }
}

impl<T> Pipe<T> {
    fn is_broken(&self) -> bool {
        if self.net.is_cut(self.from, self.to) {
            lock(&self.state).is_closed = true;
        }
        lock(&self.state).is_closed
    }

    fn close(&self) {
        let mut state = lock(&self.state);
        state.is_closed = true;
        if let Some(waker) = state.waiting.take() {
            waker.wake();
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.0.close();
    }
}
