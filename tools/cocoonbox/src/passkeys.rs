//! Passkeys: what signs browsers in to the console.

use cocoonbox_proto::{
    control::v1::{ListPasskeysRequest, Passkey, RemovePasskeyRequest},
    json,
};

use crate::{
    cli::users as cli,
    client::{repeat, request},
    context::Context,
    exit::Exit,
    failure::Failure,
    text,
};

pub async fn passkey(ctx: &mut Context, command: cli::Passkey) -> Result<Exit, Failure> {
    let client = ctx.client().await?;
    match command {
        cli::Passkey::List => {
            let answer = repeat(|| {
                let mut users = client.users();
                async move { users.list_passkeys(request(ListPasskeysRequest {})).await }
            })
            .await?;
            let rows: Vec<Vec<String>> = answer.passkeys.iter().map(row).collect();
            let value = json::render_message("cocoonbox.control.v1.ListPasskeysResponse", &answer);
            let table = text::table(&["ID", "ADDED", "LAST USED", "AT", "NAME"], &rows);
            ctx.out.answer(&value.unwrap_or_default(), table)?;
        }
        cli::Passkey::Remove { passkey_id } => {
            let call = RemovePasskeyRequest {
                passkey_id: passkey_id.clone(),
            };
            let answer = repeat(|| {
                let (mut users, call) = (client.users(), request(call.clone()));
                async move { users.remove_passkey(call).await }
            })
            .await?;
            let value = json::render_message("cocoonbox.control.v1.RemovePasskeyResponse", &answer);
            ctx.out
                .answer(&value.unwrap_or_default(), format!("removed {passkey_id}"))?;
        }
    }
    Ok(Exit::Ok)
}

fn row(passkey: &Passkey) -> Vec<String> {
    let used = match passkey.used_at_ms {
        0 => "never".to_owned(),
        ms => text::moment(ms),
    };
    vec![
        passkey.id.clone(),
        text::moment(passkey.added_at_ms),
        used,
        passkey.host.clone(),
        passkey.name.clone(),
    ]
}
