//! Who is answered, and how.

use async_trait::async_trait;
use cocoonbox_proto::toolhost::v1::{
    BrowserActRequest, BrowserOpenRequest, BrowserOpenResponse, FileResponse,
    browser_server::Browser,
};
use tonic::{Request, Response, Status, transport::server::UdsConnectInfo};

use super::{
    holder::{Answer, Holder},
    refusal::Refusal,
};

pub(super) struct Service {
    pub(super) holder: Holder,
    /// The uid of agents' loop, besides root's.
    pub(super) agent_uid: u32,
}

#[async_trait]
impl Browser for Service {
    async fn act(
        &self,
        request: Request<BrowserActRequest>,
    ) -> Result<Response<FileResponse>, Status> {
        self.is_agent(&request)?;
        let BrowserActRequest {
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

    async fn open(
        &self,
        request: Request<BrowserOpenRequest>,
    ) -> Result<Response<BrowserOpenResponse>, Status> {
        let opened = self.holder.open(request.into_inner().arguments).await;
        let started = opened.map_err(|refusal| Status::unavailable(refusal.to_string()))?;
        Ok(Response::new(BrowserOpenResponse { started }))
    }
}

impl Service {
    /// What acts for an agent has been allowed and recorded by its loop; programs of the user's are not that.
    fn is_agent<T>(&self, request: &Request<T>) -> Result<(), Status> {
        let peer = request.extensions().get::<UdsConnectInfo>();
        let uid = peer.and_then(|peer| peer.peer_cred).map(|cred| cred.uid());
        if uid.is_some_and(|uid| uid == self.agent_uid || uid == 0) {
            return Ok(());
        }
        Err(Status::permission_denied(
            "only the box's agents act in its browser by this way",
        ))
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
