//! The tools that a model has: a table of them, each in a file of its own behind [`Tool`].
//!
//! To add one: implement [`Tool`] in `tool/<name>.rs` and enter it in `serve.rs`, or `Tools::replace` it
//! at run time. Whether it is read-only and what it risks is said in `commands/src/agent/tools.rs`.

mod args;
mod browser;
mod computer;
mod driven;
mod files;
mod finished;
mod handed_back;
mod memory;
mod output;
mod schema;
mod shell;
mod skill;
mod table;
mod talk;
mod task;
mod terminal;
mod web;

pub(crate) use browser::browser_tools;
pub(crate) use computer::computer_tools;
pub(crate) use files::file_tools;
pub(crate) use finished::{Finished, Picture, Told};
pub(crate) use shell::ShellTool;
pub(crate) use table::{Offered, Tools};
pub(crate) use task::TaskTool;
pub(crate) use terminal::TerminalTool;
pub(crate) use web::WebTool;

use std::sync::Arc;

use async_trait::async_trait;
use cocoonbox_commands::agent::{State, ToolCall};
use cocoonbox_proto::log::v1::{ModelRole, Risk};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{blobs::Blobs, exec::Toolhost, wire::ToolSpec};

/// A tool.
///
/// `run` is called once for a call that is in the log, from a task of its own, beside others that are
/// read-only. When the turn is cancelled it is dropped, unless it [`Tool::stops`]: then it stops what it
/// started and returns within a second of `cancel`.
#[async_trait]
pub(crate) trait Tool: Send + Sync {
    /// What a model is told. The same as long as the process lives: it is cached by the vendor.
    fn spec(&self) -> &ToolSpec;

    /// Whether this agent is offered it.
    fn is_for(&self, _: Asker) -> bool {
        true
    }

    /// What it says of itself that it risks. Counts only where it is more than what is known of its name.
    fn risk_at_least(&self) -> Risk {
        Risk::Unspecified
    }

    /// Whether it has something to stop when `cancel` is cancelled.
    fn stops(&self) -> bool {
        false
    }

    /// Carries a call out. `args` fit the schema. `None`: this process is ending, and the next one says
    /// what became of the call.
    async fn run(
        &self,
        context: &Context<'_>,
        args: Value,
        cancel: &CancellationToken,
    ) -> Option<Finished>;

    /// An agent's turn has come to its end: what it had only for that can go. May be called again.
    fn turn_over(&self, _: &str) {}

    /// Says what became of a call with side effects that an earlier process was carrying out.
    /// `None`: nobody knows.
    async fn recover(&self, _: &Context<'_>, _: Value) -> Option<Finished> {
        None
    }
}

/// Who calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context<'a> {
    pub(crate) agent_id: &'a str,
    pub(crate) asker: Asker,
    pub(crate) call: &'a ToolCall,
}

/// Whom tools are offered to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asker {
    pub(crate) role: ModelRole,
    /// It works for another agent, not for a person.
    pub(crate) is_child: bool,
}

impl Asker {
    pub(crate) fn of(state: &State) -> Self {
        Self {
            role: state.role,
            is_child: state.is_child(),
        }
    }
}

/// Returns the tools that are about the agent itself.
pub(crate) fn own_tools(blobs: &Blobs, host: &Toolhost) -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(talk::TalkTool::todo()),
        Arc::new(talk::TalkTool::ask_user()),
        Arc::new(output::OutputTool::new(blobs.clone())),
        Arc::new(skill::SkillTool::new(host.clone())),
        Arc::new(memory::MemoryTool::new(host.clone())),
    ]
}
