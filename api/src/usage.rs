//! The ledger: every model call, written into its user's account log.

mod awake;
mod callers;
mod report;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use cocoonbox_events::{Append, AppendError, CommandId, Expect, NewEvent, StreamName, UsageEvent};
use cocoonbox_proto::log::v1::{BudgetScope, UsageModelCalled};
use prost::Message as _;

use crate::{
    budget::{Books, of_box},
    door::Channel,
    gateway::{Ask, Hold, Refusal, UsageSink},
    metrics::{GATEWAY_CALLS, GATEWAY_TOKENS},
};

pub use awake::awake;
pub use callers::Callers;
pub use report::{BadReport, Report};

/// A full disk or a full queue passes; a call that was paid for must not be forgotten at once. All pauses
/// together are below a minute, since the process does not stop before. What is lost then is the record; a
/// reservation that stays unsettled counts as used.
const ATTEMPTS_MAX: u32 = 15;
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Writes what was used, and settles it.
pub struct Ledger {
    pub books: Arc<Books>,
}

#[async_trait]
impl UsageSink for Ledger {
    async fn admits(&self, by: &BudgetScope, channel: &Channel) -> Result<(), Refusal> {
        self.books.admits(by, channel).await
    }

    async fn reserve(&self, ask: Ask, channel: &Channel) -> Result<Option<Hold>, Refusal> {
        self.books.reserve(ask, channel).await
    }

    async fn settle(&self, mut usage: UsageModelCalled, hold: Option<Hold>, channel: &Channel) {
        let mut events = Vec::new();
        // Of a call that was never made there is only a reservation to give back.
        if !usage.vendor.is_empty() {
            count(&usage);
            usage.cost_micros = self.books.cost(&usage);
            let (today, _) = cocoonbox_events::day(self.books.clock.now_us());
            let Ok(stream) = StreamName::new(format!("usage/{today}")) else {
                return;
            };
            events.push(NewEvent {
                stream,
                payload: UsageEvent::ModelCalled(usage.clone()).into(),
            });
        }
        let command = match &hold {
            Some(hold) => {
                events.extend(Books::settlement(hold, &usage, &channel.user_id));
                CommandId::derive(hold.id.as_bytes(), "settle")
            }
            None => CommandId(self.books.ids.draw()),
        };
        if events.is_empty() {
            return;
        }
        let append = Append {
            command,
            digest: *blake3::hash(&usage.encode_to_vec()).as_bytes(),
            // What was used is a fact, whatever else was written meanwhile.
            expect: events
                .iter()
                .map(|event| (event.stream.clone(), Expect::Any))
                .collect(),
            events,
            actor: of_box(channel),
            cause: None,
        };
        self.write(append, channel).await;
    }

    async fn record(&self, usage: UsageModelCalled, channel: &Channel) {
        self.settle(usage, None, channel).await;
    }
}

impl Ledger {
    async fn write(&self, append: Append, channel: &Channel) {
        let mut pause = PAUSE;
        for attempt in 1..=ATTEMPTS_MAX {
            let log = match self.books.accounts.log_of(&channel.user_id) {
                Ok(log) => log,
                Err(error) => {
                    tracing::error!(%error, "a model call has no account to be written to");
                    return;
                }
            };
            match self.books.store.append(log, append.clone()).await {
                Ok(_) => return,
                // The account went on in another log just then.
                Err(AppendError::Moved { .. }) if attempt < ATTEMPTS_MAX => {}
                Err(error) if error.is_retryable() && attempt < ATTEMPTS_MAX => {
                    tokio::time::sleep(pause).await;
                    pause = PAUSE_MAX.min(pause * 2);
                }
                Err(error) => {
                    tracing::error!(%error, box_id = channel.box_id, "a model call is not in the log");
                    return;
                }
            }
        }
    }
}

fn count(usage: &UsageModelCalled) {
    let vendor = match usage.vendor.as_str() {
        "anthropic" => "anthropic",
        "openai" => "openai",
        _ => "other",
    };
    let outcome = match usage.status {
        200..300 if usage.complete => "complete",
        200..300 => "cut",
        0 => "unreached",
        _ => "refused",
    };
    metrics::counter!(GATEWAY_CALLS, "vendor" => vendor, "outcome" => outcome).increment(1);
    for (direction, tokens) in [("in", usage.input_tokens), ("out", usage.output_tokens)] {
        metrics::counter!(GATEWAY_TOKENS, "vendor" => vendor, "direction" => direction)
            .increment(tokens);
    }
}
