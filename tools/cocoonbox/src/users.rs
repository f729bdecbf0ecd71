//! People and their tokens; and what happened to them.

use cocoonbox_proto::{
    control::v1::{
        AuditRequest, CreateUserRequest, DeleteUserRequest, IssueTokenRequest, IssuedToken,
        ListTokensRequest, ListUsersRequest, RevokeTokenRequest, User, WhoAmIRequest,
    },
    json,
};
use serde_json::Value;

use crate::{
    cli::{DEFAULT_API, users as cli},
    client::{Client, repeat, request},
    context::Context,
    credentials::Login,
    exit::Exit,
    failure::Failure,
    prompt, text,
};

const AUDIT_PAGE: u32 = 500;

pub async fn login(ctx: &mut Context) -> Result<Exit, Failure> {
    let api = ctx.global.api.clone();
    let token = prompt::secret(&mut ctx.out, &format!("token for {api}: "))?;
    let client = Client::connect(&api, Some(&token)).await?;
    let user = who(&client).await?;
    let login = Login {
        token,
        token_id: String::new(),
        user: user.name.clone(),
    };
    ctx.credentials().put(&api.to_string(), &login)?;
    ctx.out.answer(
        &user_json(&user),
        format!("logged in to {api} as {}", user.name),
    )?;
    Ok(Exit::Ok)
}

pub fn logout(ctx: &mut Context) -> Result<Exit, Failure> {
    let api = ctx.global.api.to_string();
    let was = ctx.credentials().remove(&api)?;
    let line = if was {
        format!("logged out of {api}")
    } else {
        format!("there was no token for {api}")
    };
    ctx.out.answer(&serde_json::json!({"removed": was}), line)?;
    Ok(Exit::Ok)
}

pub async fn whoami(ctx: &mut Context) -> Result<Exit, Failure> {
    let client = ctx.client().await?;
    let user = who(&client).await?;
    let role = if user.admin { " (admin)" } else { "" };
    ctx.out.answer(
        &user_json(&user),
        format!("{}{role}\t{}", user.name, user.id),
    )?;
    Ok(Exit::Ok)
}

pub async fn console(ctx: &mut Context, args: cli::Console) -> Result<Exit, Failure> {
    let api = ctx.global.api.clone();
    let reached = api.host_port().map(|_| api.to_string());
    let at = args.at.or(reached);
    let at = at.unwrap_or_else(|| DEFAULT_API.to_owned());
    let client = ctx.client().await?;
    let call = IssueTokenRequest {
        label: "sign-in link".to_owned(),
        sign_in: true,
    };
    let issued = client
        .users()
        .issue_token(request(call))
        .await?
        .into_inner();
    let link = format!("{}/#sign-in={}", at.trim_end_matches('/'), issued.token);
    ctx.out
        .note("signs a browser in as you, once, within ten minutes:");
    ctx.out.answer(&serde_json::json!({"link": link}), &link)?;
    Ok(Exit::Ok)
}

pub async fn token(ctx: &mut Context, command: cli::Token) -> Result<Exit, Failure> {
    let client = ctx.client().await?;
    match command {
        cli::Token::Issue { label } => {
            let issued = client
                .users()
                .issue_token(request(IssueTokenRequest {
                    label,
                    sign_in: false,
                }))
                .await?;
            issued_once(ctx, &issued.into_inner())?;
        }
        cli::Token::List => {
            let answer = repeat(|| {
                let mut users = client.users();
                async move { users.list_tokens(request(ListTokensRequest {})).await }
            })
            .await?;
            let row = |token: &cocoonbox_proto::control::v1::Token| {
                let state = if token.revoked { "revoked" } else { "valid" };
                vec![
                    token.id.clone(),
                    state.to_owned(),
                    text::moment(token.issued_at_ms),
                    token.label.clone(),
                ]
            };
            let rows: Vec<Vec<String>> = answer.tokens.iter().map(row).collect();
            let value = json::render_message("cocoonbox.control.v1.ListTokensResponse", &answer);
            let table = text::table(&["ID", "STATE", "ISSUED", "LABEL"], &rows);
            ctx.out.answer(&value.unwrap_or_default(), table)?;
        }
        cli::Token::Revoke { token_id } => {
            let call = RevokeTokenRequest {
                token_id: token_id.clone(),
            };
            let answer = repeat(|| {
                let (mut users, call) = (client.users(), request(call.clone()));
                async move { users.revoke_token(call).await }
            })
            .await?;
            let value = json::render_message("cocoonbox.control.v1.RevokeTokenResponse", &answer);
            ctx.out
                .answer(&value.unwrap_or_default(), format!("revoked {token_id}"))?;
        }
    }
    Ok(Exit::Ok)
}

