//! Boxes: making, waking, listing, putting to sleep, deleting.

pub mod one;

use cocoonbox_proto::control::v1::{
    self as control, BoxRef, EnsureRequest, Flavor, ForkRequest, GetBoxRequest, ListBoxesRequest,
    ListBoxesResponse, OperationEvent, Phase, State, WatchBoxesRequest, WatchRequest,
};
use cocoonbox_proto::json;
use serde_json::Value;
use tonic::Request;

use crate::{
    cli::boxes::{Delete, Ensure, Fork, Hibernate, Image},
    client::{Client, repeat, request},
    context::Context,
    exit::Exit,
    failure::Failure,
    files::moment,
    follow::{Ending, Follow},
    output::Progress,
    prompt, target, text,
};

pub async fn ensure(ctx: &mut Context, args: Ensure) -> Result<Exit, Failure> {
    let client = ctx.client().await?;
    let flavor = args.image.map_or(Flavor::Unspecified, Flavor::from);
    if args.no_wait {
        let started = start(&client, &args.name, flavor).await?;
        let line = format!("{}\t{}", started.id, started.operation_id);
        ctx.out.answer(&to_json(&started), line)?;
        return Ok(Exit::Ok);
    }
    let running = bring_up_as(ctx, &client, &args.name, flavor).await?;
    let line = format!("{} runs ({})", running.name, running.id);
    ctx.out.answer(&to_json(&running), line)?;
    Ok(Exit::Ok)
}

pub async fn list(ctx: &mut Context) -> Result<Exit, Failure> {
    let client = ctx.client().await?;
    let answer = all(&client).await?;
    if ctx.out.json {
        ctx.out.value(&list_json(&answer))?;
    } else if answer.boxes.is_empty() {
        ctx.out.note("no boxes; `cocoonbox ensure` makes one");
    } else {
        ctx.out.line(table(&answer.boxes))?;
    }
    Ok(Exit::Ok)
}

pub async fn watch(ctx: &mut Context) -> Result<Exit, Failure> {
    let client = ctx.client().await?;
    let open = Box::new(move |from_offset: String| {
        let mut boxes = client.boxes();
        let watch = Request::new(WatchBoxesRequest { from_offset });
        Box::pin(async move { boxes.watch(watch).await }) as _
    });
    let mut lists: Follow<ListBoxesResponse> =
        Follow::new(open, "", Ending::Never, ctx.global.retry_for);
    let mut drawn_lines = 0;
    while let Some(list) = lists.next().await? {
        if ctx.out.json {
            ctx.out.value(&list_json(&list))?;
            continue;
        }
        let table = table(&list.boxes);
        if ctx.out.stdout_is_terminal {
            // Over what was drawn before.
            if drawn_lines > 0 {
                ctx.out
                    .bytes(format!("\x1b[{drawn_lines}A\x1b[J").as_bytes())?;
            }
            drawn_lines = table.lines().count();
        }
        ctx.out.line(table)?;
    }
    Ok(Exit::Ok)
}

pub async fn hibernate(ctx: &mut Context, args: Hibernate) -> Result<Exit, Failure> {
    let client = ctx.client().await?;
    let found = target::find(&client, &args.name).await?;
    let call = box_ref(&found);
    let operation = repeat(|| {
        let (mut boxes, call) = (client.boxes(), request(call.clone()));
        async move { boxes.hibernate(call).await }
    })
    .await?;
    if args.no_wait {
        ctx.out.answer(&operation_json(&operation), &operation.id)?;
        return Ok(Exit::Ok);
    }
    let progress = ctx.out.progress(format!("putting {} to sleep", found.name));
    let end = finish(ctx, &client, &operation.id, &progress).await?;
    drop(progress);
    let asleep = get(&client, &found.id, &end.offset_key).await?;
    ctx.out.answer(
        &to_json(&asleep),
        format!("{} sleeps ({})", found.name, found.id),
    )?;
    Ok(Exit::Ok)
}

