//! Who drives which box, when several api processes share one store.
//!
//! A box that has work (it runs, or something is owed to it) is driven by the process that holds its lease.
//!
//! ```text
//!  work seen ─▶ hold ─▶ take ──granted──▶ Tenure ──▶ renewed every 3 s by the database's clock
//!                 ▲       │ held                       │ lost: not renewed in time, by our own clock
//!                 └───────┘ look again each second     │ leave: another process has fewer
//! ```
//!
//! A lease runs out at the database [`TIME_TO_LIVE`] after it was renewed there, and here as long after the
//! renewal was *asked for*, less `MARGIN`: whoever had it has stopped before another can get it. For a process
//! that is held up longer than that and does not know it, machines are fenced by number.

mod balance;
mod deadline;

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use cocoonbox_installation::{Holder, Lease, Leases, LeasesError, Taken};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use self::balance::name_of;
use self::{balance::Census, deadline::Deadline};

/// How long a process may be silent before its boxes are taken over.
pub const TIME_TO_LIVE: Duration = Duration::from_secs(10);
/// Three renewals may fail before a lease is lost.
const RENEW: Duration = Duration::from_secs(3);
/// What it takes to let go of a box: closing its door and its replication.
const MARGIN: Duration = Duration::from_secs(2);
/// How often it is looked who holds what.
const LOOK: Duration = Duration::from_secs(1);
/// How often deadlines are looked at. Well below the margin.
const WATCH: Duration = Duration::from_millis(100);
/// An answer that takes longer than this is asked for again.
const ANSWER: Duration = Duration::from_secs(2);
/// After a question that was not answered.
const PAUSE: Duration = Duration::from_millis(300);
/// A process that has more boxes than another leaves a free one to it for this long.
const COURTESY: Duration = Duration::from_millis(1_500);
/// For a section that one process is in at a time: what is done in it takes milliseconds.
const SECTION: Duration = Duration::from_secs(5);
const SECTION_STEP: Duration = Duration::from_millis(20);
/// Before the id in the name of a process's own lease, by which the others know that it lives.
const PROCESS: &str = "process/";

/// The leases of this process. Cheap to clone.
#[derive(Clone)]
pub struct Owners {
    shared: Arc<Shared>,
}

struct Shared {
    leases: Arc<dyn Leases>,
    me: Holder,
    held: Mutex<HashMap<String, Arc<Held>>>,
    /// Asked for and not answered yet: whether they are ours is not known.
    asked: Mutex<HashSet<String>>,
    census: watch::Sender<Arc<Census>>,
    lost: AtomicU64,
    is_renewing: AtomicBool,
}

/// How a process does with its leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    pub held: usize,
    /// Since the process began: not renewed in time, or taken by another process.
    pub lost: u64,
    /// Whether the last renewal succeeded.
    pub is_renewing: bool,
}

/// A lease of ours.
struct Held {
    fence: u64,
    deadline: Deadline,
    lost: CancellationToken,
    leave: CancellationToken,
}

/// The right to drive one box, for as long as it lasts.
pub struct Tenure {
    name: String,
    held: Arc<Held>,
    owners: Owners,
}

