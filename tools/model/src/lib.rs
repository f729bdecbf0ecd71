//! A scripted model server that speaks the streaming wires of the vendors, for tests and the offline demo.
//!
//! A [`Script`] says what the model says and does; a [`Server`] plays it to any client of Anthropic
//! Messages, OpenAI Chat Completions or OpenAI Responses. The server keeps no conversation: the step it plays is found
//! in the request, so a client may resend, resume or replay at will.

mod anthropic;
mod conversation;
mod fault;
mod openai;
mod picture;
mod playback;
mod reply;
mod request_log;
mod responses;
mod script;
mod server;
mod wire;

pub use conversation::Position;
pub use request_log::{Recorded, Secret};
pub use script::{
    Block, Cut, Error as ScriptError, ErrorEvent, Fail, Garbage, Repeat, Script, Stall, Step, Stop,
    Tool, Usage,
};
pub use server::{Error as ServerError, Server};
