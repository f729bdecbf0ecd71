//! The lease of a display as it stands.

use cocoonbox_proto::log::v1::control_released::Reason;

/// Somebody drives the display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub lease_id: String,
    pub fence: u64,
    pub user_id: String,
    /// What the holder calls itself.
    pub label: String,
    /// Without input for this long, the lease ends.
    pub idle_ms: u64,
    /// From then on it counts no more, also where that is not written down yet.
    pub until_us: i64,
}

/// How the last lease ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandBack {
    pub lease: Lease,
    /// `None`: it expired.
    pub reason: Option<Reason>,
    /// What the holder tells the agent.
    pub note: String,
}

/// One display, folded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Of the newest lease; 0 = there was none.
    pub fence: u64,
    pub lease: Option<Lease>,
    pub last: Option<HandBack>,
}

impl Lease {
    /// Whether it counts at this moment.
    pub fn holds(&self, now_us: i64) -> bool {
        now_us < self.until_us
    }

    /// When it would end if there were input at this moment.
    pub fn until_if_used(&self, now_us: i64) -> i64 {
        now_us.saturating_add(self.idle_us())
    }

    pub(super) fn idle_us(&self) -> i64 {
        i64::try_from(self.idle_ms.saturating_mul(1_000)).unwrap_or(i64::MAX)
    }
}

impl State {
    /// Returns the lease that counts at this moment.
    pub fn held(&self, now_us: i64) -> Option<&Lease> {
        self.lease.as_ref().filter(|lease| lease.holds(now_us))
    }
}
