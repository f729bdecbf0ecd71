//! What the loop is to do in a state.

use std::sync::Arc;

use cocoonbox_proto::log::v1::{Effect, ModelChoice, ModelRole, Risk, agent_model_failed::Reason};

use super::{
    due::Due,
    entry::Entry,
    state::State,
    turn::{Failure, Stage, ToolUse, Turn, UseState},
};

/// Attempts at one step with one model before another one is tried or the turn is given up. With the
/// waits between them: about a minute.
pub const ATTEMPTS_MAX: u32 = 8;
/// Wait before the second attempt; doubles with each.
const BACKOFF_BASE_MS: u64 = 500;
const BACKOFF_MAX_MS: u64 = 30_000;
/// A vendor may ask for more patience than that, but nobody watches a turn that sleeps for an hour.
const VENDOR_WAIT_MAX_MS: u64 = 600_000;
/// Between two looks at whether a budget has room again. A prompt or another model does not wait for it.
const BUDGET_WAIT_MS: u64 = 300_000;
const BUDGET_WAIT_MAX_MS: u64 = 3_600_000;

/// What the loop is to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Nothing until a prompt comes.
    Idle,
    /// A step is due: send [`super::Command::Advance`], after [`State::retry_after_ms`].
    Advance,
    /// Tell this model what [`State::told`] has (or let it go on), and report. While
    /// [`State::is_cancelling`]: break it off and report `ModelFailed`.
    CallModel {
        turn_id: String,
        call_id: String,
        /// For a summary no tools are offered, and nothing is said before the conversation.
        role: ModelRole,
        model: ModelChoice,
        attempt: u32,
    },
    /// Run these (or let them go on), and report each. While [`State::is_cancelling`]: stop them and
    /// report `CANCELLED`.
    RunTools(Vec<ToolCall>),
    /// Nothing until a person answers one of these, or one expires: then send
    /// [`super::Command::Expire`].
    Wait(Waiting),
    /// The budget is used up. Send [`super::Command::Advance`] after so long, and look again when
    /// something happens.
    WaitBudget { retry_after_ms: u64 },
}

/// A tool call that is written and whose result is owed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// Unique within the conversation: the idempotency key.
    pub tool_call_id: String,
    pub name: String,
    /// JSON as the model wrote it. Malformed: answer `ERROR` and say so.
    pub args_json: String,
    pub effect: Effect,
    pub risk: Risk,
    /// The reply ended at the output limit while it wrote this use. If the arguments are malformed,
    /// this is why.
    pub cut: bool,
}

