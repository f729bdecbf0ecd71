//! One box: what it is, which models its agents use, how long it stays awake.

use cocoonbox_events::{Clock as _, SystemClock};
use cocoonbox_proto::control::v1::{self as control, KeepAwakeRequest, SetBoxModelsRequest};

use super::{desktop_words, to_json};
use crate::{
    cli::boxes::{KeepAwake, OneBox, SetModels},
    client::{repeat, request},
    context::Context,
    exit::Exit,
    failure::Failure,
    models, target, text,
};

pub async fn run(ctx: &mut Context, command: OneBox) -> Result<Exit, Failure> {
    match command {
        OneBox::Show(named) => {
            let client = ctx.client().await?;
            let found = target::find(&client, &named.name).await?;
            ctx.out.answer(&to_json(&found), shown(&found).join("\n"))?;
            Ok(Exit::Ok)
        }
        OneBox::Models(args) => set_models(ctx, args).await,
        OneBox::KeepAwake(args) => keep_awake(ctx, args).await,
    }
}

async fn keep_awake(ctx: &mut Context, args: KeepAwake) -> Result<Exit, Failure> {
    let client = ctx.client().await?;
    let found = target::find(&client, &args.target.name).await?;
    let time_ms = i64::try_from(args.time.as_millis()).unwrap_or(i64::MAX);
    let until_ms = if args.release {
        0
    } else {
        (SystemClock.now_us() / 1_000).saturating_add(time_ms)
    };
    let call = KeepAwakeRequest {
        box_id: found.id,
        until_ms,
        command_id: uuid::Uuid::new_v4().to_string(),
    };
    let kept = repeat(|| {
        let (mut boxes, call) = (client.boxes(), request(call.clone()));
        async move { boxes.keep_awake(call).await }
    })
    .await?;
    ctx.out.answer(&to_json(&kept), awake_words(&kept))?;
    Ok(Exit::Ok)
}

fn awake_words(of: &control::Box) -> String {
    match of.awake_until_ms {
        0 => "not kept awake".to_owned(),
        until => format!("kept awake until {}", text::moment(until)),
    }
}

async fn set_models(ctx: &mut Context, args: SetModels) -> Result<Exit, Failure> {
    let client = ctx.client().await?;
    let found = target::find(&client, &args.target.name).await?;
    let there = found.models.clone().unwrap_or_default();
    let Some(models) = models::changed(&args.models, there).map_err(Failure::usage)? else {
        ctx.out
            .answer(&to_json(&found), model_lines(&found).join("\n"))?;
        return Ok(Exit::Ok);
    };
    let call = SetBoxModelsRequest {
        box_id: found.id,
        models: Some(models),
        command_id: uuid::Uuid::new_v4().to_string(),
    };
    let changed = repeat(|| {
        let (mut boxes, call) = (client.boxes(), request(call.clone()));
        async move { boxes.set_models(call).await }
    })
    .await?;
    ctx.out
        .answer(&to_json(&changed), model_lines(&changed).join("\n"))?;
    Ok(Exit::Ok)
}

fn shown(of: &control::Box) -> Vec<String> {
    let mut lines = vec![format!(
        "{} ({}): {}",
        of.name,
        of.id,
        of.state().as_str_name()
    )];
    let desktop = desktop_words(of);
    let said = [
        ("image", &of.image),
        ("desktop", &desktop),
        ("failure", &of.failure),
        ("notice", &of.notice),
    ];
    let said = said.iter().filter(|(_, what)| !what.is_empty());
    lines.extend(said.map(|(key, what)| format!("{key}: {what}")));
    let last = of
        .desktop
        .as_ref()
        .and_then(|desktop| desktop.last_picture.as_ref());
    if let Some((last, image)) = last.and_then(|last| Some((last, last.image.as_ref()?))) {
        let (at, name) = (text::moment(last.taken_at_ms), &image.blob);
        lines.push(format!(
            "seen last: {at}, `cocoonbox agent blob {name} -o FILE`"
        ));
    }
    let displays = of.desktop.iter().flat_map(|desktop| &desktop.displays);
    lines.extend(displays.map(|one| {
        let (number, agent) = (one.display, text::plain(&one.agent_id));
        format!("display {number}: agent {agent}, `cocoonbox screen --display {number}`")
    }));
    if of.awake_until_ms > 0 {
        lines.push(awake_words(of));
    }
    lines.extend(model_lines(of));
    lines
}

/// What agents without models of their own use, and whose choice it is.
fn model_lines(of: &control::Box) -> Vec<String> {
    let own = of.models.clone().unwrap_or_default();
    let roles = of.models_in_use.clone().unwrap_or_default();
    let owns: Vec<_> = [&own.main, &own.computer, &own.summarize]
        .into_iter()
        .flatten()
        .chain(&own.fallbacks)
        .collect();
    let lines = models::lines(&roles, |model| {
        if owns.contains(&model) {
            " (the box's)"
        } else {
            " (the installation's)"
        }
    });
    if lines.is_empty() {
        return vec!["no models: neither the box nor the installation has any".to_owned()];
    }
    lines
}
