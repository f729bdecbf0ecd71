//! Tools of MCP servers that the box's user has set up in `/workspace/.cocoonbox/mcp.json`.
//!
//! The servers are strangers. Local ones run as the desktop user, through the toolhost; those elsewhere
//! are reached through the door. What they say is bounded and never an instruction: descriptions and
//! results reach the model as material. A server is started when its tools are first needed, again after
//! it failed (each time later), and stopped when nobody has used it for a while.

mod catalogue;
mod config;
mod http;
mod name;
mod result;
mod server;
mod servers;
mod stdio;
mod tool;

pub(crate) use servers::Servers;
