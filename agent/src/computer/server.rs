//! Who is answered, and how.

use async_trait::async_trait;
use cocoonbox_proto::toolhost::v1::{ComputerActRequest, FileResponse, computer_server::Computer};
use tonic::{Request, Response, Status};

use super::{
    holder::{Answer, Holder},
    refusal::Refusal,
};

/// Who may connect is seen to before: only agents' loop.
pub(super) struct Service {
    pub(super) holder: Holder,
}

#[async_trait]
impl Computer for Service {
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
