//! How long a part that ended waits until it is started again.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);
const MAX: Duration = Duration::from_secs(30);
/// After so long it counts as having run well.
const UP: Duration = Duration::from_secs(30);

/// Doubles with each failure that follows soon.
#[derive(Debug)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    pub(super) const fn new() -> Self {
        Self { failures: 0 }
    }

    /// Counts a failure after so long, and returns the wait before the next start.
    pub(super) fn failed(&mut self, ran: Duration) -> Duration {
        if ran >= UP {
            self.failures = 0;
        }
        self.failures = self.failures.saturating_add(1);
        let doubled = 2_u32.checked_pow(self.failures - 1);
        doubled.map_or(MAX, |times| FIRST.saturating_mul(times).min(MAX))
    }

    /// Failures since it last ran well.
    pub(super) const fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_to_a_limit_and_starts_over_after_a_good_run() {
        let mut backoff = Backoff::new();
        let short = Duration::from_millis(1);
        let waits: Vec<_> = (0..12).map(|_| backoff.failed(short).as_millis()).collect();
        assert_eq!(
            waits,
            [
                100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000, 30_000
            ]
        );
        assert_eq!(backoff.failed(UP), FIRST);
        assert_eq!(backoff.failures(), 1);
        for _ in 0..100 {
            backoff.failed(short);
        }
        assert_eq!(backoff.failed(short), MAX);
    }
}
