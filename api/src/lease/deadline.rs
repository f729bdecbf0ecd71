//! A moment by the clock that goes on while the host sleeps.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use rustix::time::{ClockId, clock_gettime};

/// A moment that is only ever moved on.
#[derive(Debug, Default)]
pub(super) struct Deadline {
    /// Milliseconds since the host has started.
    at_ms: AtomicU64,
}

impl Deadline {
    pub(super) fn after(duration: Duration) -> Self {
        Self {
            at_ms: AtomicU64::new(now_ms() + millis(duration)),
        }
    }

    pub(super) fn move_to(&self, other: &Self) {
        let at = other.at_ms.load(Ordering::Relaxed);
        self.at_ms.fetch_max(at, Ordering::Relaxed);
    }

    /// Whether it is over, or is in this time.
    pub(super) fn is_within(&self, duration: Duration) -> bool {
        now_ms() + millis(duration) >= self.at_ms.load(Ordering::Relaxed)
    }
}

/// Not the monotonic clock, which stands still while a host is suspended; the database's does not.
fn now_ms() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let (seconds, nanos) = (u64::try_from(now.tv_sec), u64::try_from(now.tv_nsec));
    seconds.unwrap_or(0) * 1_000 + nanos.unwrap_or(0) / 1_000_000
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX / 2)
}
