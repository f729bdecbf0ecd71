//! Which key a log has: keys lie in the database as well, so it may have to be asked.

use std::sync::Arc;

use cocoonbox_events::{
    AppendError, Keyring, LogId, LogKey, Sealing,
    sealing::{self, fitting},
};

use super::directory::Log;

/// How this log is sealed, if the keyring has the key it was sealed with from the start.
pub(crate) async fn sealing(keys: &Arc<dyn Keyring>, log: &Arc<Log>) -> Sealing {
    let found = match keys.log_key_at_hand(log.id(), &log.opened.owner) {
        Some(found) => found,
        None => asked(keys, log.id(), log.opened.owner.clone()).await,
    };
    fitting(found, log.key_check)
}

/// Asks for a key on a thread that may wait.
pub(crate) async fn asked(keys: &Arc<dyn Keyring>, log: LogId, owner: String) -> Sealing {
    let keys = keys.clone();
    let asking = tokio::task::spawn_blocking(move || keys.log_key(log, &owner));
    asking.await.unwrap_or(Sealing::Unavailable)
}

pub(crate) async fn writing_key(
    keys: &Arc<dyn Keyring>,
    log: &Arc<Log>,
) -> Result<Option<LogKey>, AppendError> {
    sealing::writing_key(sealing(keys, log).await)
}
