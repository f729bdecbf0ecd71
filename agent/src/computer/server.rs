//! Who is answered, and how.

use async_trait::async_trait;
use cocoonbox_proto::{
    log::v1::{DesktopTyped, DesktopWindow},
    toolhost::v1::{
        ComputerActRequest, ComputerCloseRequest, ComputerCloseResponse, ComputerSeen,
        ComputerWatchRequest, FileResponse, computer_server::Computer,
    },
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use super::{
    backend::{Typed, Window},
    holder::{Answer, Holder, Seen},
    refusal::Refusal,
};

/// Who may connect is seen to before: only agents' loop.
pub(super) struct Service {
    pub(super) holder: Holder,
    /// The process ends.
    pub(super) stop: CancellationToken,
}

#[async_trait]
impl Computer for Service {
    type WatchStream = ReceiverStream<Result<ComputerSeen, Status>>;

    async fn act(
        &self,
        request: Request<ComputerActRequest>,
    ) -> Result<Response<FileResponse>, Status> {
        let ComputerActRequest {
            agent_id,
            args_json,
            look,
        } = request.into_inner();
        let done = if look {
            self.holder.look(&agent_id, &args_json).await
        } else {
            self.holder.act(&agent_id, &args_json).await
        };
        Ok(Response::new(response(done)))
    }

    async fn close(
        &self,
        _: Request<ComputerCloseRequest>,
    ) -> Result<Response<ComputerCloseResponse>, Status> {
        // What is being answered is answered first, this call too.
        self.stop.cancel();
        Ok(Response::new(ComputerCloseResponse {}))
    }

    async fn watch(
        &self,
        request: Request<Streaming<ComputerWatchRequest>>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let (tell, told) = mpsc::channel(1);
        let (holder, stop) = (self.holder.clone(), self.stop.clone());
        let asked = request.into_inner();
        tokio::spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = tell.closed() => {}
                watched = watch(&holder, asked, &tell) => if let Err(status) = watched {
                    tell.send(Err(status)).await.ok();
                },
            }
        });
        Ok(Response::new(ReceiverStream::new(told)))
    }
}

async fn watch(
    holder: &Holder,
    mut asked: Streaming<ComputerWatchRequest>,
    tell: &mpsc::Sender<Result<ComputerSeen, Status>>,
) -> Result<(), Status> {
    let (before, watch) = holder.watch().await.map_err(unseen)?;
    tell.send(Ok(seen(before, Vec::new()))).await.ok();
    while asked.message().await?.is_some() {}
    let (after, typed) = holder.watched(watch).await.map_err(unseen)?;
    tell.send(Ok(seen(after, typed))).await.ok();
    Ok(())
}

fn unseen(refusal: Refusal) -> Status {
    Status::unavailable(refusal.to_string())
}

fn seen(seen: Seen, typed: Vec<Typed>) -> ComputerSeen {
    let window = |window: Window| DesktopWindow {
        id: window.id,
        title: window.title,
        program: window.program,
        active: window.is_active,
    };
    let field = |Typed { role, name, text }| DesktopTyped { role, name, text };
    ComputerSeen {
        png: seen.png,
        windows: seen.windows.into_iter().map(window).collect(),
        typed: typed.into_iter().map(field).collect(),
    }
}

fn response(done: Result<Answer, Refusal>) -> FileResponse {
    match done {
        Ok(Answer { text, picture }) => FileResponse {
            ok: true,
            text,
            picture,
        },
        Err(refusal) => FileResponse {
            text: refusal.to_string(),
            ..FileResponse::default()
        },
    }
}
