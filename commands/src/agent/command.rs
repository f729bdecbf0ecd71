//! What can be asked of an agent or told to it.

use cocoonbox_proto::log::v1::{
    AgentCreated, ApprovalRules, Block, Image, ModelRoles, StopReason, TokenUsage,
    agent_approval_decided::Scope, agent_model_failed, agent_output_streamed::Part,
    agent_todo_set::Item, agent_tool_finished::Outcome,
};

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
/// Longest list of what is to do, and longest text in it. It is one event, and told in every list.
pub const TODO_ITEMS_MAX: usize = 100;
pub const TODO_TEXT_BYTES_MAX: usize = 1_000;
/// Longest answer to a question.
pub const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Pictures in one prompt or one result.
pub const IMAGES_MAX: usize = 8;
/// Branches of one conversation: each keeps the places of its entries in memory.
pub const BRANCHES_MAX: usize = 256;
/// Longest summary, and longest instruction: either is one event.
pub const SUMMARY_BYTES_MAX: usize = 64 * 1024;
pub const SYSTEM_BYTES_MAX: usize = 128 * 1024;
/// Longest tool result. The loop cuts long ones far below this; what comes longer is cut here.
pub const CONTENT_BYTES_MAX: usize = 200 * 1024;

#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// What the agent is to be, as its event has it. `steps_max` 0 = 100; `models` or `model` has to be
    /// there.
    Create(Box<AgentCreated>),
    Rename {
        name: String,
    },
    /// From the next call on.
    SetModels {
        models: ModelRoles,
    },
    /// Use the box's models, from the next call on, and go on following them.
    FollowBox {
        models: ModelRoles,
    },
    /// From the next tool call on; what is asked already stays asked.
    SetRules {
        rules: ApprovalRules,
    },
    /// No further prompts. Refused while a turn is under way or waits.
    Close,
    /// Queues a prompt. The same prompt id is one prompt.
    Prompt {
        prompt_id: String,
        text: String,
        /// Reaches the next model call of the turn under way.
        steer: bool,
        images: Vec<Image>,
    },
    /// Takes back a prompt that waits.
    Withdraw {
        prompt_id: String,
    },
    /// Goes on from before a prompt that the branch under way has taken up, with another one in its place.
    /// Refused while a turn is under way or waits. The same branch id is one branch.
    Branch {
        branch_id: String,
        before_prompt_id: String,
        prompt_id: String,
        text: String,
    },
    /// Goes on at the end of a branch that was left; the first one has the empty id.
    SelectBranch {
        branch_id: String,
    },
    /// Says what the model is told before the conversation, from here on. Written where it has changed.
    Instruct {
        system: String,
        tools: Vec<String>,
        tools_hash: Vec<u8>,
    },
    SetTodo {
        items: Vec<Item>,
    },
    /// Writes the step that is due, if one is. Fresh ids come along; those that are not needed are
    /// not used.
    Advance {
        turn_id: String,
        call_id: String,
        /// Also of a question.
        approval_id: String,
        /// Microseconds since the epoch, for what expires; 0 = nothing does.
        now_us: i64,
    },
    /// Reports, one after the other, and the step that is due then: written together, or not at all.
    Series {
        reports: Vec<Self>,
        /// A [`Command::Advance`]. It is left out where it would begin a model call that was not prepared, or a tool
        /// call before which files have to be saved.
        step: Box<Self>,
        /// What a model is told before the conversation is written and is what it should be.
        calls: bool,
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
        images: Vec<Image>,
        /// The whole of what `content` leaves out; empty where nothing is.
        blob: String,
    },
    /// A tool call that was about to be made will not be, since something has to be done first that cannot be:
    /// `content` tells the model. Says nothing where the call is not about to be made any more.
    NotRun {
        tool_call_id: String,
        content: String,
    },
    /// A person answers an approval.
    Approve {
        approval_id: String,
        allowed: bool,
        comment: String,
        scope: Scope,
        /// Microseconds since the epoch: an answer that comes too late is refused. 0 = it is in time.
        now_us: i64,
    },
    /// The time of an approval is over. Before it is, nothing happens, so that a clock may jump.
    Expire {
        approval_id: String,
        now_us: i64,
    },
    /// A person answers a question.
    Answer {
        question_id: String,
        answer: String,
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
