//! Waiting until a page has taken in what was done to it.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::{
    cdp::Fault,
    page::Page,
    refusal::Refusal,
    tabs::{Tab, Tabs},
};

/// Nothing new for so long counts as done.
const QUIET: Duration = Duration::from_millis(150);
/// A click that leads to nothing is done after so long.
const FIRST: Duration = Duration::from_millis(120);
/// Longest wait for what a page does after an action.
const SETTLE_MAX: Duration = Duration::from_secs(4);
/// Longest wait for a page that loads.
const LOAD_MAX: Duration = Duration::from_secs(20);
/// No request under way for so long is an idle network.
const IDLE: Duration = Duration::from_millis(500);

impl Page {
    /// Waits until the page is quiet, or long enough. Returns early with what interrupts it: a dialog, a
    /// crash.
    pub(super) async fn settle(&self) -> Option<Refusal> {
        tokio::select! {
            biased;
            refusal = self.interrupted() => Some(refusal),
            () = self.quiet() => None,
        }
    }

    async fn quiet(&self) {
        let began = Instant::now();
        sleep(FIRST).await;
        loop {
            let (is_loading, requests) =
                self.asks(|tab| (!tab.loading.is_empty(), tab.open_requests()));
            let limit = if is_loading { LOAD_MAX } else { SETTLE_MAX };
            if began.elapsed() >= limit || (!is_loading && requests == 0) {
                return;
            }
            let mut changes = self.chromium.changes();
            // What is under way may take longer than anyone waits: then it is looked at again.
            timeout(QUIET, changes.changed()).await.ok();
        }
    }

    /// Waits until no frame loads and no request is under way for half a second.
    pub(super) async fn idle(&self) -> Result<(), Fault> {
        let is_busy = |tab: &Tab| !tab.loading.is_empty() || tab.open_requests() > 0;
        loop {
            self.chromium
                .until(|tabs: &Tabs| {
                    let tab = tabs.by_number.get(&self.number);
                    (!tab.is_some_and(is_busy)).then_some(())
                })
                .await?;
            let began_again = self.chromium.until(|tabs: &Tabs| {
                let tab = tabs.by_number.get(&self.number);
                tab.is_some_and(is_busy).then_some(())
            });
            if timeout(IDLE, began_again).await.is_err() {
                return Ok(());
            }
        }
    }

    fn asks<T: Default>(&self, what: impl FnOnce(&Tab) -> T) -> T {
        self.chromium
            .tabs()
            .by_number
            .get(&self.number)
            .map(what)
            .unwrap_or_default()
    }
}