pub async fn fork(ctx: &mut Context, args: Fork) -> Result<Exit, Failure> {
    let moment = match &args.at {
        // The last save is a moment, too: the present would be the disks.
        Some(at) => Some(moment(at)?.unwrap_or_default()),
        None => None,
    };
    let client = ctx.client().await?;
    let found = target::find(&client, &args.source).await?;
    let call = ForkRequest {
        box_id: found.id,
        at: String::new(),
        name: args.name,
        command_id: uuid::Uuid::new_v4().to_string(),
        moment,
    };
    let made = repeat(|| {
        let (mut boxes, call) = (client.boxes(), request(call.clone()));
        async move { boxes.fork(call).await }
    })
    .await?;
    if args.no_wait {
        let line = format!("{}\t{}", made.id, made.operation_id);
        ctx.out.answer(&to_json(&made), line)?;
        return Ok(Exit::Ok);
    }
    let progress = ctx.out.progress(format!("forking {}", found.name));
    let end = finish(ctx, &client, &made.operation_id, &progress).await?;
    drop(progress);
    let running = get(&client, &made.id, &end.offset_key).await?;
    let line = format!("{} runs ({})", running.name, running.id);
    ctx.out.answer(&to_json(&running), line)?;
    Ok(Exit::Ok)
}

pub async fn delete(ctx: &mut Context, args: Delete) -> Result<Exit, Failure> {
    let client = ctx.client().await?;
    let found = target::find(&client, &args.name).await?;
    if !args.yes && !confirmed(ctx, &found)? {
        return Err(Failure::new(Exit::Failure, "nothing was deleted"));
    }
    let call = box_ref(&found);
    let operation = repeat(|| {
        let (mut boxes, call) = (client.boxes(), request(call.clone()));
        async move { boxes.delete(call).await }
    })
    .await?;
    if !args.no_wait {
        let progress = ctx.out.progress(format!("deleting {}", found.name));
        finish(ctx, &client, &operation.id, &progress).await?;
    }
    ctx.out.answer(
        &operation_json(&operation),
        format!("{} is deleted ({})", found.name, found.id),
    )?;
    Ok(Exit::Ok)
}

/// Makes or wakes a box and waits until it runs.
pub async fn bring_up(
    ctx: &mut Context,
    client: &Client,
    name: &str,
) -> Result<control::Box, Failure> {
    bring_up_as(ctx, client, name, Flavor::Unspecified).await
}

async fn bring_up_as(
    ctx: &mut Context,
    client: &Client,
    name: &str,
    flavor: Flavor,
) -> Result<control::Box, Failure> {
    let started = start(client, name, flavor).await?;
    if started.operation_id.is_empty() {
        return Ok(started);
    }
    let progress = ctx.out.progress(format!("starting {name}"));
    let end = finish(ctx, client, &started.operation_id, &progress).await?;
    drop(progress);
    get(client, &started.id, &end.offset_key).await
}

pub async fn all(client: &Client) -> Result<ListBoxesResponse, Failure> {
    repeat(|| {
        let mut boxes = client.boxes();
        async move { boxes.list(request(ListBoxesRequest::default())).await }
    })
    .await
}

async fn start(client: &Client, name: &str, flavor: Flavor) -> Result<control::Box, Failure> {
    let ensure = EnsureRequest {
        flavor: flavor.into(),
        name: name.to_owned(),
        command_id: uuid::Uuid::new_v4().to_string(),
        ..EnsureRequest::default()
    };
    repeat(|| {
        let (mut boxes, call) = (client.boxes(), request(ensure.clone()));
        async move { boxes.ensure(call).await }
    })
    .await
}

async fn get(client: &Client, box_id: &str, at_least: &str) -> Result<control::Box, Failure> {
    let call = GetBoxRequest {
        box_id: box_id.to_owned(),
        at_least: at_least.to_owned(),
    };
    repeat(|| {
        let (mut boxes, call) = (client.boxes(), request(call.clone()));
        async move { boxes.get(call).await }
    })
    .await
}