/// What a person is asked at the moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    pub approvals: Vec<PendingApproval>,
    pub questions: Vec<PendingQuestion>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingApproval {
    pub approval_id: String,
    pub tool_call_id: String,
    pub tool_name: String,
    pub args_json: String,
    pub risk: Risk,
    /// Microseconds since the epoch; 0 = never.
    pub expires_at_us: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingQuestion {
    pub question_id: String,
    pub tool_call_id: String,
    pub question: String,
    pub choices: Vec<String>,
}

impl Waiting {
    pub fn is_empty(&self) -> bool {
        self.approvals.is_empty() && self.questions.is_empty()
    }

    /// Returns the approval that expires next, of those that do.
    pub fn expires_next(&self) -> Option<&PendingApproval> {
        let expiring = self.approvals.iter().filter(|one| one.expires_at_us != 0);
        expiring.min_by_key(|one| one.expires_at_us)
    }
}

impl State {
    /// Says what the loop is to do.
    pub fn next(&self) -> Next {
        if let Some(retry_after_ms) = self.budget_wait() {
            return Next::WaitBudget { retry_after_ms };
        }
        if self.due().is_some() {
            return Next::Advance;
        }
        let Some(turn) = &self.turn else {
            return Next::Idle;
        };
        match &turn.stage {
            Stage::Calling {
                call_id,
                role,
                model,
                attempt,
                ..
            } => Next::CallModel {
                turn_id: turn.turn_id.clone(),
                call_id: call_id.clone(),
                role: *role,
                model: model.clone(),
                attempt: *attempt,
            },
            Stage::Tools { uses, .. } => {
                let called = called(uses);
                if called.is_empty() {
                    Next::Wait(self.waiting())
                } else {
                    Next::RunTools(called)
                }
            }
            // These are always due.
            Stage::CallDue { .. } | Stage::Compacting { .. } | Stage::EndDue { .. } => {
                Next::Advance
            }
        }
    }

    /// Returns what the call under way tells its model: the conversation, or what a summary is asked of.
    pub fn told(&self) -> Vec<Arc<Entry>> {
        match self.turn.as_ref().map(|turn| &turn.stage) {
            Some(Stage::Calling { model, entries, .. }) if *entries > 0 => {
                self.summary_asked(model, *entries)
            }
            _ => self.conversation(),
        }
    }

    /// Returns the call that the step which is due begins, if it may destroy what is there: files are saved first.
    /// Risks are ordered, and one that costs money may do that besides.
    pub fn destroys_next(&self) -> Option<&ToolUse> {
        self.calls_due().find(|tool| tool.risk >= Risk::Destructive)
    }

    /// The calls that the step which is due begins.
    pub(super) fn calls_due(&self) -> impl Iterator<Item = &ToolUse> {
        let indices = match self.due() {
            Some(Due::CallTools(indices)) => indices,
            _ => Vec::new(),
        };
        let uses = self.turn.as_ref().map(Turn::uses).unwrap_or_default();
        indices.into_iter().filter_map(|index| uses.get(index))
    }

    /// Returns what a person is asked at the moment.
    pub fn waiting(&self) -> Waiting {
        let mut waiting = Waiting::default();
        for tool in self.turn.iter().flat_map(Turn::uses) {
            match &tool.state {
                UseState::Asked {
                    approval_id,
                    expires_at_us,
                } => waiting.approvals.push(PendingApproval {
                    approval_id: approval_id.clone(),
                    tool_call_id: tool.tool_call_id.clone(),
                    tool_name: tool.name.clone(),
                    args_json: tool.args_json.clone(),
                    risk: tool.risk,
                    expires_at_us: *expires_at_us,
                }),
                UseState::Questioned {
                    question_id,
                    question,
                    choices,
                } => waiting.questions.push(PendingQuestion {
                    question_id: question_id.clone(),
                    tool_call_id: tool.tool_call_id.clone(),
                    question: question.clone(),
                    choices: choices.clone(),
                }),
                UseState::Waiting
                | UseState::Allowed { .. }
                | UseState::Denied { .. }
                | UseState::Answered { .. }
                | UseState::Called
                | UseState::Finished { .. } => {}
            }
        }
        waiting
    }

    /// Says how long to wait before the step that is due; 0 = not at all.
    pub fn retry_after_ms(&self) -> u64 {
        match self.failure() {
            Some(failure) if failure.reason == Reason::Budget => self.budget_wait().unwrap_or(0),
            Some(failure) if failure.tries > 0 => failure.wait_ms(),
            _ => 0,
        }
    }

    fn budget_wait(&self) -> Option<u64> {
        let failure = self.failure()?;
        (failure.reason == Reason::Budget && !failure.woken).then(|| match failure.retry_after_ms {
            0 => BUDGET_WAIT_MS,
            asked => asked.min(BUDGET_WAIT_MAX_MS),
        })
    }

    fn failure(&self) -> Option<&Failure> {
        match self.turn.as_ref()? {
            Turn {
                cancelling: false,
                stage: Stage::CallDue { failure },
                ..
            } => failure.as_ref(),
            _ => None,
        }
    }
}

impl Failure {
    fn wait_ms(&self) -> u64 {
        if self.retry_after_ms > 0 {
            return self.retry_after_ms.min(VENDOR_WAIT_MAX_MS);
        }
        if self.reason == Reason::AgentRestarted && self.attempt == 1 {
            // The vendor did nothing wrong. More than once in a step it may be the call that does it.
            return 0;
        }
        let doublings = self.tries.saturating_sub(1).min(16);
        (BACKOFF_BASE_MS << doublings).min(BACKOFF_MAX_MS)
    }

    pub(super) fn describe(&self) -> String {
        let reason = self.reason.as_str_name();
        if self.detail.is_empty() {
            format!("`{reason}` in attempt {}", self.attempt)
        } else {
            format!("`{reason}` in attempt {}: {}", self.attempt, self.detail)
        }
    }
}

fn called(uses: &[ToolUse]) -> Vec<ToolCall> {
    let called = uses.iter().filter(|tool| tool.state == UseState::Called);
    called
        .map(|tool| ToolCall {
            tool_call_id: tool.tool_call_id.clone(),
            name: tool.name.clone(),
            args_json: tool.args_json.clone(),
            effect: tool.effect,
            risk: tool.risk,
            cut: tool.cut,
        })
        .collect()
}
