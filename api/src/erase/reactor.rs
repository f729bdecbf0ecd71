//! Pays what calls did not get to: after a crash, and for boxes that slept.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use cocoonbox_events::{LogId, LogInfo, LogKind};
use tokio_util::sync::CancellationToken;

use super::{Elsewhere, EraseError, Eraser};
use crate::status::describe;

/// Debts are looked for this often. The call that makes one pays it; this is for what was left.
const SWEEP: Duration = Duration::from_secs(1);

/// Runs until stopped: pays what is owed, and forgets whom other processes deleted.
pub async fn run(eraser: Eraser, stop: CancellationToken) {
    let (store, keys) = (eraser.store.clone(), eraser.keys.clone());
    let elsewhere = Elsewhere::new(store, keys, eraser.views.clone());
    tokio::join!(elsewhere.run(stop.clone()), pay_all(&eraser, &stop));
}

async fn pay_all(eraser: &Eraser, stop: &CancellationToken) {
    let mut seen: HashMap<LogId, u64> = HashMap::new();
    let mut failing = HashSet::new();
    while !stop.is_cancelled() {
        let logs = eraser.store.logs();
        for log in logs.iter().filter(|log| log.kind != LogKind::Box) {
            if seen.get(&log.id) == Some(&log.tail.pos) {
                continue;
            }
            let paid = tokio::select! {
                () = stop.cancelled() => return,
                paid = eraser.pay(log, &logs) => paid,
            };
            match paid {
                Ok(true) => {
                    failing.remove(&log.id);
                    seen.insert(log.id, log.tail.pos);
                }
                // Something waits for a box: the next sweep looks again.
                Ok(false) => {}
                Err(error) if failing.insert(log.id) => {
                    let error = describe(&error);
                    tracing::warn!(log = %log.id, error, "an erasure is owed and cannot be paid now");
                }
                Err(error) => {
                    tracing::debug!(log = %log.id, error = describe(&error), "still owed");
                }
            }
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(SWEEP) => {}
        }
    }
}

impl Eraser {
    /// Pays all that one log owes. `false`: something has to wait.
    async fn pay(&self, log: &LogInfo, logs: &[LogInfo]) -> Result<bool, EraseError> {
        self.pay_own(log.id).await?;
        if log.kind == LogKind::System {
            return self.pay_deletions().await;
        }
        let mut all = true;
        let of_owner = |other: &&LogInfo| other.kind == LogKind::Box && other.owner == log.owner;
        for box_log in logs.iter().filter(of_owner) {
            all &= self.pay_boxed(&log.owner, log.id, box_log.id).await?;
        }
        Ok(all)
    }
}