/// Follows an operation to its end and says each step; an end in failure is ours.
async fn finish(
    ctx: &mut Context,
    client: &Client,
    operation_id: &str,
    progress: &Progress,
) -> Result<OperationEvent, Failure> {
    let (client, id) = (client.clone(), operation_id.to_owned());
    let open = Box::new(move |from_offset: String| {
        let mut boxes = client.boxes();
        let watch = Request::new(WatchRequest {
            operation_id: id.clone(),
            from_offset,
        });
        Box::pin(async move { boxes.watch_operation(watch).await }) as _
    });
    let mut steps: Follow<OperationEvent> =
        Follow::new(open, "", Ending::Never, ctx.global.retry_for);
    while let Some(step) = steps.next().await? {
        match step.phase() {
            Phase::Done => return Ok(step),
            Phase::FailedPhase => return Err(operation_failure(&step.detail)),
            Phase::BackingUp | Phase::Creating | Phase::Moving | Phase::CleaningUp => {
                let words = phase_words(step.phase());
                let detail = if step.detail.is_empty() {
                    words
                } else {
                    step.detail.as_str()
                };
                progress.step(&mut ctx.out, detail);
            }
        }
    }
    Err(Failure::new(
        Exit::StreamBroke,
        "the operation's events ended before its end",
    ))
}

/// The detail of a failed operation is `REASON: words`.
fn operation_failure(detail: &str) -> Failure {
    let is_reason = |text: &str| {
        text.contains('_')
            && text
                .bytes()
                .all(|byte| byte.is_ascii_uppercase() || byte == b'_')
    };
    let (reason, words) = match detail.split_once(": ") {
        Some((reason, words)) if is_reason(reason) => (Some(reason.to_owned()), words),
        _ => (None, detail),
    };
    let mut failure = Failure::new(Exit::Failure, words)
        .advise("`cocoonbox ensure` tries again; the api's `run/api.log` has more");
    failure.reason = reason;
    failure
}

fn confirmed(ctx: &mut Context, found: &control::Box) -> Result<bool, Failure> {
    if !ctx.out.stdin_is_terminal {
        return Err(Failure::usage(
            "deleting needs --yes where nobody can be asked",
        ));
    }
    ctx.out.ask(&format!(
        "delete `{}` ({}) and everything in it? [y/N] ",
        found.name, found.id
    ));
    prompt::is_yes()
}

fn box_ref(found: &control::Box) -> BoxRef {
    BoxRef {
        box_id: found.id.clone(),
        command_id: uuid::Uuid::new_v4().to_string(),
    }
}

fn phase_words(phase: Phase) -> &'static str {
    match phase {
        Phase::BackingUp => "saving",
        Phase::Creating => "starting",
        Phase::Moving => "moving",
        Phase::CleaningUp => "cleaning up",
        Phase::Done => "done",
        Phase::FailedPhase => "failed",
    }
}

pub fn table(boxes: &[control::Box]) -> String {
    let rows: Vec<Vec<String>> = boxes
        .iter()
        .map(|one| {
            let kept = one.promises.clone().unwrap_or_default();
            vec![
                one.name.clone(),
                State::as_str_name(&one.state()).to_owned(),
                one.id.clone(),
                kept.isolation,
                text::moment(one.created_at_ms),
                text::short(said_of(one), 60),
            ]
        })
        .collect();
    text::table(&["NAME", "STATE", "ID", "ISOLATION", "CREATED", ""], &rows)
}

/// How far the desktop is; empty where there is none.
fn desktop_words(one: &control::Box) -> String {
    let desktop = one.desktop.clone().unwrap_or_default();
    match desktop.state() {
        control::desktop::State::None => String::new(),
        control::desktop::State::Starting => "starting".to_owned(),
        control::desktop::State::Ready => format!("ready (in {} ms)", desktop.ready_ms),
        control::desktop::State::Failing => {
            format!("failing: {}", text::plain(&desktop.failing.join(", ")))
        }
    }
}

impl From<Image> for Flavor {
    fn from(image: Image) -> Self {
        match image {
            Image::Core => Self::Core,
            Image::Light => Self::Light,
            Image::Desktop => Self::Desktop,
        }
    }
}

/// Why it does not run, or what a person has to know of one that does.
fn said_of(one: &control::Box) -> &str {
    if one.failure.is_empty() {
        &one.notice
    } else {
        &one.failure
    }
}

pub fn to_json(one: &control::Box) -> Value {
    json::render_message("cocoonbox.control.v1.Box", one).unwrap_or_default()
}

fn list_json(list: &ListBoxesResponse) -> Value {
    json::render_message("cocoonbox.control.v1.ListBoxesResponse", list).unwrap_or_default()
}

fn operation_json(operation: &control::Operation) -> Value {
    json::render_message("cocoonbox.control.v1.Operation", operation).unwrap_or_default()
}
