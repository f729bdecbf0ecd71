//! Whether a box that runs may be put to sleep for being idle.

use std::time::Duration;

use cocoonbox_commands::boxes::Command;
use cocoonbox_events::LogId;
use tokio::time::Instant;

use super::{Fault, Worker};

/// A box that has something to do is asked again after this.
const ASK_AGAIN: Duration = Duration::from_secs(10);

/// Since when nothing happened in a box, as far as its log tells.
pub(super) struct Stillness {
    tail: (Option<LogId>, u64),
    since: Instant,
    ask_next: Instant,
}

impl Stillness {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self {
            tail: (None, 0),
            since: now,
            ask_next: now,
        }
    }

    /// Returns for how long the log has ended where it does.
    fn note(&mut self, tail: (Option<LogId>, u64)) -> Duration {
        if self.tail != tail {
            self.tail = tail;
            self.since = Instant::now();
        }
        self.since.elapsed()
    }
}

impl Worker {
    /// Asks that the box sleeps, if for long enough nobody attended to it, nothing was written in it, no agent and no
    /// command has anything to do, and nobody keeps it awake. A box that does not answer is left alone.
    pub(super) async fn sleep_if_idle(&mut self, still: &mut Stillness) -> Result<(), Fault> {
        let Some(after) = self.context.idle_after else {
            return Ok(());
        };
        let log = self.fold.state.box_log;
        let tail = log.and_then(|log| self.context.store.tail(log).ok());
        let quiet = still.note((log, tail.map_or(0, |tail| tail.pos)));
        let Some(attached) = &self.attached else {
            return Ok(());
        };
        let channel = &attached.channel;
        let attention = self.context.channels.attention(&channel.box_id);
        let absent = attention.absent_for();
        let is_awake = self.fold.state.awake_until_ms > self.context.clock.now_us() / 1_000;
        let is_still = quiet >= after && absent.is_some_and(|absent| absent >= after);
        if is_awake || !is_still || Instant::now() < still.ask_next {
            return Ok(());
        }
        still.ask_next = Instant::now() + ASK_AGAIN;
        let busy = channel.busy().await;
        if busy.is_none_or(|busy| busy.agents > 0 || busy.jobs > 0) {
            return Ok(());
        }
        tracing::info!(
            box_id = channel.box_id,
            "a box is put to sleep: nothing happens in it"
        );
        let operation_id = format!("op-{}", self.context.ids.draw().simple());
        let reason = "idle".to_owned();
        self.report(Command::Hibernate {
            operation_id,
            reason,
        })
        .await
    }
}
