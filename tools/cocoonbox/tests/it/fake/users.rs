//! People and what they sign in with, over the story.

use cocoonbox_proto::{
    control::v1::{
        AccountEventsRequest, AuditPage, AuditRequest, BootstrapRequest, CreateUserRequest,
        DeleteUserRequest, DeleteUserResponse, IssueTokenRequest, IssuedToken, ListPasskeysRequest,
        ListPasskeysResponse, ListTokensRequest, ListTokensResponse, ListUsersRequest,
        ListUsersResponse, Passkey, RemovePasskeyRequest, RemovePasskeyResponse,
        RevokeTokenRequest, RevokeTokenResponse, UsageRequest, UsageResponse, User, WhoAmIRequest,
        users_server::Users,
    },
    log::v1::EventOrHeartbeat,
};
use tonic::{Request, Response, Status, async_trait};

use super::{
    Fake,
    services::{Boxed, none},
};

#[async_trait]
impl Users for Fake {
    async fn bootstrap(
        &self,
        _: Request<BootstrapRequest>,
    ) -> Result<Response<IssuedToken>, Status> {
        none()
    }

    async fn create(&self, _: Request<CreateUserRequest>) -> Result<Response<IssuedToken>, Status> {
        none()
    }

    async fn list(
        &self,
        _: Request<ListUsersRequest>,
    ) -> Result<Response<ListUsersResponse>, Status> {
        none()
    }

    async fn who_am_i(&self, request: Request<WhoAmIRequest>) -> Result<Response<User>, Status> {
        self.note(request.metadata());
        let story = self.state();
        let sent = story
            .seen
            .metadata
            .last()
            .and_then(|(token, _)| token.clone());
        if sent == Some(format!("Bearer {}", story.token)) {
            let user = User {
                id: "u1".into(),
                name: "ann".into(),
                admin: true,
                created_at_ms: 0,
            };
            Ok(Response::new(user))
        } else {
            Err(Status::unauthenticated("this token is not valid"))
        }
    }

    async fn issue_token(
        &self,
        request: Request<IssueTokenRequest>,
    ) -> Result<Response<IssuedToken>, Status> {
        if !request.get_ref().sign_in {
            return none();
        }
        Ok(Response::new(IssuedToken {
            token: "cbx_link".into(),
            ..IssuedToken::default()
        }))
    }

    async fn list_tokens(
        &self,
        _: Request<ListTokensRequest>,
    ) -> Result<Response<ListTokensResponse>, Status> {
        none()
    }

    async fn revoke_token(
        &self,
        _: Request<RevokeTokenRequest>,
    ) -> Result<Response<RevokeTokenResponse>, Status> {
        none()
    }

    async fn list_passkeys(
        &self,
        _: Request<ListPasskeysRequest>,
    ) -> Result<Response<ListPasskeysResponse>, Status> {
        let passkey = |id: &str, used_at_ms| Passkey {
            id: id.into(),
            name: format!("key {id}"),
            host: "localhost".into(),
            added_at_ms: 1_700_000_000_000,
            used_at_ms,
            is_copied: false,
        };
        Ok(Response::new(ListPasskeysResponse {
            passkeys: vec![passkey("p1", 0), passkey("p2", 1_700_000_060_000)],
        }))
    }

    async fn remove_passkey(
        &self,
        request: Request<RemovePasskeyRequest>,
    ) -> Result<Response<RemovePasskeyResponse>, Status> {
        if request.get_ref().passkey_id != "p1" {
            return Err(Status::not_found("there is no such passkey"));
        }
        Ok(Response::new(RemovePasskeyResponse::default()))
    }

    type EventsStream = Boxed<EventOrHeartbeat>;
    async fn events(
        &self,
        _: Request<AccountEventsRequest>,
    ) -> Result<Response<Self::EventsStream>, Status> {
        none()
    }

    async fn audit(&self, _: Request<AuditRequest>) -> Result<Response<AuditPage>, Status> {
        none()
    }

    async fn delete(
        &self,
        request: Request<DeleteUserRequest>,
    ) -> Result<Response<DeleteUserResponse>, Status> {
        let request = request.into_inner();
        if request.user_id == "u1" && request.confirm_name == "ann" && !request.force {
            return Err(Status::failed_precondition("this is the last admin"));
        }
        Ok(Response::new(DeleteUserResponse {
            deleted: true,
            waiting_for: String::new(),
        }))
    }

    async fn usage(&self, _: Request<UsageRequest>) -> Result<Response<UsageResponse>, Status> {
        none()
    }
}
