//! Revocations by other api processes: what goes on here with a revoked token, or the secret of a share that has ended,
//! ends here too.
//!
//! Calls that begin are checked against the log. A stream that began before is ended by whoever sees the
//! revocation in the account log, within the time of a doorbell, or a second without.

use std::{collections::HashMap, sync::Arc, time::Duration};

use cocoonbox_events::{
    Kind, LogId, LogInfo, LogKind, Payload, ReadError, Store, UserEvent, limits::PAGE_EVENTS_MAX,
};
use tokio_util::sync::CancellationToken;

use crate::{accounts::Accounts, shares::Shares};

/// A doorbell can be lost; the logs are looked at this often anyway.
const SWEEP: Duration = Duration::from_secs(1);

/// Follows every account log.
pub struct Revocations {
    store: Arc<dyn Store>,
    accounts: Arc<Accounts>,
    shares: Arc<Shares>,
    cursors: HashMap<LogId, u64>,
}

impl Revocations {
    /// Starts behind what is there: nothing goes on yet.
    pub fn new(store: Arc<dyn Store>, accounts: Arc<Accounts>, shares: Arc<Shares>) -> Self {
        let logs = store.logs().into_iter();
        let cursors = logs.map(|log| (log.id, log.tail.pos)).collect();
        Self {
            store,
            accounts,
            shares,
            cursors,
        }
    }

    pub async fn run(mut self, stop: CancellationToken) {
        let mut bell = self.store.any_doorbell();
        while !stop.is_cancelled() {
            bell.mark_unchanged();
            for log in self.store.logs() {
                if log.kind == LogKind::Account
                    && let Err(error) = self.follow(&log).await
                {
                    // The next look tries again.
                    tracing::debug!(log = %log.id, %error, "revocations cannot be read");
                    break;
                }
            }
            tokio::select! {
                () = stop.cancelled() => {}
                _ = tokio::time::timeout(SWEEP, bell.changed()) => {}
            }
        }
    }

    async fn follow(&mut self, log: &LogInfo) -> Result<(), ReadError> {
        let cursor = self.cursors.entry(log.id).or_default();
        while *cursor < log.tail.pos {
            let page = self.store.read(log.id, *cursor, PAGE_EVENTS_MAX).await?;
            let Some(last) = page.events.last() else {
                break;
            };
            *cursor = last.pos;
            for event in &page.events {
                let stream = event.stream.as_str();
                if !["user/", "share/"].iter().any(|of| stream.starts_with(of)) {
                    continue;
                }
                match event.payload() {
                    Ok(Some(Payload::User(UserEvent::TokenRevoked(token)))) => {
                        self.accounts.end_token(&token.token_id);
                    }
                    Ok(Some(Payload::Share(event))) => self.shares.follow(&event),
                    // Whoever was deleted has no key any more: of this event only the kind can be read.
                    _ if event.kind == Kind::UserDeleted.number() => {
                        self.accounts.end_user(&log.owner);
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }
}
