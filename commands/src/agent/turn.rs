//! One turn: from prompts to an ending.

use std::collections::BTreeMap;

use cocoonbox_proto::log::v1::{
    Block, Effect, agent_model_failed::Reason, agent_output_streamed::Part,
    agent_tool_finished::Outcome, agent_turn_ended,
};

use super::state::ToolResult;

/// A turn under way.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    pub turn_id: String,
    /// Steps begun. A step is one model call, however often it is tried.
    pub steps: u32,
    pub cancelling: bool,
    pub stage: Stage,
    /// How approvals of this turn were answered.
    pub decided: BTreeMap<String, bool>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Stage {
    /// `model_called` is due: for the next step, or for another attempt after a failure.
    CallDue { failure: Option<Failure> },
    /// `model_called` is written, a reply or a failure is owed.
    Calling {
        call_id: String,
        attempt: u32,
        partial: Partial,
    },
    /// The reply asks for tools. It enters the conversation once each has its result.
    Tools {
        call_id: String,
        blocks: Vec<Block>,
        uses: Vec<ToolUse>,
    },
    /// `turn_ended` is due.
    EndDue {
        outcome: agent_turn_ended::Outcome,
        detail: String,
    },
}

/// Why a model call has to be made again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub reason: Reason,
    pub detail: String,
    pub retryable: bool,
    /// What the vendor asked for; 0 = nothing.
    pub retry_after_ms: u64,
    /// The attempt that failed, from 1.
    pub attempt: u32,
}

/// What the call under way has put out so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partial {
    pub blocks: BTreeMap<u32, PartialBlock>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartialBlock {
    pub part: Part,
    /// Bytes streamed so far.
    pub bytes: u64,
    /// The text of them, as far as it was not erased.
    pub text: String,
}

/// One tool use of the reply under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolUse {
    /// Unique within the conversation.
    pub tool_call_id: String,
    pub name: String,
    /// JSON as the model wrote it; may be malformed.
    pub args_json: String,
    pub effect: Effect,
    /// The reply ended at the output limit while it wrote this use: the arguments may be cut.
    pub cut: bool,
    pub state: UseState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UseState {
    Waiting,
    /// A person is asked.
    Asked {
        approval_id: String,
    },
    /// A person said yes.
    Allowed,
    /// A person said no; `tool_finished` is written with it or due.
    Denied {
        comment: String,
    },
    /// `tool_called` is written, the result is owed.
    Called,
    Finished {
        outcome: Outcome,
        content: String,
    },
}

impl Turn {
    pub(super) fn new(turn_id: String) -> Self {
        Self {
            turn_id,
            steps: 0,
            cancelling: false,
            stage: Stage::CallDue { failure: None },
            decided: BTreeMap::new(),
        }
    }

    /// Returns the tool uses of the reply under way, in its order.
    pub fn uses(&self) -> &[ToolUse] {
        match &self.stage {
            Stage::Tools { uses, .. } => uses,
            Stage::CallDue { .. } | Stage::Calling { .. } | Stage::EndDue { .. } => &[],
        }
    }
}

impl ToolUse {
    pub fn is_finished(&self) -> bool {
        matches!(self.state, UseState::Finished { .. })
    }

    pub(super) fn is_denied(&self) -> bool {
        matches!(self.state, UseState::Denied { .. })
    }

    pub(super) fn result(&self) -> Option<ToolResult> {
        match &self.state {
            UseState::Finished { outcome, content } => Some(ToolResult {
                tool_call_id: self.tool_call_id.clone(),
                outcome: *outcome,
                content: content.clone(),
            }),
            UseState::Waiting
            | UseState::Asked { .. }
            | UseState::Allowed
            | UseState::Denied { .. }
            | UseState::Called => None,
        }
    }
}

impl Stage {
    /// The name that messages use.
    pub fn name(&self) -> &'static str {
        match self {
            Self::CallDue { .. } => "call_due",
            Self::Calling { .. } => "calling",
            Self::Tools { .. } => "tools",
            Self::EndDue { .. } => "end_due",
        }
    }
}
