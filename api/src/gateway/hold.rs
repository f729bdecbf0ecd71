//! Room for a call in the user's budgets: asked for before the vendor has all of it, settled after.

use std::sync::{Arc, Weak};

use async_trait::async_trait;
use cocoonbox_commands::budget::Reservation;
use cocoonbox_proto::log::v1::{BudgetScope, UsageModelCalled};
use tokio::sync::oneshot;

use super::call::Writer;
use super::outbound::{Estimate, Sending};
use crate::door::Channel;

/// What a call asks for. The box comes from the channel; the agent and the model are the box's word.
#[derive(Clone, Debug)]
pub struct Ask {
    pub by: BudgetScope,
    pub model: String,
    pub estimate: Estimate,
}

/// Room that was found. It counts as used until it is settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    pub id: String,
    pub reservation: Reservation,
}

/// Why a call is not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// For a person: which budget, what was used of it, and what its limit is.
    pub text: String,
    pub retry_after_s: u64,
    /// Whether a budget says no; otherwise it could not be found out.
    pub is_budget: bool,
}

/// Writes down what was used, and says whether more may be.
#[async_trait]
pub trait UsageSink: Send + Sync + 'static {
    /// Says no where no call of this scope has room, however small, so that no vendor is troubled.
    async fn admits(&self, by: &BudgetScope, channel: &Channel) -> Result<(), Refusal> {
        let (_, _) = (by, channel);
        Ok(())
    }

    /// Finds room for a call; `None` where no budget speaks of it. Is carried on to its end even if the caller
    /// leaves.
    async fn reserve(&self, ask: Ask, channel: &Channel) -> Result<Option<Hold>, Refusal> {
        let (_, _) = (ask, channel);
        Ok(None)
    }

    /// Takes what a call used in the place of its hold.
    ///
    /// Is called once for each call that was sent to a vendor, whatever became of it, after its end.
    /// Nobody waits for it but [`super::Gateway::drained`]; it must deal with its own errors.
    async fn settle(&self, usage: UsageModelCalled, hold: Option<Hold>, channel: &Channel) {
        drop(hold);
        self.record(usage, channel).await;
    }

    /// Records a call. The `box_id` comes from the channel; `call_id`, `agent_id`, `role` and `model` are the
    /// box's word.
    async fn record(&self, usage: UsageModelCalled, channel: &Channel);
}

/// Asks for one call.
#[derive(Clone)]
pub(crate) struct Asker {
    pub(crate) by: BudgetScope,
    pub(crate) channel: Channel,
    pub(crate) writer: Writer,
}

impl std::fmt::Debug for Asker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Asker")
            .field("by", &self.by)
            .finish_non_exhaustive()
    }
}

impl Asker {
    /// Answers whether the call may be made. The asking is a task of its own: whoever leaves in the middle
    /// must not leave a reservation that nobody settles.
    pub(crate) fn ask(&self, sending: &Arc<Sending>) -> oneshot::Receiver<bool> {
        let (answer, receiver) = oneshot::channel();
        let ask = Ask {
            by: self.by.clone(),
            model: super::call::readable(&sending.model()),
            estimate: sending.estimate(),
        };
        let sending = Arc::downgrade(sending);
        let (channel, writer) = (self.channel.clone(), self.writer.clone());
        let asked = async move {
            let may = match writer.sink.reserve(ask, &channel).await {
                Ok(None) => true,
                Ok(Some(hold)) => match leave(&sending, hold) {
                    Ok(()) => true,
                    Err(hold) => {
                        give_back(&writer, hold, &channel).await;
                        false
                    }
                },
                Err(refusal) => {
                    if let Some(sending) = sending.upgrade() {
                        sending.refuse(refusal);
                    }
                    false
                }
            };
            // Who does not listen any more has left.
            let _left = answer.send(may);
        };
        self.writer.tasks.spawn(asked);
        receiver
    }
}

fn leave(sending: &Weak<Sending>, hold: Hold) -> Result<(), Hold> {
    match sending.upgrade() {
        Some(sending) => sending.hold(hold),
        None => Err(hold),
    }
}

/// The vendor has not got the end of the request, so it was not asked.
async fn give_back(writer: &Writer, hold: Hold, channel: &Channel) {
    let unused = UsageModelCalled {
        box_id: channel.box_id.clone(),
        reservation_id: hold.id.clone(),
        ..UsageModelCalled::default()
    };
    writer.sink.settle(unused, Some(hold), channel).await;
}
