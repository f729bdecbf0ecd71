//! What the loop is to do in a state.

use cocoonbox_proto::log::v1::{
    ApprovalPolicy, Effect, ModelChoice, agent_model_failed::Reason, agent_turn_ended,
};

use super::{
    state::State,
    turn::{Failure, Stage, ToolUse, Turn, UseState},
};

/// Attempts at one step before the turn is given up. With the waits between them: about a minute.
pub const ATTEMPTS_MAX: u32 = 8;
/// Wait before the second attempt; doubles with each.
const BACKOFF_BASE_MS: u64 = 500;
const BACKOFF_MAX_MS: u64 = 30_000;
/// A vendor may ask for more patience than that, but nobody watches a turn that sleeps for an hour.
const VENDOR_WAIT_MAX_MS: u64 = 600_000;

/// What the loop is to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Nothing until a prompt comes.
    Idle,
    /// A step is due: send [`super::Command::Advance`], after [`State::retry_after_ms`].
    Advance,
    /// Make this call (or let it go on), and report. While [`State::is_cancelling`]: break it off and
    /// report `ModelFailed`.
    CallModel {
        turn_id: String,
        call_id: String,
        model: ModelChoice,
        attempt: u32,
    },
    /// Run these (or let them go on), and report each. While [`State::is_cancelling`]: stop them and
    /// report `CANCELLED`.
    RunTools(Vec<ToolCall>),
    /// Nothing until a person answers one of these approvals.
    Wait(Vec<String>),
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
    /// The reply ended at the output limit while it wrote this use. If the arguments are malformed,
    /// this is why.
    pub cut: bool,
}

/// The step that is due.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Due {
    StartTurn,
    CallModel {
        attempt: u32,
    },
    CallTools(Vec<usize>),
    Ask(usize),
    CancelTools(Vec<usize>),
    FinishDenied(usize),
    EndTurn {
        outcome: agent_turn_ended::Outcome,
        detail: String,
    },
}

impl State {
    /// Says what the loop is to do.
    pub fn next(&self) -> Next {
        if self.due().is_some() {
            return Next::Advance;
        }
        let Some(turn) = &self.turn else {
            return Next::Idle;
        };
        match &turn.stage {
            Stage::Calling {
                call_id, attempt, ..
            } => Next::CallModel {
                turn_id: turn.turn_id.clone(),
                call_id: call_id.clone(),
                model: self.model.clone(),
                attempt: *attempt,
            },
            Stage::Tools { uses, .. } => tools_next(uses),
            // These are always due.
            Stage::CallDue { .. } | Stage::EndDue { .. } => Next::Advance,
        }
    }

    /// Says how long to wait before the step that is due; 0 = not at all.
    pub fn retry_after_ms(&self) -> u64 {
        match self.turn.as_ref() {
            Some(Turn {
                cancelling: false,
                stage:
                    Stage::CallDue {
                        failure: Some(failure),
                    },
                ..
            }) if failure.retryable && failure.attempt < ATTEMPTS_MAX => failure.wait_ms(),
            _ => 0,
        }
    }

    pub(super) fn due(&self) -> Option<Due> {
        let Some(turn) = &self.turn else {
            return (!self.queued.is_empty()).then_some(Due::StartTurn);
        };
        match &turn.stage {
            Stage::EndDue { .. } | Stage::CallDue { .. } if turn.cancelling => Some(Due::EndTurn {
                outcome: agent_turn_ended::Outcome::Cancelled,
                detail: String::new(),
            }),
            Stage::EndDue { outcome, detail } => Some(Due::EndTurn {
                outcome: *outcome,
                detail: detail.clone(),
            }),
            Stage::CallDue { failure } => Some(self.call_due(turn, failure.as_ref())),
            Stage::Calling { .. } => None,
            Stage::Tools { uses, .. } if uses.iter().any(ToolUse::is_denied) => uses
                .iter()
                .position(ToolUse::is_denied)
                .map(Due::FinishDenied),
            Stage::Tools { uses, .. } if turn.cancelling => {
                let idle = indices(uses, |tool| {
                    !tool.is_finished() && tool.state != UseState::Called
                });
                (!idle.is_empty()).then_some(Due::CancelTools(idle))
            }
            Stage::Tools { uses, .. } => self.tool_due(uses),
        }
    }

    fn call_due(&self, turn: &Turn, failure: Option<&Failure>) -> Due {
        match failure {
            None if turn.steps >= self.steps_max => Due::EndTurn {
                outcome: agent_turn_ended::Outcome::StepLimit,
                detail: format!("{} model calls were made", turn.steps),
            },
            None => Due::CallModel { attempt: 1 },
            Some(failure) if failure.retryable && failure.attempt < ATTEMPTS_MAX => {
                Due::CallModel {
                    attempt: failure.attempt + 1,
                }
            }
            Some(failure) => Due::EndTurn {
                outcome: agent_turn_ended::Outcome::Failed,
                detail: failure.describe(),
            },
        }
    }

    /// Looks at the uses up to the first that all later ones have to wait for.
    fn tool_due(&self, uses: &[ToolUse]) -> Option<Due> {
        let first = uses.iter().position(|tool| !tool.is_finished())?;
        if uses[first].effect == Effect::ReadOnly {
            let group = uses[first..]
                .iter()
                .take_while(|tool| tool.effect == Effect::ReadOnly);
            let end = first + group.count();
            let ready = indices(&uses[..end], |tool| {
                matches!(tool.state, UseState::Waiting | UseState::Allowed)
            });
            return (!ready.is_empty()).then_some(Due::CallTools(ready));
        }
        match uses[first].state {
            UseState::Waiting if self.approval == ApprovalPolicy::AskBeforeEffects => {
                Some(Due::Ask(first))
            }
            UseState::Waiting | UseState::Allowed => Some(Due::CallTools(vec![first])),
            UseState::Asked { .. }
            | UseState::Denied { .. }
            | UseState::Called
            | UseState::Finished { .. } => None,
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
        let doublings = self.attempt.saturating_sub(1).min(16);
        (BACKOFF_BASE_MS << doublings).min(BACKOFF_MAX_MS)
    }

    fn describe(&self) -> String {
        let reason = self.reason.as_str_name();
        if self.detail.is_empty() {
            format!("`{reason}` in attempt {}", self.attempt)
        } else {
            format!("`{reason}` in attempt {}: {}", self.attempt, self.detail)
        }
    }
}

fn tools_next(uses: &[ToolUse]) -> Next {
    let mut called = Vec::new();
    let mut asked = Vec::new();
    for tool in uses {
        match &tool.state {
            UseState::Called => called.push(ToolCall {
                tool_call_id: tool.tool_call_id.clone(),
                name: tool.name.clone(),
                args_json: tool.args_json.clone(),
                effect: tool.effect,
                cut: tool.cut,
            }),
            UseState::Asked { approval_id } => asked.push(approval_id.clone()),
            UseState::Waiting
            | UseState::Allowed
            | UseState::Denied { .. }
            | UseState::Finished { .. } => {}
        }
    }
    if called.is_empty() {
        Next::Wait(asked)
    } else {
        Next::RunTools(called)
    }
}

fn indices(uses: &[ToolUse], wanted: impl Fn(&ToolUse) -> bool) -> Vec<usize> {
    uses.iter()
        .enumerate()
        .filter(|(_, tool)| wanted(tool))
        .map(|(index, _)| index)
        .collect()
}