pub async fn user(ctx: &mut Context, command: cli::User) -> Result<Exit, Failure> {
    let client = ctx.client().await?;
    match command {
        cli::User::Create { name, admin, label } => {
            let command_id = uuid::Uuid::new_v4().to_string();
            let call = CreateUserRequest {
                name,
                admin,
                label,
                command_id,
            };
            let issued = client.users().create(request(call)).await?.into_inner();
            issued_once(ctx, &issued)?;
        }
        cli::User::Delete { name, yes, force } => delete(ctx, &client, &name, yes, force).await?,
        cli::User::List => {
            let answer = repeat(|| {
                let mut users = client.users();
                async move { users.list(request(ListUsersRequest {})).await }
            })
            .await?;
            let row = |user: &User| {
                let role = if user.admin { "admin" } else { "user" };
                vec![
                    user.name.clone(),
                    role.to_owned(),
                    user.id.clone(),
                    text::moment(user.created_at_ms),
                ]
            };
            let rows: Vec<Vec<String>> = answer.users.iter().map(row).collect();
            let value = json::render_message("cocoonbox.control.v1.ListUsersResponse", &answer);
            let table = text::table(&["NAME", "ROLE", "ID", "CREATED"], &rows);
            ctx.out.answer(&value.unwrap_or_default(), table)?;
        }
    }
    Ok(Exit::Ok)
}

/// Deletes a user and waits until it is done.
async fn delete(
    ctx: &mut Context,
    client: &Client,
    name: &str,
    yes: bool,
    force: bool,
) -> Result<(), Failure> {
    let me = who(client).await?;
    let user = if me.name == name || me.id == name {
        me
    } else {
        let list = repeat(|| {
            let mut users = client.users();
            async move { users.list(request(ListUsersRequest {})).await }
        })
        .await?;
        let mut found = list.users.into_iter();
        let found = found.find(|user| user.name == name || user.id == name);
        found.ok_or_else(|| {
            let mut failure = Failure::new(Exit::NotFound, format!("there is no user `{name}`"));
            failure.reason = Some("NO_SUCH_USER".to_owned());
            failure
        })?
    };
    if !yes {
        if !ctx.out.stdin_is_terminal {
            return Err(Failure::usage(
                "deleting needs --yes where nobody can be asked",
            ));
        }
        ctx.out.ask(&format!(
            "delete {} ({}), their boxes and all that is in them, for ever? [y/N] ",
            user.name, user.id
        ));
        if !prompt::is_yes()? {
            return Err(Failure::new(Exit::Failure, "nobody was deleted"));
        }
    }
    let call = DeleteUserRequest {
        user_id: user.id.clone(),
        confirm_name: user.name.clone(),
        force,
    };
    let answer = client.users().delete(request(call)).await?.into_inner();
    let line = if answer.deleted {
        format!("{} is deleted ({})", user.name, user.id)
    } else {
        format!(
            "{} can do nothing any more; still to be deleted: {}",
            user.name, answer.waiting_for
        )
    };
    let value = json::render_message("cocoonbox.control.v1.DeleteUserResponse", &answer);
    ctx.out.answer(&value.unwrap_or_default(), line)
}

pub async fn audit(ctx: &mut Context) -> Result<Exit, Failure> {
    let client = ctx.client().await?;
    let mut page_token = String::new();
    loop {
        let call = AuditRequest {
            page_token: std::mem::take(&mut page_token),
            page_size: AUDIT_PAGE,
            newest_first: false,
        };
        let page = repeat(|| {
            let (mut users, call) = (client.users(), request(call.clone()));
            async move { users.audit(call).await }
        })
        .await?;
        for entry in &page.entries {
            let value = json::render_message("cocoonbox.control.v1.AuditEntry", entry);
            let line = format!(
                "{}  {}  {}  {}  {}",
                text::moment(entry.at_ms),
                entry.actor,
                entry.stream,
                entry.kind,
                text::short(&entry.summary, 100),
            );
            ctx.out
                .answer(&value.unwrap_or_default(), line.trim_end())?;
        }
        if page.next_page_token.is_empty() {
            return Ok(Exit::Ok);
        }
        page_token = page.next_page_token;
    }
}

pub async fn who(client: &Client) -> Result<User, Failure> {
    repeat(|| {
        let mut users = client.users();
        async move { users.who_am_i(request(WhoAmIRequest {})).await }
    })
    .await
}

pub fn user_json(user: &User) -> Value {
    json::render_message("cocoonbox.control.v1.User", user).unwrap_or_default()
}

/// The token alone on standard output, so that it can be sent into a file.
fn issued_once(ctx: &mut Context, issued: &IssuedToken) -> Result<(), Failure> {
    let name = issued.user.clone().unwrap_or_default().name;
    ctx.out.note(format!(
        "token {} of {name}; it is shown this once:",
        issued.token_id
    ));
    let value = json::render_message("cocoonbox.control.v1.IssuedToken", issued);
    ctx.out.answer(&value.unwrap_or_default(), &issued.token)
}
