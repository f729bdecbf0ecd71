//! One agent's conversation, stream `agent/<id>` of a box log: a durable turn.
//!
//! ```text
//!  prompts ─▶ turn_started ─▶ model_called ─▶ model_replied ─┬─ no tool use ─▶ turn_ended
//!                              ▲    │ model_failed           │
//!                              │◀───┘ retry            (approval_requested, approval_decided)
//!                              │                             │
//!                              └── every use has a result ◀─ tool_called, tool_finished
//! ```
//!
//! The loop asks [`State::next`] what to do, does it, and reports. [`Command::Advance`] writes the
//! steps that follow from the state alone. After a crash [`Command::Restarted`] closes what cannot be
//! known any more, and the loop goes on as if nothing had happened.
//!
//! Tool uses of one reply run in the order in which the model wrote them: neighbours that are
//! read-only together, one with side effects alone. So a read that was written behind a write sees it.

mod advance;
mod asked;
mod command;
mod compaction;
mod decide;
mod due;
mod entry;
mod evolve;
mod history;
mod ids;
mod models;
mod next;
mod person;
mod rejection;
mod repeats;
mod reply;
mod report;
mod rules;
mod series;
mod state;
pub mod tools;
mod turn;

pub use command::{
    ANSWER_BYTES_MAX, BRANCHES_MAX, CHUNK_BYTES_MAX, CHUNKS_MAX, CONTENT_BYTES_MAX, Chunk, Command,
    IMAGES_MAX, PROMPT_BYTES_MAX, QUEUE_PROMPTS_MAX, REPLY_BYTES_MAX, SUMMARY_BYTES_MAX,
    SYSTEM_BYTES_MAX, TODO_ITEMS_MAX, TODO_TEXT_BYTES_MAX,
};
pub use entry::{Entry, ToolResult};
pub use next::{ATTEMPTS_MAX, Next, PendingApproval, PendingQuestion, ToolCall, Waiting};
pub use rejection::Rejection;
pub use rules::Rules;
pub use state::{Life, Mood, Parent, Prompt, STEPS_DEFAULT, State};
pub use turn::{Failure, Partial, PartialBlock, Stage, ToolUse, Turn, UseState};
