//! `read`, `write`, `edit`, `multi_edit`, `ls`, `glob` and `grep`: files, through the toolhost.

mod args;
mod specs;

use std::sync::Arc;

use async_trait::async_trait;
use cocoonbox_proto::toolhost::v1::{FileResponse, toolhost_client::ToolhostClient};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tonic::{Response, Status, transport::Channel};

use self::args::{Call, Kind};
use super::{Context, Finished, Picture, Tool};
use crate::{exec::Toolhost, wire::ToolSpec};

/// Returns the tools that touch files.
pub(crate) fn file_tools(host: &Toolhost) -> Vec<Arc<dyn Tool>> {
    let tool = |(kind, spec)| {
        let host = host.clone();
        Arc::new(FileTool { host, kind, spec }) as Arc<dyn Tool>
    };
    specs::specs().into_iter().map(tool).collect()
}

struct FileTool {
    host: Toolhost,
    kind: Kind,
    spec: ToolSpec,
}

#[async_trait]
impl Tool for FileTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(
        &self,
        context: &Context<'_>,
        args: Value,
        _: &CancellationToken,
    ) -> Option<Finished> {
        Some(match self.kind.call(args, context.agent_id) {
            Ok(call) => carry_out(&self.host, &call).await,
            Err(finished) => finished,
        })
    }
}

async fn carry_out(host: &Toolhost, call: &Call) -> Finished {
    let answer = host.file(|client| ask(client, call.clone())).await;
    finished(answer, "the file tools do not answer")
}

async fn ask(
    mut client: ToolhostClient<Channel>,
    call: Call,
) -> Result<Response<FileResponse>, Status> {
    match call {
        Call::Read(read) => client.read(read).await,
        Call::Write(write) => client.write(write).await,
        Call::Edit(edit) => client.edit(edit).await,
        Call::Ls(ls) => client.ls(ls).await,
        Call::Glob(glob) => client.glob(glob).await,
        Call::Grep(grep) => client.grep(grep).await,
    }
}

/// What the model is told of the toolhost's answer.
pub(super) fn finished(answer: Result<FileResponse, Status>, silent: &str) -> Finished {
    match answer {
        Ok(FileResponse {
            ok: true,
            text,
            picture,
        }) => {
            let mut finished = Finished::ok(text);
            if !picture.is_empty() {
                finished.images.push(Picture { data: picture });
            }
            finished
        }
        Ok(FileResponse {
            ok: false, text, ..
        }) => Finished::error(text),
        Err(status) => unanswered(silent, &status),
    }
}

/// What the model is told when the toolhost has no answer.
pub(super) fn unanswered(silent: &str, status: &Status) -> Finished {
    Finished::error(format!("{silent}: {}", status.message()))
}
