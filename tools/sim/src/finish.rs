//! What has to be true once the faults have stopped.

mod history;
mod rest;
mod tamper;

use std::sync::Arc;

use cocoonbox_events::{LogId, ReadError, Store};
use futures::FutureExt;

use crate::{api::views, law::Law, ledger::short, store::SimStore, world::World};

/// The result of a future that only waits for stores which never wait.
pub(crate) fn at_once<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("these stores answer at once")
}

impl World {
    /// Checks everything that can be checked at the end.
    pub fn finish(&self) {
        let Some(store) = self.control.store() else {
            return;
        };
        self.check_acks(&store);
        at_once(self.check_signed(&store, &self.sim));
        self.check_histories(&store);
        self.check_views(&store);
        self.check_erased(&store);
        self.check_verify(&store);
    }

    /// What was acked is there, the same: in the copy, or on the disk of a box that sleeps.
    fn check_acks(&self, store: &SimStore) {
        let mut disks: Vec<SimStore> = Vec::new();
        let mut damaged = std::collections::BTreeSet::new();
        for (box_id, _) in self.host.list() {
            let disk = self.host.disk(&box_id);
            match disk.and_then(|disk| self.read_disk(&disk)) {
                Some(disk) => disks.push(disk),
                // It says so itself when the box is started again.
                None => damaged.extend(self.ledger.logs_of_box(&box_id)),
            }
        }
        for ack in self.ledger.acks() {
            if self.ledger.is_given_up(ack.log, ack.pos) {
                continue;
            }
            let found = at_once(store.chain_at(ack.log, ack.pos));
            let is_there = |disk: &SimStore| {
                at_once(disk.chain_at(ack.log, ack.pos)).is_ok_and(|chain| chain == ack.chain)
            };
            match found {
                Ok(chain) if chain == ack.chain => {}
                Err(_) if disks.iter().any(is_there) || damaged.contains(&ack.log) => {}
                found => {
                    let what = format!(
                        "event {} of log {} was acked, and is {found:?} in the end",
                        ack.pos,
                        short(ack.log)
                    );
                    self.sim.fail(Law::Durable, &short(ack.log), what);
                }
            }
        }
    }

    fn check_views(&self, store: &SimStore) {
        for number in 0..self.apis_count() {
            let kept = self.views(number).views();
            if let Some(differs) = at_once(views::compare(store, &kept)) {
                self.sim
                    .fail(Law::Rebuild, &format!("api-{number}"), differs);
            }
        }
    }

    /// Findings that are true, and have to be expected: the event that would explain them was in what an
    /// operator gave up, or is on the disk of a box that sleeps and was not copied yet.
    fn is_owned_up(&self, store: &SimStore, log: LogId, what: &str) -> bool {
        // The simulated control opens branches without the events that tell of them.
        if what.ends_with("no event tells of that") {
            return true;
        }
        let unexplained =
            what.ends_with("no event says why") || what == "no event tells whose log it is";
        if !unexplained || self.ledger.is_given_up(log, u64::MAX) {
            return unexplained;
        }
        let copied = store.tail(log).map_or(0, |tail| tail.pos);
        self.host.list().iter().any(|(box_id, _)| {
            let disk = self.host.disk(box_id).and_then(|d| self.read_disk(&d));
            disk.is_some_and(|disk| disk.tail(log).is_ok_and(|tail| tail.pos > copied))
        })
    }

    fn check_verify(&self, store: &SimStore) {
        let shared: Arc<dyn Store> = Arc::new(store.clone());
        match at_once(cocoonbox_replay::verify_all(&shared)) {
            Ok(report) => {
                let breaks = report.logs.iter().filter_map(|log| {
                    let found = log.first_break.as_ref()?;
                    Some((log.log, found.pos, found.what.clone()))
                });
                let of_logs = report.logs.iter().flat_map(|log| log.findings.iter());
                let findings = report.findings.iter().chain(of_logs);
                let what: Vec<String> = findings
                    .map(|found| (found.log, found.pos, found.what.clone()))
                    .chain(breaks)
                    .filter(|(log, _, what)| !self.is_owned_up(store, *log, what))
                    .map(|(log, pos, what)| format!("{} at {pos}: {what}", short(log)))
                    .collect();
                if !what.is_empty() {
                    self.sim.fail(Law::Verify, "control", what.join("; "));
                }
            }
            Err(error) => {
                let what = format!("nothing is wrong, but: {error}");
                self.sim.fail(Law::Verify, "control", what);
            }
        }
        self.check_tampered(store);
    }
}

/// Reads a whole history.
pub(crate) fn read_all(
    store: &dyn Store,
    log: LogId,
) -> Result<Vec<cocoonbox_events::Recorded>, ReadError> {
    let mut events: Vec<cocoonbox_events::Recorded> = Vec::new();
    loop {
        let after = events.last().map_or(0, |event| event.pos);
        let page = at_once(store.read(log, after, usize::MAX))?;
        if page.events.is_empty() {
            return Ok(events);
        }
        events.extend(page.events);
    }
}
