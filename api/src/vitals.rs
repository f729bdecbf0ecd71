//! How the parts do that nobody asks anything of: checkpoints, the database, leases.

use std::time::Duration;

use cocoonbox_installation::Pulse;
use cocoonbox_proto::control::v1::{CheckpointsCondition, DatabaseCondition, LeasesCondition};

use crate::{checkpoints, lease::Owners};

/// What is looked at when somebody asks how the process does.
#[derive(Clone)]
pub struct Vitals {
    pub checkpoints: checkpoints::Handle,
    pub owners: Owners,
    pub pulse: Pulse,
}

impl Vitals {
    pub fn checkpoints(&self) -> CheckpointsCondition {
        let standing = self.checkpoints.standing();
        CheckpointsCondition {
            overdue_logs: standing.logs_behind,
            written: standing.written,
            failed: standing.failed,
            fault: standing.fault.unwrap_or_default(),
            alarm: standing.alarm.unwrap_or_default(),
        }
    }

    /// `None`: the store is a folder.
    pub fn database(&self) -> Option<DatabaseCondition> {
        let health = self.pulse.health()?;
        Some(DatabaseCondition {
            polled_ago_ms: milliseconds(health.polled_ago),
            notifies: health.heard_ago.is_some(),
            is_listening: health.is_listening,
            listener_losses: health.listener_losses,
            failed_polls: health.failed_polls,
        })
    }

    /// `None`: one process has the store to itself.
    pub fn leases(&self) -> Option<LeasesCondition> {
        let standing = self.owners.standing()?;
        Some(LeasesCondition {
            held: standing.held as u64,
            lost: standing.lost,
            is_renewing: standing.is_renewing,
        })
    }
}

fn milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
