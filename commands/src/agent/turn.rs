//! One turn: from prompts to an ending.

use std::collections::{BTreeMap, BTreeSet};

use cocoonbox_proto::log::v1::{
    Block, Effect, Image, ModelChoice, ModelRole, Risk, agent_model_failed::Reason,
    agent_output_streamed::Part, agent_tool_finished::Outcome, agent_turn_ended,
};

use super::entry::ToolResult;

/// A turn under way.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    pub turn_id: String,
    /// Steps begun. A step is one model call, however often it is tried.
    pub steps: u32,
    pub cancelling: bool,
    pub stage: Stage,
    /// How approvals of this turn were answered. One that expired was denied.
    pub decided: BTreeMap<String, bool>,
    /// Questions of this turn that were answered.
    pub(super) answered: BTreeSet<String>,
    /// Tries of the model in use that failed, in this step.
    pub(super) tries: u32,
    /// Models that this step has given up on.
    pub(super) given_up: Vec<ModelChoice>,
    /// The same, kept while a summary is asked for, which gives up on models of its own.
    pub(super) shelved: Vec<ModelChoice>,
    pub(super) squeezed: Squeezed,
}

/// What was done in this step to make the conversation fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Squeezed {
    #[default]
    Not,
    /// A model has summed it up.
    Summed,
    /// It was cut down to what is short in it.
    Cut,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Stage {
    /// `model_called` is due: for the next step, or for another attempt after a failure.
    CallDue { failure: Option<Failure> },
    /// `model_called` is written, a reply or a failure is owed.
    Calling {
        call_id: String,
        role: ModelRole,
        model: ModelChoice,
        attempt: u32,
        partial: Partial,
        /// Entries of what is told that a summary is asked for; 0 = it is an ordinary call.
        entries: usize,
    },
    /// `compacted` is due.
    Compacting {
        call_id: String,
        summary: String,
        entries: usize,
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
    pub role: ModelRole,
    pub reason: Reason,
    pub detail: String,
    pub retryable: bool,
    /// What the vendor asked for; 0 = nothing.
    pub retry_after_ms: u64,
    /// Attempts at this step that count, the last one included. A call that the budget did not allow was
    /// none.
    pub attempt: u32,
    /// Those of them that were made to the model that is tried again; 0 = another one is tried.
    pub tries: u32,
    /// Something has happened since that may be reason enough not to wait.
    pub woken: bool,
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
#[derive(Clone, Debug, PartialEq)]
pub struct ToolUse {
    /// Unique within the conversation.
    pub tool_call_id: String,
    pub name: String,
    /// JSON as the model wrote it; may be malformed.
    pub args_json: String,
    pub effect: Effect,
    pub risk: Risk,
    /// The reply ended at the output limit while it wrote this use: the arguments may be cut.
    pub cut: bool,
    pub state: UseState,
}

#[derive(Clone, Debug, PartialEq)]
pub enum UseState {
    Waiting,
    /// A person is asked whether it may run.
    Asked {
        approval_id: String,
        /// 0 = never.
        expires_at_us: i64,
    },
    /// A person said yes.
    Allowed {
        approval_id: String,
    },
    /// The answer was no; `tool_finished` is written with it or due.
    Denied {
        /// What the model is told.
        content: String,
    },
    /// It is a question to a person.
    Questioned {
        question_id: String,
        question: String,
        choices: Vec<String>,
    },
    /// A person has answered; `tool_finished` is written with it or due.
    Answered {
        answer: String,
    },
    /// `tool_called` is written, the result is owed.
    Called,
    Finished {
        outcome: Outcome,
        content: String,
        images: Vec<Image>,
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
            answered: BTreeSet::new(),
            tries: 0,
            given_up: Vec::new(),
            shelved: Vec::new(),
            squeezed: Squeezed::Not,
        }
    }

    /// Returns the tool uses of the reply under way, in its order.
    pub fn uses(&self) -> &[ToolUse] {
        match &self.stage {
            Stage::Tools { uses, .. } => uses,
            Stage::CallDue { .. }
            | Stage::Calling { .. }
            | Stage::Compacting { .. }
            | Stage::EndDue { .. } => &[],
        }
    }
}

impl ToolUse {
    pub fn is_finished(&self) -> bool {
        matches!(self.state, UseState::Finished { .. })
    }

    pub(super) fn result(&self) -> Option<ToolResult> {
        match &self.state {
            UseState::Finished {
                outcome,
                content,
                images,
            } => Some(ToolResult {
                tool_call_id: self.tool_call_id.clone(),
                outcome: *outcome,
                content: content.clone(),
                images: images.clone(),
            }),
            UseState::Waiting
            | UseState::Asked { .. }
            | UseState::Allowed { .. }
            | UseState::Denied { .. }
            | UseState::Questioned { .. }
            | UseState::Answered { .. }
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
            Self::Compacting { .. } => "compacting",
            Self::Tools { .. } => "tools",
            Self::EndDue { .. } => "end_due",
        }
    }
}
