//! Whether an agent may give input to a display: asked before each action, since a person may take it over.
//!
//! The api says who drives, for as long as its stream lasts. Without that word nobody here acts: what is not known
//! to be free counts as held.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use cocoonbox_proto::{
    agent::v1::{ControlHolder, FenceState, HandBack},
    log::v1::DesktopHandedBack,
};
use tokio::{sync::watch, time::timeout};
use tokio_util::sync::CancellationToken;

#[cfg(test)]
mod tests;

/// For what a person left behind to be looked at.
const LEFT_MAX: Duration = Duration::from_secs(6);
/// For the display to be looked at before a person has it, and agents' hands to be taken off it. Beneath what the api
/// waits for.
const LOOK_MAX: Duration = Duration::from_secs(2);

/// The displays of this box, and who drives them.
#[derive(Clone, Debug, Default)]
pub struct Displays(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    known: Mutex<Known>,
    /// Actions under way, so that who takes over can wait for their end.
    acting: watch::Sender<Vec<u32>>,
    left: watch::Sender<BTreeMap<u32, Left>>,
    /// Agents that a display matters to.
    drivers: Mutex<BTreeMap<u32, Drivers>>,
    /// The newest fence before which a display was looked at. Where there is none, nobody looks.
    looked: watch::Sender<BTreeMap<u32, u64>>,
}

/// What the last person left behind who had a display.
#[derive(Debug, Default)]
struct Left {
    /// It is being found out.
    is_awaited: bool,
    last: Option<Arc<DesktopHandedBack>>,
}

/// Who drove a display, or wanted to. Not known any more once the agents' process ends.
#[derive(Debug, Default)]
struct Drivers {
    /// Refused while a person has it.
    waiting: BTreeSet<String>,
    last: Option<String>,
}

#[derive(Debug, Default)]
struct Known {
    /// `None`: the api has not said, or says no more.
    state: Option<FenceState>,
    /// Of the stream whose word counts.
    stream: u64,
    /// Cancelled when something changes.
    changed: CancellationToken,
}

/// One action may be done. Ask for another for the next one.
#[derive(Debug)]
pub struct Permit {
    display: u32,
    changed: CancellationToken,
    displays: Displays,
    /// How the last person left the display, for the agent to read of.
    pub handed_back: Option<HandBack>,
}

/// Why an agent may not act.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("{label} has control of this display; wait until it is handed back")]
    Held {
        label: String,
        /// When it ends unless there is input.
        until_ms: i64,
    },
    #[error("it is not known who has control of this display; try again in a moment")]
    Unknown,
}

impl Displays {
    /// Asks whether an agent may act on a display.
    pub fn enter(&self, display: u32) -> Result<Permit, Refused> {
        let known = self.known();
        let state = known.state.as_ref().ok_or(Refused::Unknown)?;
        if let Some(holder) = holder(state, display) {
            return Err(Refused::Held {
                label: holder.label.clone(),
                until_ms: holder.until_ms,
            });
        }
        let handed_back = state.handed_back.iter().find(|one| one.display == display);
        // Beneath the lock: whoever forbids it from here on sees that it goes on.
        self.0.acting.send_modify(|acting| acting.push(display));
        Ok(Permit {
            display,
            changed: known.changed.clone(),
            displays: self.clone(),
            handed_back: handed_back.cloned(),
        })
    }

    /// Notes that an agent acts on a display.
    pub(crate) fn driven_by(&self, display: u32, agent_id: &str) {
        let mut all = self.drivers();
        let drivers = all.entry(display).or_default();
        if drivers.last.as_deref() != Some(agent_id) {
            drivers.last = Some(agent_id.to_owned());
        }
    }

    /// Notes that an agent was not let onto a display.
    pub(crate) fn wanted_by(&self, display: u32, agent_id: &str) {
        let mut all = self.drivers();
        let drivers = all.entry(display).or_default();
        drivers.waiting.insert(agent_id.to_owned());
    }

    /// Takes who wanted a display while a person had it; where nobody did, who drove it last.
    pub(crate) fn take_waiting(&self, display: u32) -> BTreeSet<String> {
        let mut all = self.drivers();
        let drivers = all.entry(display).or_default();
        let waiting = std::mem::take(&mut drivers.waiting);
        if waiting.is_empty() {
            drivers.last.iter().cloned().collect()
        } else {
            waiting
        }
    }

