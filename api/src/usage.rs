//! The ledger: every model call, written into its user's account log.

use std::sync::Arc;

use async_trait::async_trait;
use cocoonbox_events::{Append, CommandId, Expect, Ids, NewEvent, Store, StreamName, UsageEvent};
use cocoonbox_proto::log::v1::{Actor, UsageModelCalled, actor};
use prost::Message as _;
use time::OffsetDateTime;

use crate::{accounts::Accounts, door::Channel, gateway::UsageSink};

/// A full disk or a full queue passes; a call that was paid for must not be forgotten at once.
const ATTEMPTS_MAX: u32 = 5;
const PAUSE: std::time::Duration = std::time::Duration::from_millis(200);

/// Writes what was used.
pub struct Ledger {
    pub accounts: Arc<Accounts>,
    pub store: Arc<dyn Store>,
    pub ids: Arc<dyn Ids>,
}

#[async_trait]
impl UsageSink for Ledger {
    async fn record(&self, usage: UsageModelCalled, channel: &Channel) {
        let log = match self.accounts.log_of(&channel.user_id) {
            Ok(log) => log,
            Err(error) => {
                tracing::error!(%error, "a model call has no account to be written to");
                return;
            }
        };
        let Ok(stream) = StreamName::new(format!("usage/{}", today())) else {
            return;
        };
        let append = Append {
            command: CommandId(self.ids.draw()),
            digest: *blake3::hash(&usage.encode_to_vec()).as_bytes(),
            expect: vec![(stream.clone(), Expect::Any)],
            events: vec![NewEvent {
                stream,
                payload: UsageEvent::ModelCalled(usage).into(),
            }],
            actor: Actor {
                kind: actor::Kind::Box.into(),
                id: channel.box_id.clone(),
            },
            cause: None,
        };
        for attempt in 1..=ATTEMPTS_MAX {
            match self.store.append(log, append.clone()).await {
                Ok(_) => return,
                Err(error) if error.is_retryable() && attempt < ATTEMPTS_MAX => {
                    tokio::time::sleep(PAUSE * attempt).await;
                }
                Err(error) => {
                    tracing::error!(%error, box_id = channel.box_id, "a model call is not in the log");
                    return;
                }
            }
        }
    }
}

/// The day in UTC, as it stands in a stream's name.
fn today() -> String {
    let now = OffsetDateTime::now_utc();
    format!(
        "{:04}-{:02}-{:02}",
        now.year(),
        u8::from(now.month()),
        now.day()
    )
}
