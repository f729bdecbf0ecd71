//! Erasing content from logs.

use cocoonbox_proto::{
    control::v1::{EraseEvent, EraseRequest, EraseResponse, PosRange, erase_request::What},
    json,
};

use crate::{
    cli::erase::Erase,
    client::{Client, repeat, request},
    context::Context,
    exit::Exit,
    failure::Failure,
    prompt, target, text,
};

/// Length of a log's id in hex.
const LOG_ID_DIGITS: usize = 32;

pub async fn erase(ctx: &mut Context, args: Erase) -> Result<Exit, Failure> {
    let client = ctx.client().await?;
    let call = EraseRequest {
        log_id: log_id(&client, &args).await?,
        what: Some(what(&args)),
        reason: args.reason,
        dry_run: true,
        // One id for all tries: it is erased once.
        command_id: uuid::Uuid::new_v4().to_string(),
    };
    if !args.yes {
        let plan = send(&client, &call).await?;
        if args.dry_run {
            return show(ctx, &plan, "would be erased");
        }
        if !ctx.out.stdin_is_terminal {
            return Err(Failure::usage(
                "erasing needs --yes where nobody can be asked",
            ));
        }
        ctx.out.note(table(&plan.erased));
        let question = format!("erase these {} for ever? [y/N] ", plan.erased.len());
        ctx.out.ask(&question);
        if !prompt::is_yes()? {
            return Err(Failure::new(Exit::Failure, "nothing was erased"));
        }
    }
    let call = EraseRequest {
        dry_run: false,
        ..call
    };
    let done = send(&client, &call).await?;
    if !done.complete {
        ctx.out
            .note("the box holds its own copy and does not run: it erases it at its next wake");
    }
    show(ctx, &done, "erased")
}

async fn send(client: &Client, call: &EraseRequest) -> Result<EraseResponse, Failure> {
    repeat(|| {
        let (mut erasure, call) = (client.erasure(), request(call.clone()));
        async move { erasure.erase(call).await }
    })
    .await
}

fn show(ctx: &mut Context, answer: &EraseResponse, done: &str) -> Result<Exit, Failure> {
    let mut lines = vec![format!(
        "{} {done}, {} kept",
        answer.erased.len(),
        answer.kept.len()
    )];
    let events = [&answer.erased[..], &answer.kept[..]].concat();
    if !events.is_empty() {
        lines.push(table(&events));
    }
    let value = json::render_message("cocoonbox.control.v1.EraseResponse", answer);
    ctx.out
        .answer(&value.unwrap_or_default(), lines.join("\n"))?;
    Ok(Exit::Ok)
}

fn table(events: &[EraseEvent]) -> String {
    let rows: Vec<Vec<String>> = events
        .iter()
        .map(|event| {
            vec![
                event.offset_key.clone(),
                event.stream.clone(),
                event.kind.clone(),
                event.bytes.to_string(),
                event.kept_because.clone(),
            ]
        })
        .collect();
    text::table(
        &["OFFSET KEY", "STREAM", "KIND", "BYTES", "KEPT BECAUSE"],
        &rows,
    )
}

fn what(args: &Erase) -> What {
    match (&args.item, &args.stream, args.from, args.to) {
        (Some(key), _, _, _) => What::Item(key.clone()),
        (None, Some(stream), _, _) => What::Stream(stream.clone()),
        (None, None, from, to) => What::Range(PosRange {
            first: from.unwrap_or_default(),
            last: to.unwrap_or_default(),
        }),
    }
}

/// The account's log has an empty name on the wire.
async fn log_id(client: &Client, args: &Erase) -> Result<String, Failure> {
    let is_id = args.log.len() == LOG_ID_DIGITS && args.log.chars().all(|c| c.is_ascii_hexdigit());
    if args.item.is_some() || args.log == "account" {
        return Ok(String::new());
    }
    if is_id {
        return Ok(args.log.clone());
    }
    Ok(target::find(client, &args.log).await?.log_id)
}
