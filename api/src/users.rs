//! `cocoonbox.control.v1.Users`.

use std::{collections::HashMap, pin::Pin, sync::Arc};

use cocoonbox_commands::{directory, user};
use cocoonbox_events::{Clock, CommandId, Ids, Store};
use cocoonbox_projections::Views;
use cocoonbox_proto::{
    control::v1::{
        AccountEventsRequest, AuditPage, AuditRequest, BootstrapRequest, CreateUserRequest,
        DeleteUserRequest, DeleteUserResponse, IssueTokenRequest, IssuedToken, ListPasskeysRequest,
        ListPasskeysResponse, ListTokensRequest, ListTokensResponse, ListUsersRequest,
        ListUsersResponse, Passkey, RemovePasskeyRequest, RemovePasskeyResponse,
        RevokeTokenRequest, RevokeTokenResponse, Token, UsageRequest, UsageResponse, UsageRow,
        User, WhoAmIRequest, users_server,
    },
    log::v1::EventOrHeartbeat,
};
use futures::Stream;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Request, Response, Status};

use crate::{
    accounts::{Account, AccountError, Accounts, Issued},
    auth::Caller,
    erase::{self, Deletion, Eraser},
    status,
    stream::{self, Selection},
    usage::{self, Callers, Report},
};

const LABEL_BYTES_MAX: usize = 100;
const LABEL_DEFAULT: &str = "device";
const PAGE_DEFAULT: usize = 100;
const PAGE_MAX: usize = 1_000;

/// Serves users.
pub struct Users {
    pub accounts: Arc<Accounts>,
    pub store: Arc<dyn Store>,
    pub views: Views,
    pub ids: Arc<dyn Ids>,
    pub clock: Arc<dyn Clock>,
    pub eraser: Eraser,
    pub stop: CancellationToken,
}

type Events = Pin<Box<dyn Stream<Item = Result<EventOrHeartbeat, Status>> + Send>>;

#[tonic::async_trait]
impl users_server::Users for Users {
    async fn bootstrap(
        &self,
        request: Request<BootstrapRequest>,
    ) -> Result<Response<IssuedToken>, Status> {
        Caller::of(request.extensions()).host()?;
        let request = request.into_inner();
        let name = if request.name.is_empty() {
            "admin"
        } else {
            &request.name
        };
        let issued = self.accounts.bootstrap(name, label(&request.label)?).await;
        Ok(Response::new(issued_token(&issued.map_err(from_account)?)))
    }

    async fn create(
        &self,
        request: Request<CreateUserRequest>,
    ) -> Result<Response<IssuedToken>, Status> {
        let caller = Caller::of(request.extensions());
        caller.admin()?;
        let request = request.into_inner();
        let command = command_id(&request.command_id, &*self.ids)?;
        let label = label(&request.label)?;
        let issued = self
            .accounts
            .create(&request.name, request.admin, label, command, &caller)
            .await;
        Ok(Response::new(issued_token(&issued.map_err(from_account)?)))
    }

    async fn list(
        &self,
        request: Request<ListUsersRequest>,
    ) -> Result<Response<ListUsersResponse>, Status> {
        Caller::of(request.extensions()).admin()?;
        let accounts = self.accounts.list().await.map_err(from_account)?;
        Ok(Response::new(ListUsersResponse {
            users: accounts.iter().map(user).collect(),
        }))
    }

    async fn who_am_i(&self, request: Request<WhoAmIRequest>) -> Result<Response<User>, Status> {
        Ok(Response::new(user(
            &self.account(request.extensions()).await?,
        )))
    }

    async fn issue_token(
        &self,
        request: Request<IssueTokenRequest>,
    ) -> Result<Response<IssuedToken>, Status> {
        let caller = Caller::of(request.extensions());
        let user_id = caller.user()?.to_owned();
        let (asked, label) = (request.get_ref(), label(&request.get_ref().label)?);
        let issued = if asked.sign_in {
            self.accounts.issue_link(&user_id, label, &caller).await
        } else {
            self.accounts.issue(&user_id, label, &caller).await
        };
        Ok(Response::new(issued_token(&issued.map_err(from_account)?)))
    }

