//! Shares: links by which others look at a box.

use std::time::Duration;

use cocoonbox_events::{Clock as _, SystemClock};
use cocoonbox_proto::{
    control::v1::{
        CreateShareRequest, ListSharesRequest, RegenerateShareRequest, RevokeShareRequest, Share,
        ShareState,
    },
    json,
};
use serde_json::Value;

use crate::{
    cli::{DEFAULT_API, shares as cli},
    client::{Client, repeat, request},
    context::Context,
    exit::Exit,
    failure::Failure,
    target, text,
};

pub async fn share(ctx: &mut Context, command: cli::Share) -> Result<Exit, Failure> {
    let client = ctx.client().await?;
    match command {
        cli::Share::Create {
            target,
            label,
            for_user,
            expires,
            place,
        } => {
            let call = CreateShareRequest {
                box_id: target::find(&client, &target.box_name).await?.id,
                label,
                for_user: for_user.unwrap_or_default(),
                expires_at_ms: expires.map(from_now),
                command_id: uuid::Uuid::new_v4().to_string(),
            };
            let share = repeat(|| {
                let (mut shares, call) = (client.shares(), request(call.clone()));
                async move { shares.create(call).await }
            })
            .await?;
            ctx.out
                .note("whoever opens this sees the screen of the box, until you revoke it:");
            one(ctx, &share, &place)?;
        }
        cli::Share::List {
            box_name,
            ended,
            place,
        } => {
            let box_id = match box_name {
                Some(name) => target::find(&client, &name).await?.id,
                None => String::new(),
            };
            let shares = all(&client, &box_id, ended).await?;
            let at = at(ctx, &place);
            let rows: Vec<Vec<String>> = shares.iter().map(|share| row(share, &at)).collect();
            let values: Vec<Value> = shares.iter().map(|share| value(share, &at)).collect();
            let heads = [
                "ID", "STATE", "BOX", "OPENED", "LAST", "ENDS", "FOR", "LABEL", "LINK",
            ];
            let table = text::table(&heads, &rows);
            ctx.out
                .answer(&serde_json::json!({ "shares": values }), table)?;
        }
        cli::Share::Revoke { share_id } => {
            let call = RevokeShareRequest {
                box_id: box_of(&client, &share_id).await?,
                share_id,
            };
            let answer = repeat(|| {
                let (mut shares, call) = (client.shares(), request(call.clone()));
                async move { shares.revoke(call).await }
            })
            .await?;
            let value = json::render_message("cocoonbox.control.v1.RevokeShareResponse", &answer);
            let text = format!("revoked {}", call.share_id);
            ctx.out.answer(&value.unwrap_or_default(), text)?;
        }
        cli::Share::Regenerate { share_id, place } => {
            let call = RegenerateShareRequest {
                box_id: box_of(&client, &share_id).await?,
                share_id,
                command_id: uuid::Uuid::new_v4().to_string(),
            };
            let share = repeat(|| {
                let (mut shares, call) = (client.shares(), request(call.clone()));
                async move { shares.regenerate(call).await }
            })
            .await?;
            ctx.out.note("the link before opens nothing any more:");
            one(ctx, &share, &place)?;
        }
    }
    Ok(Exit::Ok)
}

async fn all(client: &Client, box_id: &str, ended_too: bool) -> Result<Vec<Share>, Failure> {
    let call = ListSharesRequest {
        box_id: box_id.to_owned(),
        ended_too,
    };
    let answer = repeat(|| {
        let (mut shares, call) = (client.shares(), request(call.clone()));
        async move { shares.list(call).await }
    })
    .await?;
    Ok(answer.shares)
}

/// A share is named by its id alone, and asked for with its box's.
async fn box_of(client: &Client, share_id: &str) -> Result<String, Failure> {
    let shares = all(client, "", true).await?;
    let found = shares.into_iter().find(|share| share.id == share_id);
    found.map(|share| share.box_id).ok_or_else(|| {
        let mut failure = Failure::new(Exit::NotFound, format!("there is no share `{share_id}`"))
            .advise("`cocoonbox share list` lists them");
        failure.reason = Some("NO_SUCH_SHARE".to_owned());
        failure
    })
}

fn one(ctx: &mut Context, share: &Share, place: &cli::Place) -> Result<(), Failure> {
    let at = at(ctx, place);
    let text = link(share, &at).unwrap_or_else(|| format!("{} has ended", share.id));
    ctx.out.answer(&value(share, &at), text)
}

fn at(ctx: &Context, place: &cli::Place) -> String {
    let api = &ctx.global.api;
    let reached = api.host_port().map(|_| api.to_string());
    let at = place.at.clone().or(reached);
    let at = at.unwrap_or_else(|| DEFAULT_API.to_owned());
    at.trim_end_matches('/').to_owned()
}

/// The secret stands behind the `#`, which browsers keep to themselves.
fn link(share: &Share, at: &str) -> Option<String> {
    let is_live = !share.secret.is_empty();
    is_live.then(|| format!("{at}/share#{}", share.secret))
}

fn value(share: &Share, at: &str) -> Value {
    let value = json::render_message("cocoonbox.control.v1.Share", share);
    let mut value = value.unwrap_or_default();
    if let (Some(fields), Some(link)) = (value.as_object_mut(), link(share, at)) {
        fields.insert("link".to_owned(), link.into());
    }
    value
}

fn row(share: &Share, at: &str) -> Vec<String> {
    let state = match share.state() {
        ShareState::Live => "live",
        ShareState::Revoked => "revoked",
        ShareState::Expired => "expired",
        ShareState::Unspecified => "?",
    };
    let for_whom = match (share.for_user.as_str(), share.for_user_name.as_str()) {
        ("", _) => "anyone",
        (id, "") => id,
        (_, name) => name,
    };
    let last = share.openings.first().map(|opening| {
        let who = if opening.label.is_empty() {
            "a guest"
        } else {
            &opening.label
        };
        format!("{} {who}", text::moment(opening.at_ms))
    });
    let ends = match share.expires_at_ms {
        0 => "never".to_owned(),
        ms => text::moment(ms),
    };
    vec![
        share.id.clone(),
        state.to_owned(),
        share.box_id.clone(),
        share.opened.to_string(),
        last.unwrap_or_else(|| "never".to_owned()),
        ends,
        for_whom.to_owned(),
        share.label.clone(),
        link(share, at).unwrap_or_default(),
    ]
}

fn from_now(lasting: Duration) -> i64 {
    let lasting_ms = i64::try_from(lasting.as_millis()).unwrap_or(i64::MAX);
    (SystemClock.now_us() / 1_000).saturating_add(lasting_ms)
}
