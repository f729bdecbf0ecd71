//! What a loop waits for: people, the clock, a budget, a vendor.

use std::time::Duration;

use cocoonbox_commands::agent::{Command, Stage, Waiting};
use tokio::time::{Instant, sleep};

use super::{End, TurnLoop};

/// Between two looks at the clock while an approval waits.
const CLOCK_LOOK: Duration = Duration::from_secs(2);

impl TurnLoop {
    /// Waits for a person, or until the time of an approval is over. Clocks jump and boxes sleep, so the
    /// time is looked at now and then.
    pub(super) async fn wait(&mut self, waiting: &Waiting) -> Result<(), End> {
        self.shared.roster.settle();
        let now_us = self.shared.journal.now_us();
        let Some(next) = waiting.expires_next() else {
            return self.woken(None).await;
        };
        if next.expires_at_us <= now_us {
            let approval_id = next.approval_id.clone();
            return self
                .execute(&Command::Expire {
                    approval_id,
                    now_us,
                })
                .await;
        }
        let left_us = u64::try_from(next.expires_at_us - now_us).unwrap_or(0);
        let left = Duration::from_micros(left_us).min(CLOCK_LOOK);
        self.woken(Some(left)).await
    }

    /// Waits until a budget may have room again, then asks for the call again.
    pub(super) async fn wait_for_budget(&mut self, retry_after_ms: u64) -> Result<(), End> {
        self.shared.roster.settle();
        let failed = self.fold.last;
        let until = match self.budget {
            Some((event, until)) if event == failed => until,
            _ => Instant::now() + Duration::from_millis(retry_after_ms),
        };
        self.budget = Some((failed, until));
        if Instant::now() < until {
            return self.woken(Some(until - Instant::now())).await;
        }
        self.instruct().await?;
        self.write_step().await
    }

    /// Waits until somebody rings, or for so long.
    pub(super) async fn woken(&self, at_most: Option<Duration>) -> Result<(), End> {
        let time_is_over = async {
            match at_most {
                Some(time) => sleep(time).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.shared.stop.cancelled() => Err(End::Stopped),
            () = self.wake.notified() => Ok(()),
            () = time_is_over => Ok(()),
        }
    }

    pub(super) fn retry_at(&mut self) -> Option<Instant> {
        let wait_ms = self.fold.state.retry_after_ms();
        let turn = self.fold.state.turn.as_ref()?;
        let Stage::CallDue {
            failure: Some(failure),
        } = &turn.stage
        else {
            return None;
        };
        if wait_ms == 0 {
            return None;
        }
        let attempt = (turn.turn_id.clone(), turn.steps, failure.attempt);
        let until = match &self.retry {
            Some((waiting, until)) if *waiting == attempt => *until,
            _ => Instant::now() + Duration::from_millis(wait_ms + jitter(wait_ms)),
        };
        self.retry = Some((attempt, until));
        Some(until)
    }
}

/// Up to a quarter more, so that boxes that failed together do not come back together.
fn jitter(wait_ms: u64) -> u64 {
    let mut random = [0; 8];
    match getrandom::fill(&mut random) {
        Ok(()) => u64::from_le_bytes(random) % (wait_ms / 4 + 1),
        Err(_) => 0,
    }
}