    async fn list_tokens(
        &self,
        request: Request<ListTokensRequest>,
    ) -> Result<Response<ListTokensResponse>, Status> {
        let account = self.account(request.extensions()).await?;
        let tokens = account.state.tokens.iter().map(|(id, token)| Token {
            id: id.clone(),
            label: token.label.clone(),
            issued_at_ms: account.issued_us.get(id).map_or(0, |us| us / 1_000),
            revoked: token.revoked,
            sign_in: token.sign_in,
        });
        Ok(Response::new(ListTokensResponse {
            tokens: tokens.collect(),
        }))
    }

    async fn revoke_token(
        &self,
        request: Request<RevokeTokenRequest>,
    ) -> Result<Response<RevokeTokenResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let user_id = caller.user()?.to_owned();
        let token_id = &request.get_ref().token_id;
        let key = self
            .accounts
            .revoke(&user_id, token_id, &caller)
            .await
            .map_err(from_account)?;
        Ok(Response::new(RevokeTokenResponse {
            offset_key: key.to_string(),
        }))
    }

    async fn list_passkeys(
        &self,
        request: Request<ListPasskeysRequest>,
    ) -> Result<Response<ListPasskeysResponse>, Status> {
        let account = self.account(request.extensions()).await?;
        let ms = |at: &HashMap<String, i64>, id| at.get(id).map_or(0, |us| us / 1_000);
        let passkeys = account.state.live_passkeys().map(|(id, passkey)| Passkey {
            id: id.to_owned(),
            name: passkey.name.clone(),
            host: passkey.host.clone(),
            added_at_ms: ms(&account.added_us, id),
            used_at_ms: ms(&account.used_us, id),
            is_copied: passkey.is_copied,
        });
        Ok(Response::new(ListPasskeysResponse {
            passkeys: passkeys.collect(),
        }))
    }

    async fn remove_passkey(
        &self,
        request: Request<RemovePasskeyRequest>,
    ) -> Result<Response<RemovePasskeyResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let user_id = caller.user()?.to_owned();
        let passkey_id = &request.get_ref().passkey_id;
        let key = self
            .accounts
            .remove_passkey(&user_id, passkey_id, &caller)
            .await
            .map_err(from_account)?;
        Ok(Response::new(RemovePasskeyResponse {
            offset_key: key.to_string(),
        }))
    }

    type EventsStream = Events;

    async fn events(
        &self,
        request: Request<AccountEventsRequest>,
    ) -> Result<Response<Events>, Status> {
        let account = self.account(request.extensions()).await?;
        let request = request.into_inner();
        let selection = Selection {
            log: account.log,
            from: request.from_offset,
            streams: request.streams,
            follow: !request.no_follow,
            fault: None,
        };
        let events = stream::open(self.store.clone(), selection, self.stop.clone()).await?;
        Ok(Response::new(Box::pin(events)))
    }

    async fn audit(&self, request: Request<AuditRequest>) -> Result<Response<AuditPage>, Status> {
        let account = self.account(request.extensions()).await?;
        let request = request.into_inner();
        let size = page_size(request.page_size);
        let (user, token) = (&account.user_id, page_token(&request.page_token));
        let page = if request.newest_first {
            self.views.audit_back(user, token, size).await
        } else {
            self.views.audit(user, token, size).await
        };
        let page = page.map_err(|error| status::internal(&error))?;
        Ok(Response::new(AuditPage {
            entries: page.items.into_iter().map(Into::into).collect(),
            next_page_token: page.next.unwrap_or_default(),
        }))
    }

    async fn delete(
        &self,
        request: Request<DeleteUserRequest>,
    ) -> Result<Response<DeleteUserResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let request = request.into_inner();
        let is_own = matches!(&caller, Caller::User { user_id, .. } if *user_id == request.user_id);
        if !is_own {
            caller.admin()?;
        }
        let directory = self.accounts.directory().await.map_err(from_account)?;
        let user = directory.state.by_id(&request.user_id).ok_or_else(|| {
            status::status(Code::NotFound, "NO_SUCH_USER", "there is no such user")
        })?;
        // Of one who is leaving the name may be erased already.
        if !user.leaving && user.name != request.confirm_name {
            return Err(status::bad_field(
                "confirm_name",
                "is not the name of this user",
            ));
        }
        let deletion = self
            .eraser
            .delete(&request.user_id, request.force, &caller)
            .await
            .map_err(|error| erase::from_erase(&error))?;
        Ok(Response::new(DeleteUserResponse {
            deleted: deletion == Deletion::Done,
            waiting_for: deletion.waits_for(),
        }))
    }

    async fn usage(
        &self,
        request: Request<UsageRequest>,
    ) -> Result<Response<UsageResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let asked = request.get_ref();
        let report = Report::new(&asked.group_by, &asked.from_day, &asked.to_day);
        let mut report = report.map_err(|error| {
            status::status(Code::InvalidArgument, "BAD_REPORT", error.to_string())
        })?;
        let users = if asked.everybody {
            caller.admin()?;
            let accounts = self.accounts.list().await.map_err(from_account)?;
            accounts.into_iter().map(|one| one.user_id).collect()
        } else if asked.user_id.is_empty() || caller.user().is_ok_and(|own| own == asked.user_id) {
            vec![caller.user()?.to_owned()]
        } else {
            caller.admin()?;
            let account = self.accounts.account(&asked.user_id).await;
            vec![account.map_err(from_account)?.user_id]
        };
        let mut awake = Vec::new();
        for user_id in users {
            let of_user = self.views.awake(&user_id).await;
            let of_user = of_user.map_err(|error| status::internal(&error))?;
            awake.extend(usage::awake(
                &user_id,
                of_user,
                self.clock.now_us(),
                &report,
            ));
            let rows = self.views.usage(&user_id).await;
            let routines = self.views.routines(&user_id).await;
            let routines = Callers::new(routines.map_err(|error| status::internal(&error))?);
            for row in rows.map_err(|error| status::internal(&error))? {
                report.add(UsageRow {
                    user_id: user_id.clone(),
                    routine_id: routines.of(&row.box_id, &row.agent_id),
                    ..row.into()
                });
            }
        }
        Ok(Response::new(UsageResponse {
            rows: report.rows(),
            awake,
        }))
    }
}

