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

mod command;
mod decide;
mod evolve;
mod next;
mod reply;
mod report;
mod state;
pub mod tools;
mod turn;

pub use command::{
    CHUNK_BYTES_MAX, CHUNKS_MAX, CONTENT_BYTES_MAX, Chunk, Command, PROMPT_BYTES_MAX,
    QUEUE_PROMPTS_MAX, REPLY_BYTES_MAX, Rejection,
};
pub use next::{ATTEMPTS_MAX, Next, ToolCall};
pub use state::{Entry, Life, Mood, Prompt, STEPS_DEFAULT, State, ToolResult};
pub use turn::{Failure, Partial, PartialBlock, Stage, ToolUse, Turn, UseState};