    fn drivers(&self) -> MutexGuard<'_, BTreeMap<u32, Drivers>> {
        let drivers = self.0.drivers.lock();
        drivers.unwrap_or_else(PoisonError::into_inner)
    }

    /// Resolves with the fence of a lease once a person is known to have a display.
    pub(crate) async fn taken(&self, display: u32) -> u64 {
        self.when(|state| {
            let held = state.held.iter().find(|one| one.display == display)?;
            held.holder.as_ref().map(|_| held.fence)
        })
        .await
    }

    /// Resolves once nobody is known to have a display any more, with how it was handed back.
    pub(crate) async fn free(&self, display: u32) -> Option<HandBack> {
        self.when(|state| {
            let back = state.handed_back.iter().find(|one| one.display == display);
            holder(state, display).is_none().then(|| back.cloned())
        })
        .await
    }

    /// From here on who takes a display over waits until it was looked at, as long as the guard is there.
    pub(crate) fn look_first(&self, display: u32) -> Looker {
        self.looked(display, 0);
        Looker(self.clone(), display)
    }

    /// The display was looked at, or cannot be.
    pub(crate) fn looked(&self, display: u32, fence: u64) {
        self.0.looked.send_modify(|looked| {
            looked.insert(display, fence);
        });
    }

    /// Whether a person is known to have a display.
    pub(crate) fn is_held(&self, display: u32) -> bool {
        let known = self.known();
        let state = known.state.as_ref();
        state.is_some_and(|state| holder(state, display).is_some())
    }

    /// Resolves once nobody finds out any more what a person left behind on a display.
    pub(crate) async fn at_rest(&self, display: u32) {
        let mut left = self.0.left.subscribe();
        let is_at_rest = |left: &Left| !left.is_awaited;
        // The sender lives as long as we do.
        drop(
            left.wait_for(|left| left.get(&display).is_none_or(is_at_rest))
                .await,
        );
    }

    /// How a display was left last, as the api says.
    pub(crate) fn handed_back(&self, display: u32) -> Option<HandBack> {
        let known = self.known();
        let mut all = known.state.as_ref()?.handed_back.iter();
        all.find(|back| back.display == display).cloned()
    }

    /// Takes note that a display is there no more: who gets one of this number gets another.
    pub(crate) fn forget(&self, display: u32) {
        self.drivers().remove(&display);
        self.0.left.send_modify(|left| {
            left.remove(&display);
        });
    }

    /// Says that somebody finds out what a person leaves behind, until the guard is dropped.
    pub(crate) fn await_left(&self, display: u32) -> Awaited {
        self.note_left(display, |left| left.is_awaited = true);
        Awaited(self.clone(), display)
    }

    pub(crate) fn tell_left(&self, back: DesktopHandedBack) {
        self.note_left(back.display, |left| left.last = Some(Arc::new(back)));
    }

    /// What was left behind at the end of a lease, where that is known; once it is, if it is being found out.
    pub(crate) async fn left(&self, display: u32, fence: u64) -> Option<Arc<DesktopHandedBack>> {
        let is_it = |back: &Arc<DesktopHandedBack>| back.fence == fence;
        let is_known = |left: &Left| !left.is_awaited || left.last.as_ref().is_some_and(is_it);
        let mut left = self.0.left.subscribe();
        let known = left.wait_for(|left| left.get(&display).is_none_or(is_known));
        let known = timeout(LEFT_MAX, known).await.ok()?.ok()?;
        known.get(&display)?.last.clone().filter(is_it)
    }

    fn note_left(&self, display: u32, note: impl FnOnce(&mut Left)) {
        self.0
            .left
            .send_modify(|left| note(left.entry(display).or_default()));
    }

    async fn when<T>(&self, look: impl Fn(&FenceState) -> Option<T>) -> T {
        loop {
            let changed = {
                let known = self.known();
                if let Some(found) = known.state.as_ref().and_then(&look) {
                    return found;
                }
                known.changed.clone()
            };
            changed.cancelled().await;
        }
    }

    /// Begins a stream of the api's words. From here on only its words count.
    pub(crate) fn begin(&self) -> u64 {
        let mut known = self.known();
        known.stream += 1;
        known.state = None;
        known.changed();
        known.stream
    }

    /// Takes a word of that stream in, and returns when no action goes on that it forbids and who looks first has
    /// looked.
    pub(crate) async fn apply(&self, stream: u64, state: FenceState) {
        let held: BTreeMap<u32, u64> = state
            .held
            .iter()
            .map(|one| (one.display, one.fence))
            .collect();
        {
            let mut known = self.known();
            if known.stream != stream {
                return;
            }
            known.state = Some(state);
            known.changed();
        }
        let mut acting = self.0.acting.subscribe();
        let is_still = |acting: &Vec<u32>| !acting.iter().any(|one| held.contains_key(one));
        // The sender lives as long as we do.
        drop(acting.wait_for(is_still).await);
        let mut looked = self.0.looked.subscribe();
        let is_looked_at = |looked: &BTreeMap<u32, u64>| {
            let mut all = held.iter();
            all.all(|(display, fence)| looked.get(display).is_none_or(|looked| looked >= fence))
        };
        // Late is better than never.
        drop(timeout(LOOK_MAX, looked.wait_for(is_looked_at)).await);
    }

    /// Ends that stream: nothing is known any more, unless another has begun.
    pub(crate) fn end(&self, stream: u64) {
        let mut known = self.known();
        if known.stream == stream {
            known.state = None;
            known.changed();
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a person leaves behind is being found out.
#[derive(Debug)]
pub(crate) struct Awaited(Displays, u32);

impl Drop for Awaited {
    fn drop(&mut self) {
        self.0.note_left(self.1, |left| left.is_awaited = false);
    }
}

/// Somebody looks at a display before people get it.
#[derive(Debug)]
pub(crate) struct Looker(Displays, u32);

impl Drop for Looker {
    fn drop(&mut self) {
        self.0.0.looked.send_modify(|looked| {
            looked.remove(&self.1);
        });
    }
}

impl Known {
    fn changed(&mut self) {
        std::mem::take(&mut self.changed).cancel();
    }
}

impl Permit {
    /// Resolves when the action has to end: a person takes the display over, and waits for it.
    pub async fn revoked(&self) {
        let mut changed = self.changed.clone();
        loop {
            changed.cancelled().await;
            let known = self.displays.known();
            let is_free = |state: &FenceState| holder(state, self.display).is_none();
            if !known.state.as_ref().is_some_and(is_free) {
                return;
            }
            changed = known.changed.clone();
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.displays.0.acting.send_modify(|acting| {
            if let Some(at) = acting.iter().position(|one| *one == self.display) {
                acting.swap_remove(at);
            }
        });
    }
}

fn holder(state: &FenceState, display: u32) -> Option<&ControlHolder> {
    let held = state.held.iter().find(|one| one.display == display)?;
    held.holder.as_ref()
}