impl Users {
    async fn account(&self, extensions: &http::Extensions) -> Result<Account, Status> {
        let caller = Caller::of(extensions);
        self.accounts
            .account(caller.user()?)
            .await
            .map_err(from_account)
    }
}

fn user(account: &Account) -> User {
    User {
        id: account.user_id.clone(),
        name: account.state.name.clone(),
        admin: account.state.admin,
        created_at_ms: account.created_us / 1_000,
    }
}

fn issued_token(issued: &Issued) -> IssuedToken {
    IssuedToken {
        user: Some(user(&issued.account)),
        token_id: issued.token_id.clone(),
        token: issued.token.reveal(),
        offset_key: issued.key.to_string(),
    }
}

fn label(label: &str) -> Result<&str, Status> {
    if label.len() > LABEL_BYTES_MAX || label.chars().any(char::is_control) {
        return Err(status::bad_field(
            "label",
            "at most 100 bytes without control characters",
        ));
    }
    Ok(if label.is_empty() {
        LABEL_DEFAULT
    } else {
        label
    })
}

/// Reads a page size; 0 is the default.
pub fn page_size(asked: u32) -> usize {
    match usize::try_from(asked) {
        Ok(0) | Err(_) => PAGE_DEFAULT,
        Ok(size) => size.min(PAGE_MAX),
    }
}

/// Reads a page token; empty is the first page.
pub fn page_token(token: &str) -> Option<&str> {
    Some(token).filter(|token| !token.is_empty())
}

