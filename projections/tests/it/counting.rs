//! A projection that counts the events of each owner, and does what a test wants of it.

use std::sync::{
    Arc, Condvar, Mutex,
    atomic::{AtomicU64, Ordering},
};

use cocoonbox_events::{DecodeError, LogInfo, LogKind, Recorded};
use cocoonbox_projections::{
    ApplyError, Projection, UsageTotals,
    rows::{self, Rows, View},
};

use crate::world::DEADLINE;

#[derive(Clone, Default)]
pub(crate) struct Counting {
    pub(crate) version: u32,
    pub(crate) reads: Vec<u32>,
    /// Cannot take in the event here.
    pub(crate) poison: Option<u64>,
    pub(crate) gate: Option<Arc<Gate>>,
    /// How many events were taken in, by whatever edition.
    pub(crate) applied: Arc<AtomicU64>,
}

/// Holds the fold of one position up until it is opened.
pub(crate) struct Gate {
    at: u64,
    state: Mutex<State>,
    moved: Condvar,
}

#[derive(Default)]
struct State {
    reached: bool,
    open: bool,
}

impl Gate {
    pub(crate) fn at(pos: u64) -> Arc<Self> {
        Arc::new(Self {
            at: pos,
            state: Mutex::default(),
            moved: Condvar::new(),
        })
    }

    /// Waits until the fold stands before the gate.
    pub(crate) async fn reached(self: &Arc<Self>) {
        let gate = self.clone();
        tokio::task::spawn_blocking(move || {
            let state = gate.state.lock().unwrap();
            let waited = gate
                .moved
                .wait_timeout_while(state, DEADLINE, |s| !s.reached);
            assert!(!waited.unwrap().1.timed_out());
        })
        .await
        .unwrap();
    }

    pub(crate) fn open(&self) {
        self.state.lock().unwrap().open = true;
        self.moved.notify_all();
    }

    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.reached = true;
        self.moved.notify_all();
        let waited = self.moved.wait_timeout_while(state, DEADLINE, |s| !s.open);
        drop(waited.unwrap());
    }
}

impl Counting {
    pub(crate) fn version(version: u32) -> Self {
        Self {
            version,
            ..Self::default()
        }
    }

    pub(crate) fn all(&self) -> Vec<Box<dyn Projection>> {
        vec![Box::new(self.clone())]
    }
}

impl Projection for Counting {
    fn name(&self) -> &'static str {
        "counting"
    }

    fn version(&self) -> u32 {
        self.version
    }

    fn reads(&self, version: u32) -> bool {
        self.reads.contains(&version)
    }

    fn views(&self) -> &'static [View] {
        &[View::Usage]
    }

    fn wants(&self, kind: LogKind) -> bool {
        kind == LogKind::Account
    }

    fn gives_way(&self) -> bool {
        true
    }

    fn apply(
        &self,
        rows: &mut dyn Rows,
        event: &Recorded,
        log: &LogInfo,
    ) -> Result<(), ApplyError> {
        if self.poison == Some(event.pos) {
            return Err(DecodeError::UnknownVersion {
                kind: "test.poison",
                version: 9,
            }
            .into());
        }
        if let Some(gate) = self.gate.as_ref().filter(|gate| gate.at == event.pos) {
            gate.pass();
        }
        self.applied.fetch_add(1, Ordering::SeqCst);
        let key = format!("{}/count", log.owner);
        let mut row: UsageTotals = rows::get(rows, View::Usage, &key)?.unwrap_or_default();
        row.calls += 1;
        row.day = format!("v{}", self.version);
        Ok(rows::put(rows, View::Usage, &key, &row)?)
    }

    fn holds(&self, _: &dyn Rows, _: &Recorded, _: &LogInfo) -> Result<bool, rows::Error> {
        Ok(true)
    }

    fn clear(&self, rows: &mut dyn Rows, log: &LogInfo) -> Result<(), rows::Error> {
        rows.delete_prefix(View::Usage, &format!("{}/", log.owner))
    }
}
