//! What can be asked of an agent or told to it, and why the answer may be no.

use cocoonbox_proto::log::v1::{
    ApprovalPolicy, Block, ModelChoice, StopReason, TokenUsage, agent_model_failed,
    agent_output_streamed::Part, agent_tool_finished::Outcome,
};

use crate::name::BadName;

/// Longest prompt. An event has to fit a log (256 KiB), with room for what else is in it.
pub const PROMPT_BYTES_MAX: usize = 200 * 1024;
/// Prompts that may wait for the turn under way to end. A person does not type more; a script that
/// does is told to wait.
pub const QUEUE_PROMPTS_MAX: usize = 64;
/// Longest chunk of streamed output: the house limit for coalesced output.
pub const CHUNK_BYTES_MAX: usize = 16 * 1024;
/// Longest reply, all blocks together: four times what a model writes at its usual output limit. A
/// longer one counts as a failed call.
pub const REPLY_BYTES_MAX: usize = 240 * 1024;
/// Chunks in one command: at their longest they are half of what an append takes.
pub const CHUNKS_MAX: usize = 32;
/// Longest tool result. The loop cuts long ones far below this; what comes longer is cut here.
pub const CONTENT_BYTES_MAX: usize = 200 * 1024;

#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    Create {
        agent_id: String,
        name: String,
        model: ModelChoice,
        approval: ApprovalPolicy,
        /// Model calls allowed in one turn; 0 = 100.
        steps_max: u32,
    },
    Rename {
        name: String,
    },
    /// No further prompts. Refused while a turn is under way or waits.
    Close,
    /// Queues a prompt. The same prompt id is one prompt.
    Prompt {
        prompt_id: String,
        text: String,
    },
    /// Writes the step that is due, if one is. Fresh ids come along; those that are not needed are
    /// not used.
    Advance {
        turn_id: String,
        call_id: String,
        approval_id: String,
    },
    /// The model call under way has put out this much more.
    Streamed {
        call_id: String,
        chunks: Vec<Chunk>,
    },
    /// The model call under way has ended by itself.
    Replied {
        call_id: String,
        blocks: Vec<Block>,
        stop: StopReason,
        vendor_stop: String,
        usage: TokenUsage,
        vendor_request_id: String,
    },
    /// The model call under way has ended without a whole reply. Also how the loop reports that it
    /// broke the call off after a cancel.
    ModelFailed {
        call_id: String,
        reason: agent_model_failed::Reason,
        detail: String,
        retryable: bool,
        /// What the vendor asked for; 0 = nothing.
        retry_after_ms: u64,
    },
    ToolFinished {
        tool_call_id: String,
        outcome: Outcome,
        content: String,
        /// Empty where it was not an exec.
        exec_id: String,
    },
    /// A person answers an approval.
    Approve {
        approval_id: String,
        allowed: bool,
        comment: String,
    },
    /// Ends the turn under way as soon as what runs has been stopped. If prompts wait for a turn that
    /// has not begun, it begins as `turn_id` and is cancelled, so that a cancel is never late.
    Cancel {
        turn_id: String,
    },
    /// The process that ran the loop is another one than before.
    Restarted,
}

/// A piece of one content block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Index of the content block.
    pub block: u32,
    pub part: Part,
    /// Bytes of this block streamed before.
    pub offset: u64,
    pub text: String,
}

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
    #[error("id `{id}` was used before")]
    IdReused { id: String },
}