/// Reads a command id that a caller may leave empty.
/// A command as it comes from a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) command: CommandId,
    /// The client chose the id, so as to send it again if it hears no answer.
    pub(crate) may_come_again: bool,
}

pub(crate) fn asked(text: &str, ids: &dyn Ids) -> Result<Asked, Status> {
    Ok(Asked {
        command: command_id(text, ids)?,
        may_come_again: !text.is_empty(),
    })
}

pub fn command_id(text: &str, ids: &dyn Ids) -> Result<CommandId, Status> {
    if text.is_empty() {
        return Ok(CommandId(ids.draw()));
    }
    text.parse()
        .map_err(|_| status::bad_field("command_id", "not a UUID"))
}

pub(crate) fn from_account(error: AccountError) -> Status {
    match error {
        AccountError::NoSuchUser(_) => {
            status::status(Code::NotFound, "NO_SUCH_USER", "there is no such user")
        }
        AccountError::Directory(error) => status::from_execute(error, from_directory),
        AccountError::User(error) => status::from_execute(error, from_user),
        AccountError::Log(error) => status::from_append(error),
        AccountError::Refused(refused) => {
            let why = status::describe(&refused);
            status::status(Code::PermissionDenied, "PASSKEY_REFUSED", why)
        }
        AccountError::UnknownPasskey => {
            status::status(Code::NotFound, "NO_SUCH_PASSKEY", error.to_string())
        }
        AccountError::CopiedPasskey => {
            status::status(Code::PermissionDenied, "PASSKEY_COPIED", error.to_string())
        }
        AccountError::Load(_)
        | AccountError::Read(_)
        | AccountError::Vault(_)
        | AccountError::Stream(_) => status::internal(&error),
    }
}

fn from_directory(rejection: directory::Rejection) -> Status {
    use directory::Rejection as R;
    match rejection {
        R::NameTaken { .. } => {
            status::status(Code::AlreadyExists, "NAME_TAKEN", rejection.to_string())
        }
        R::BadName(error) => status::bad_field("name", error.to_string()),
        R::EmptyUserId => status::bad_field("user_id", "is empty"),
        R::NoSuchUser { .. } => {
            status::status(Code::NotFound, "NO_SUCH_USER", "there is no such user")
        }
        R::LastAdmin => status::status(
            Code::FailedPrecondition,
            "LAST_ADMIN",
            rejection.to_string(),
        ),
    }
}

fn from_user(rejection: user::Rejection) -> Status {
    use user::Rejection as R;
    match rejection {
        R::NotFound | R::Deleted | R::OtherUser { .. } => {
            status::status(Code::NotFound, "NO_SUCH_USER", "there is no such user")
        }
        R::BadName(error) => status::bad_field("label", error.to_string()),
        R::Empty { field } => status::bad_field(field, "is empty"),
        R::TooManyTokens => status::status(
            Code::ResourceExhausted,
            "TOO_MANY_TOKENS",
            rejection.to_string(),
        ),
        R::NoSuchToken { .. } => {
            status::status(Code::NotFound, "NO_SUCH_TOKEN", rejection.to_string())
        }
        R::TokenRevoked { .. } => status::status(
            Code::FailedPrecondition,
            "TOKEN_REVOKED",
            rejection.to_string(),
        ),
        R::NoSuchLink => status::status(
            Code::FailedPrecondition,
            "NO_SUCH_LINK",
            "this sign-in link was used, or is too old; get another with `cocoonbox console`",
        ),
        R::NoSuchPasskey { .. } => {
            status::status(Code::NotFound, "NO_SUCH_PASSKEY", rejection.to_string())
        }
        R::PasskeyKnown => {
            status::status(Code::AlreadyExists, "PASSKEY_KNOWN", rejection.to_string())
        }
        R::TooManyPasskeys => status::status(
            Code::ResourceExhausted,
            "TOO_MANY_PASSKEYS",
            rejection.to_string(),
        ),
        R::ChallengeSpent => status::status(
            Code::PermissionDenied,
            "NOT_ASKED",
            "this was answered before; try again",
        ),
    }
}