/// A section that no other process is in.
pub struct Section {
    asked: Asked,
    fence: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum SectionError {
    #[error(transparent)]
    Leases(#[from] LeasesError),
    #[error("another api process is at it for more than {} s", SECTION.as_secs())]
    Busy,
}

impl Owners {
    pub fn new(leases: Arc<dyn Leases>, me: Holder) -> Self {
        let shared = Shared {
            leases,
            me,
            held: Mutex::default(),
            asked: Mutex::default(),
            census: watch::Sender::default(),
            lost: AtomicU64::new(0),
            is_renewing: AtomicBool::new(true),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Whether other processes may drive boxes too.
    pub fn are_shared(&self) -> bool {
        self.shared.leases.are_shared()
    }

    /// Returns how it is with the leases of this process; `None` where nobody else can have them.
    pub fn standing(&self) -> Option<Standing> {
        self.are_shared().then(|| Standing {
            held: self.held().len(),
            lost: self.shared.lost.load(Ordering::Relaxed),
            is_renewing: self.shared.is_renewing.load(Ordering::Relaxed),
        })
    }

    pub fn me(&self) -> &Holder {
        &self.shared.me
    }

    /// Renews, looks and hands over until stopped. Then gives back what is left.
    pub async fn run(self, stop: CancellationToken) {
        if !self.are_shared() {
            return stop.cancelled().await;
        }
        tokio::join!(self.keep(&stop), self.look(&stop), self.watch(&stop));
        let left = std::mem::take(&mut *self.held());
        for (name, held) in left {
            held.lost.cancel();
            self.give_back(&name, held.fence).await;
        }
        let name = format!("{PROCESS}{}", self.me().id);
        if let Ok(Some(own)) = self.shared.leases.find(&name).await {
            self.give_back(&name, own.fence).await;
        }
    }

    /// Returns who holds a lease, if anybody does: as of the last look, or asked for when that knows nobody.
    pub async fn holder(&self, name: &str) -> Result<Option<Lease>, LeasesError> {
        if let Some(lease) = self.shared.census.borrow().live.get(name) {
            return Ok(Some(lease.clone()));
        }
        let found = self.shared.leases.find(name).await?;
        Ok(found.filter(|lease| lease.is_live))
    }

    /// Returns who holds a lease, or held it last.
    pub async fn last_holder(&self, name: &str) -> Result<Option<Lease>, LeasesError> {
        self.shared.leases.find(name).await
    }

    /// Waits until it may be that somebody else holds something.
    pub async fn changed(&self) {
        let mut census = self.shared.census.subscribe();
        census.mark_unchanged();
        // The sender lives as long as we do.
        drop(census.changed().await);
    }

    /// Waits until the lease is ours. Dropping the future is fine.
    pub async fn hold(&self, name: &str) -> Tenure {
        let mut census = self.shared.census.subscribe();
        loop {
            let (taken_by_other, has_most) = {
                let census = census.borrow_and_update();
                let other = census.live.get(name);
                let other = other.is_some_and(|lease| lease.holder != self.shared.me);
                (other, census.others_have_fewer(&self.shared.me))
            };
            if taken_by_other {
                drop(census.changed().await);
                continue;
            }
            if has_most {
                tokio::time::sleep(COURTESY).await;
            }
            match self.take(name).await {
                Ok(Some(tenure)) => return tenure,
                Ok(None) => drop(census.changed().await),
                Err(error) => {
                    tracing::debug!(name, %error, "lease cannot be taken");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Takes the lease if nobody else holds it.
    pub async fn take(&self, name: &str) -> Result<Option<Tenure>, LeasesError> {
        let asked = Asked::new(self, name);
        let deadline = Deadline::after(TIME_TO_LIVE);
        let taken = self.ask(name, TIME_TO_LIVE).await?;
        let Taken::Granted { fence } = taken else {
            return Ok(None);
        };
        let mut all = self.held();
        let held = all.entry(name.to_owned()).or_insert_with(|| {
            Arc::new(Held {
                fence,
                deadline: Deadline::default(),
                lost: CancellationToken::new(),
                leave: CancellationToken::new(),
            })
        });
        if held.fence != fence {
            // We had lost it and got it again before anybody noticed.
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
            held.lost.cancel();
            *held = Arc::new(Held {
                fence,
                deadline: Deadline::default(),
                lost: CancellationToken::new(),
                leave: CancellationToken::new(),
            });
        }
        held.deadline.move_to(&deadline);
        let held = held.clone();
        drop(all);
        drop(asked);
        Ok(Some(Tenure {
            name: name.to_owned(),
            held,
            owners: self.clone(),
        }))
    }

    /// Waits for a section that one process is in at a time. Within this process that is the caller's affair.
    pub async fn section(&self, name: &str) -> Result<Section, SectionError> {
        let asked = Asked::new(self, name);
        let begun = tokio::time::Instant::now();
        loop {
            if let Taken::Granted { fence } = self.ask(name, SECTION).await? {
                return Ok(Section { asked, fence });
            }
            if begun.elapsed() > SECTION {
                return Err(SectionError::Busy);
            }
            tokio::time::sleep(SECTION_STEP).await;
        }
    }

    async fn ask(&self, name: &str, time_to_live: Duration) -> Result<Taken, LeasesError> {
        let question = self.shared.leases.take(name, &self.shared.me, time_to_live);
        let answer = tokio::time::timeout(ANSWER, question).await;
        answer.unwrap_or_else(|late| Err(LeasesError::Unreachable(late.into())))
    }

    /// Renews everything, and says so of the process itself.
    async fn keep(&self, stop: &CancellationToken) {
        let mut is_reachable = true;
        while !stop.is_cancelled() {
            let renewed = self.renew().await;
            match &renewed {
                Ok(()) if !is_reachable => tracing::info!("leases are renewed again"),
                Err(error) if is_reachable => {
                    let error = crate::status::describe(error);
                    tracing::warn!(error, "leases cannot be renewed");
                }
                _ => {}
            }
            is_reachable = renewed.is_ok();
            self.shared
                .is_renewing
                .store(is_reachable, Ordering::Relaxed);
            let pause = if is_reachable { RENEW } else { PAUSE };
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    async fn renew(&self) -> Result<(), LeasesError> {
        let deadline = Deadline::after(TIME_TO_LIVE);
        // Before the question, since what is taken while it is under way may not be in the answer.
        let before: Vec<_> = self
            .held()
            .iter()
            .map(|(name, held)| (name.clone(), held.clone()))
            .collect();
        let own = format!("{PROCESS}{}", self.me().id);
        self.ask(&own, TIME_TO_LIVE).await?;
        let question = self.shared.leases.renew(self.me(), TIME_TO_LIVE);
        let answer = tokio::time::timeout(ANSWER, question).await;
        let kept = answer.map_err(|late| LeasesError::Unreachable(late.into()))??;
        let kept: HashMap<String, u64> = kept
            .into_iter()
            .map(|lease| (lease.name, lease.fence))
            .collect();
        for (name, held) in before {
            if kept.get(&name) == Some(&held.fence) {
                held.deadline.move_to(&deadline);
            } else {
                self.lose(&name, &held);
            }
        }
        for (name, fence) in kept {
            let is_known =
                name == own || self.held().contains_key(&name) || self.asked().contains(&name);
            // Asked for by somebody who did not wait for the answer.
            if !is_known {
                self.give_back(&name, fence).await;
            }
        }
        Ok(())
    }

    async fn look(&self, stop: &CancellationToken) {
        let mut rounds = 0_u32;
        while !stop.is_cancelled() {
            let live = tokio::time::timeout(ANSWER, self.shared.leases.live()).await;
            if let Ok(Ok(live)) = live {
                let census = Census::new(live);
                // What we have given back a moment ago has to arrive before more is given back.
                if rounds.is_multiple_of(3) {
                    self.hand_over(&census);
                }
                self.shared.census.send_replace(Arc::new(census));
                rounds = rounds.wrapping_add(1);
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }

    /// Asks for some boxes to be left, when another process has fewer.
    fn hand_over(&self, census: &Census) {
        let excess = census.excess(self.me());
        if excess == 0 {
            return;
        }
        let held = self.held();
        let leaving = held.values().filter(|held| held.leave.is_cancelled());
        let more = excess.saturating_sub(leaving.count());
        for (name, held) in held
            .iter()
            .filter(|(name, held)| balance::is_box(name) && !held.leave.is_cancelled())
            .take(more)
        {
            tracing::info!(
                name,
                "another api process has fewer boxes; leaving one to it"
            );
            held.leave.cancel();
        }
    }

    /// Lets go of what was not renewed in time.
    async fn watch(&self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            let late: Vec<_> = self
                .held()
                .iter()
                .filter(|(_, held)| held.deadline.is_within(MARGIN))
                .map(|(name, held)| (name.clone(), held.clone()))
                .collect();
            for (name, held) in late {
                self.lose(&name, &held);
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(WATCH) => {}
            }
        }
    }

    fn lose(&self, name: &str, held: &Arc<Held>) {
        let mut all = self.held();
        if all.get(name).is_some_and(|known| Arc::ptr_eq(known, held)) {
            all.remove(name);
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(name, "lease lost");
        }
        drop(all);
        held.lost.cancel();
    }

    async fn give_back(&self, name: &str, fence: u64) {
        let question = self.shared.leases.release(name, self.me(), fence);
        // It runs out anyway.
        if let Ok(Err(error)) = tokio::time::timeout(ANSWER, question).await {
            tracing::debug!(name, %error, "lease was not given back");
        }
    }

    fn held(&self) -> MutexGuard<'_, HashMap<String, Arc<Held>>> {
        self.shared
            .held
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn asked(&self) -> MutexGuard<'_, HashSet<String>> {
        self.shared
            .asked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tenure {
    /// Grows with every holder.
    pub fn fence(&self) -> u64 {
        self.held.fence
    }

    /// Cancelled when the lease is lost: stop at once.
    pub fn lost(&self) -> CancellationToken {
        self.held.lost.clone()
    }

    /// Cancelled when the lease should be given back, as soon as that disturbs nobody.
    pub fn leave(&self) -> CancellationToken {
        self.held.leave.clone()
    }

    /// Whether the lease holds at this moment, by the clock that does not stop.
    pub fn is_valid(&self) -> bool {
        let is_free = !self.owners.are_shared();
        is_free || !(self.held.lost.is_cancelled() || self.held.deadline.is_within(MARGIN))
    }

    /// Gives the lease back. Everything that it allowed has ended.
    pub async fn release(self) {
        let removed = {
            let mut all = self.owners.held();
            let is_ours = all
                .get(&self.name)
                .is_some_and(|known| Arc::ptr_eq(known, &self.held));
            is_ours && all.remove(&self.name).is_some()
        };
        if removed {
            self.owners.give_back(&self.name, self.held.fence).await;
        }
    }
}

impl Section {
    /// Lets the next one in. Without it that happens a moment later, by the next renewal.
    pub async fn leave(self) {
        let Asked { owners, name } = &self.asked;
        owners.give_back(name, self.fence).await;
    }
}

/// Marks a name as asked for: whether its lease is ours is not to be judged by the next renewal.
struct Asked {
    owners: Owners,
    name: String,
}

impl Asked {
    fn new(owners: &Owners, name: &str) -> Self {
        owners.asked().insert(name.to_owned());
        Self {
            owners: owners.clone(),
            name: name.to_owned(),
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.owners.asked().remove(&self.name);
    }
}
