//! Shares of the story's box.

use cocoonbox_proto::control::v1::{
    CreateShareRequest, ListSharesRequest, ListSharesResponse, LookRequest, LookResponse, Opening,
    RegenerateShareRequest, RevokeShareRequest, RevokeShareResponse, Share, ShareState,
    shares_server::Shares,
};
use tonic::{Request, Response, Status, async_trait};

use super::{Fake, services::none};

/// 2023-11-14, 22:13:20 UTC.
const AT_MS: i64 = 1_700_000_000_000;

fn share(id: &str, secret: &str) -> Share {
    Share {
        id: id.into(),
        box_id: "b1".into(),
        label: "for the team".into(),
        state: ShareState::Live.into(),
        created_at_ms: AT_MS,
        secret: secret.into(),
        ..Share::default()
    }
}

#[async_trait]
impl Shares for Fake {
    async fn create(
        &self,
        request: Request<CreateShareRequest>,
    ) -> Result<Response<Share>, Status> {
        let asked = request.into_inner();
        Ok(Response::new(Share {
            label: asked.label,
            for_user: asked.for_user,
            expires_at_ms: asked.expires_at_ms.unwrap_or_default(),
            ..share("s1", "cbs_one")
        }))
    }

    async fn list(
        &self,
        request: Request<ListSharesRequest>,
    ) -> Result<Response<ListSharesResponse>, Status> {
        let opening = |label: &str, at_ms| Opening {
            user_id: String::new(),
            label: label.into(),
            at_ms,
        };
        let live = Share {
            opened: 2,
            openings: vec![opening("bob", AT_MS + 60_000), opening("", AT_MS)],
            for_user: "u2".into(),
            for_user_name: "bob".into(),
            expires_at_ms: AT_MS + 3_600_000,
            ..share("s2", "cbs_two")
        };
        let ended = Share {
            state: ShareState::Revoked.into(),
            ..share("s1", "")
        };
        let mut shares = vec![live];
        if request.get_ref().ended_too {
            shares.push(ended);
        }
        Ok(Response::new(ListSharesResponse { shares }))
    }

    async fn regenerate(
        &self,
        request: Request<RegenerateShareRequest>,
    ) -> Result<Response<Share>, Status> {
        Ok(Response::new(share(
            &request.get_ref().share_id,
            "cbs_three",
        )))
    }

    async fn revoke(
        &self,
        request: Request<RevokeShareRequest>,
    ) -> Result<Response<RevokeShareResponse>, Status> {
        assert_eq!(request.get_ref().box_id, "b1");
        Ok(Response::new(RevokeShareResponse::default()))
    }

    async fn look(&self, _: Request<LookRequest>) -> Result<Response<LookResponse>, Status> {
        none()
    }
}
