//! `cocoonbox.control.v1.Shares`.

use std::sync::Arc;

use cocoonbox_proto::control::v1::{
    CreateShareRequest, ListSharesRequest, ListSharesResponse, LookRequest, LookResponse,
    RegenerateShareRequest, RevokeShareRequest, RevokeShareResponse, Share, shares_server,
};
use tonic::{Code, Request, Response, Status};

use super::{
    book::{MICROS_IN_MS, Shares, Wanted},
    guest::Guest,
    refusal::{NotAdmitted, ShareError},
};
use crate::{auth::Caller, edge::Edge, status, users::command_id};

/// Answers calls about shares.
pub struct Service {
    pub shares: Arc<Shares>,
    pub edge: Arc<Edge>,
}

#[tonic::async_trait]
impl shares_server::Shares for Service {
    async fn create(
        &self,
        request: Request<CreateShareRequest>,
    ) -> Result<Response<Share>, Status> {
        let caller = Caller::of(request.extensions());
        let user_id = caller.user()?;
        let request = request.into_inner();
        self.there(user_id, &request.box_id).await?;
        let id = command_id(&request.command_id, &*self.shares.ids)?;
        let wanted = Wanted {
            box_id: request.box_id,
            label: request.label,
            for_user: self.shares.guest_named(&request.for_user).await?,
            expires_us: request
                .expires_at_ms
                .map(|ms| ms.saturating_mul(MICROS_IN_MS)),
        };
        let share = self.shares.create(user_id, wanted, id, &caller).await?;
        Ok(Response::new(share))
    }

    async fn list(
        &self,
        request: Request<ListSharesRequest>,
    ) -> Result<Response<ListSharesResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let user_id = caller.user()?;
        let asked = request.get_ref();
        let of = if asked.box_id.is_empty() {
            self.boxes(user_id).await?
        } else {
            self.there(user_id, &asked.box_id).await?;
            vec![asked.box_id.clone()]
        };
        let mut shares = Vec::new();
        for box_id in of {
            let listed = self.shares.list(user_id, &box_id, asked.ended_too);
            shares.extend(listed.await?);
        }
        shares.sort_by(|a, b| (b.created_at_ms, &b.id).cmp(&(a.created_at_ms, &a.id)));
        Ok(Response::new(ListSharesResponse { shares }))
    }

    async fn regenerate(
        &self,
        request: Request<RegenerateShareRequest>,
    ) -> Result<Response<Share>, Status> {
        let caller = Caller::of(request.extensions());
        let user_id = caller.user()?;
        let request = request.get_ref();
        self.there(user_id, &request.box_id).await?;
        let id = command_id(&request.command_id, &*self.shares.ids)?;
        let of = (request.box_id.as_str(), request.share_id.as_str());
        let share = self.shares.regenerate(user_id, of, id, &caller).await?;
        Ok(Response::new(share))
    }

    async fn revoke(
        &self,
        request: Request<RevokeShareRequest>,
    ) -> Result<Response<RevokeShareResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let user_id = caller.user()?;
        let request = request.get_ref();
        self.there(user_id, &request.box_id).await?;
        let of = (request.box_id.as_str(), request.share_id.as_str());
        let offset_key = self.shares.revoke(user_id, of, &caller).await?;
        Ok(Response::new(RevokeShareResponse { offset_key }))
    }

    async fn look(&self, request: Request<LookRequest>) -> Result<Response<LookResponse>, Status> {
        match Caller::of(request.extensions()) {
            Caller::Guest(guest) => Ok(Response::new(self.shares.look(&guest).await?)),
            Caller::Nobody(denied) => Err(denied.status()),
            Caller::User { .. } | Caller::Host => Err(status::status(
                Code::PermissionDenied,
                "SHARE_REQUIRED",
                "this is for guests: send metadata `x-cocoonbox-share: <secret>`",
            )),
        }
    }
}

impl Service {
    /// Refuses whoever's box it is not.
    async fn there(&self, user_id: &str, box_id: &str) -> Result<(), Status> {
        if box_id.is_empty() {
            return Err(status::bad_field("box_id", "is empty"));
        }
        self.edge.owns(user_id, box_id).await
    }

    async fn boxes(&self, user_id: &str) -> Result<Vec<String>, Status> {
        let boxes = self.shares.views.boxes(user_id).await;
        let boxes = boxes.map_err(|error| status::internal(&error))?;
        Ok(boxes.into_iter().map(|row| row.id).collect())
    }
}

impl Shares {
    /// Says what a guest looks at.
    pub async fn look(&self, guest: &Guest) -> Result<LookResponse, NotAdmitted> {
        let row = self.standing(&guest.owner_id, &guest.box_id).await?;
        let row = row.ok_or(NotAdmitted::Ended)?;
        Ok(LookResponse {
            share_id: guest.share_id.clone(),
            box_id: guest.box_id.clone(),
            box_name: row.name.clone(),
            state: row.state().into(),
            label: guest.label.clone(),
            expires_at_ms: guest.expires_us.unwrap_or_default() / MICROS_IN_MS,
        })
    }

    /// Finds the user that a share is for, by name or id.
    async fn guest_named(&self, text: &str) -> Result<Option<String>, Status> {
        if text.is_empty() {
            return Ok(None);
        }
        let directory = self.accounts.directory().await.map_err(ShareError::from)?;
        let known = &directory.state;
        let found = known.by_id(text).or_else(|| known.by_name(text));
        let found = found.filter(|user| !user.leaving);
        let found = found.ok_or_else(|| {
            status::status(
                Code::NotFound,
                "NO_SUCH_USER",
                "there is no such user here whom the share could be for",
            )
        })?;
        Ok(Some(found.user_id.clone()))
    }
}
