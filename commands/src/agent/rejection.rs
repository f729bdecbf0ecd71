//! Why the answer may be no.

use super::command::{BRANCHES_MAX, QUEUE_PROMPTS_MAX};
use crate::{models::BadModels, name::BadName};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    #[error("the agent does not exist")]
    NotFound,
    #[error("this is agent `{actual}`, not `{asked}`")]
    OtherAgent { actual: String, asked: String },
    #[error("the agent is closed")]
    Closed,
    #[error("the agent is in a turn or has prompts waiting")]
    Busy,
    #[error("no turn is under way")]
    NoTurn,
    #[error("a report cannot follow the one before it")]
    OutOfOrder,
    #[error(transparent)]
    BadName(#[from] BadName),
    #[error("field `{field}` is empty")]
    Empty { field: &'static str },
    #[error("`{field}` has size {size}; {max} fits")]
    TooLarge {
        field: &'static str,
        size: usize,
        max: usize,
    },
    #[error("{QUEUE_PROMPTS_MAX} prompts wait already")]
    QueueFull,
    #[error("prompt `{prompt_id}` does not wait")]
    PromptNotQueued { prompt_id: String },
    #[error("prompt `{prompt_id}` is not in the branch under way")]
    PromptNotTakenUp { prompt_id: String },
    #[error("there is no branch `{branch_id}`")]
    UnknownBranch { branch_id: String },
    #[error("the conversation has {BRANCHES_MAX} branches already")]
    TooManyBranches,
    /// The call was ended, or is one of an earlier attempt.
    #[error("model call `{call_id}` is not under way")]
    CallNotOut { call_id: String },
    #[error("block {block} has {expected} bytes so far, the chunk begins at {found}")]
    ChunkOffset {
        block: u32,
        expected: u64,
        found: u64,
    },
    #[error("block {block} was another part before")]
    ChunkPart { block: u32 },
    #[error("tool call `{tool_call_id}` is not of the reply under way")]
    UnknownTool { tool_call_id: String },
    #[error("tool call `{tool_call_id}` was not started")]
    ToolNotStarted { tool_call_id: String },
    #[error("tool call `{tool_call_id}` has another result already")]
    ToolFinished { tool_call_id: String },
    #[error("a tool cannot report this outcome")]
    BadOutcome,
    #[error("approval `{approval_id}` is not one of this turn")]
    UnknownApproval { approval_id: String },
    #[error("approval `{approval_id}` was answered the other way")]
    AlreadyDecided { approval_id: String },
    #[error("the time to answer approval `{approval_id}` is over")]
    ApprovalExpired { approval_id: String },
    #[error("question `{question_id}` is not one of this turn")]
    UnknownQuestion { question_id: String },
    #[error("question `{question_id}` was answered already")]
    AlreadyAnswered { question_id: String },
    #[error("id `{id}` was used before")]
    IdReused { id: String },
}

impl From<BadModels> for Rejection {
    fn from(bad: BadModels) -> Self {
        match bad {
            BadModels::Empty { field } => Self::Empty { field },
            BadModels::TooLarge { field, size, max } => Self::TooLarge { field, size, max },
        }
    }
}
