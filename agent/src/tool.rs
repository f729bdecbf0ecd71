//! The tools that a model has, cheapest first, and how a call of one is carried out.

mod args;
mod shell;
mod specs;

pub(crate) use specs::specs;

use cocoonbox_commands::agent::{Command, ToolCall};
use cocoonbox_proto::{
    log::v1::agent_tool_finished::Outcome,
    toolhost::v1::{EditRequest, FileResponse, GrepRequest, LsRequest, ReadRequest, WriteRequest},
};
use tokio_util::sync::CancellationToken;

use self::args::Args;
use crate::{exec::Execs, prefix::prefix};

/// Longest result that a model is told: about 12,000 tokens.
const CONTENT_BYTES_MAX: usize = 60 * 1024;

/// Carries tools out.
#[derive(Clone)]
pub(crate) struct Tools {
    execs: Execs,
    toolhost: crate::exec::Toolhost,
}

/// How a tool call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finished {
    pub(crate) outcome: Outcome,
    pub(crate) content: String,
    /// Empty where it was not an exec.
    pub(crate) exec_id: String,
}

impl Tools {
    pub(crate) fn new(execs: Execs, toolhost: crate::exec::Toolhost) -> Self {
        Self { execs, toolhost }
    }

    /// Carries a call out. `None`: this process is ending, and the next one says what became of it.
    pub(crate) async fn run(
        &self,
        agent_id: &str,
        call: &ToolCall,
        cancel: &CancellationToken,
    ) -> Option<Finished> {
        let args = match args::parse(&call.name, &call.args_json) {
            Ok(args) => args,
            Err(problem) if call.cut => {
                return Some(Finished::error(format!(
                    "nothing was run: your reply reached its length limit inside these arguments \
                     ({problem}). Write less at once, for example a file in several parts."
                )));
            }
            Err(problem) => return Some(Finished::error(format!("nothing was run: {problem}"))),
        };
        if let Args::Shell(args) = args {
            return shell::run(&self.execs, agent_id, call, args, cancel).await;
        }
        tokio::select! {
            finished = self.file(args) => Some(finished),
            () = cancel.cancelled() => Some(Finished::cancelled()),
        }
    }

    /// Says what became of a call that an earlier process was carrying out, as far as the log knows.
    /// `None`: nobody knows.
    pub(crate) async fn recover(&self, agent_id: &str, call: &ToolCall) -> Option<Finished> {
        match args::parse(&call.name, &call.args_json) {
            Ok(Args::Shell(_)) => shell::recover(&self.execs, agent_id, call).await,
            Ok(_) => None,
            // It cannot have run.
            Err(problem) => Some(Finished::error(format!("nothing was run: {problem}"))),
        }
    }

    async fn file(&self, args: Args) -> Finished {
        let host = &self.toolhost;
        let answer = match args {
            Args::Read(read) => {
                let read = ReadRequest {
                    path: read.path,
                    offset: read.offset,
                    limit: read.limit,
                };
                host.file(|mut client| {
                    let call = read.clone();
                    async move { client.read(call).await }
                })
                .await
            }
            Args::Write(write) => {
                let write = WriteRequest {
                    path: write.path,
                    content: write.content,
                };
                host.file(|mut client| {
                    let call = write.clone();
                    async move { client.write(call).await }
                })
                .await
            }
            Args::Edit(edit) => {
                let edit = EditRequest {
                    path: edit.path,
                    old: edit.old,
                    new: edit.new,
                    replace_all: edit.replace_all,
                };
                host.file(|mut client| {
                    let call = edit.clone();
                    async move { client.edit(call).await }
                })
                .await
            }
            Args::Ls(ls) => {
                let ls = LsRequest { path: ls.path };
                host.file(|mut client| {
                    let call = ls.clone();
                    async move { client.ls(call).await }
                })
                .await
            }
            Args::Grep(grep) => {
                let grep = GrepRequest {
                    pattern: grep.pattern,
                    path: grep.path,
                    glob: grep.glob,
                    ignore_case: grep.ignore_case,
                };
                host.file(|mut client| {
                    let call = grep.clone();
                    async move { client.grep(call).await }
                })
                .await
            }
            Args::Shell(_) => return Finished::error("`shell` is not a file tool".to_owned()),
        };
        match answer {
            Ok(FileResponse { ok: true, text }) => Finished::ok(text),
            Ok(FileResponse { ok: false, text }) => Finished::error(text),
            Err(status) => Finished::error(format!(
                "the file tools do not answer: {}",
                status.message()
            )),
        }
    }
}

impl Finished {
    /// As the loop reports it.
    pub(crate) fn report(self, tool_call_id: String) -> Command {
        Command::ToolFinished {
            tool_call_id,
            outcome: self.outcome,
            content: self.content,
            exec_id: self.exec_id,
        }
    }

    /// Stands for a result that the log did not take.
    pub(crate) fn unusable() -> Self {
        Self::error("the tool ran, but its result could not be recorded".to_owned())
    }

    fn ok(content: String) -> Self {
        Self::new(Outcome::Ok, content)
    }

    fn error(content: String) -> Self {
        Self::new(Outcome::Error, content)
    }

    fn cancelled() -> Self {
        Self::new(
            Outcome::Cancelled,
            "stopped: the turn was cancelled".to_owned(),
        )
    }

    fn new(outcome: Outcome, mut content: String) -> Self {
        if content.len() > CONTENT_BYTES_MAX {
            let kept = prefix(&content, CONTENT_BYTES_MAX);
            let left = content.len() - kept.len();
            content = format!("{kept}\n[{left} more bytes left out]");
        }
        Self {
            outcome,
            content,
            exec_id: String::new(),
        }
    }
}
