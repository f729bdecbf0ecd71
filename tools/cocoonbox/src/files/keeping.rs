//! `snapshots` and what is below it: which snapshots are kept.

use cocoonbox_proto::control::v1::{
    GetStorageRequest, PinRequest, PruneRequest, Retention, SetRetentionRequest, Storage,
    prune_progress::{Plan, Step},
};
use serde_json::json;
use tonic::{Request, Status};

use super::{
    look::{self, line, record},
    moment,
    save::{ATTEMPTS, PAUSE, is_passing},
};
use crate::{
    capsule::size,
    cli::{
        BoxOption,
        files::{Keep, Keeping, Snapshots},
    },
    client::{Client, repeat, request},
    context::Context,
    exit::Exit,
    failure::Failure,
    output::Progress,
    target, text,
};

pub async fn snapshots(ctx: &mut Context, args: Snapshots) -> Result<Exit, Failure> {
    match args.action {
        None => look::list(ctx, &args.name).await,
        Some(Keeping::Pin { target, moment }) => change(ctx, &target, &moment, Deed::Pin).await,
        Some(Keeping::Unpin { target, moment }) => change(ctx, &target, &moment, Deed::Unpin).await,
        Some(Keeping::Forget { target, id }) => change(ctx, &target, &id, Deed::Forget).await,
        Some(Keeping::Prune { dry_run }) => prune(ctx, dry_run).await,
        Some(Keeping::Usage) => usage(ctx).await,
        Some(Keeping::Keep(rule)) => keep(ctx, &rule).await,
    }
}

#[derive(Clone, Copy)]
enum Deed {
    Pin,
    Unpin,
    Forget,
}

async fn change(
    ctx: &mut Context,
    of: &BoxOption,
    text: &str,
    deed: Deed,
) -> Result<Exit, Failure> {
    let at = moment(text)?;
    let client = ctx.client().await?;
    let found = target::find(&client, &of.box_name).await?;
    let call = PinRequest {
        box_id: found.id,
        at,
        command_id: uuid::Uuid::new_v4().to_string(),
    };
    let snapshot = repeat(|| {
        let (mut capsule, call) = (client.capsule(), request(call.clone()));
        async move {
            match deed {
                Deed::Pin => capsule.pin(call).await,
                Deed::Unpin => capsule.unpin(call).await,
                Deed::Forget => capsule.forget(call).await,
            }
        }
    })
    .await?;
    let done = match deed {
        Deed::Pin => "is pinned",
        Deed::Unpin => "is kept by the rule",
        Deed::Forget => "is deleted",
    };
    let words = format!("snapshot {} {done}", snapshot.id);
    ctx.out.answer(&record(&snapshot), words)?;
    Ok(Exit::Ok)
}

async fn usage(ctx: &mut Context) -> Result<Exit, Failure> {
    let client = ctx.client().await?;
    let storage = storage(&client).await?;
    tell(ctx, &storage)
}

async fn keep(ctx: &mut Context, wanted: &Keep) -> Result<Exit, Failure> {
    let client = ctx.client().await?;
    let retention = if wanted.default {
        None
    } else {
        let is = storage(&client).await?.retention.unwrap_or_default();
        Some(Retention {
            all_hours: wanted.all_hours.unwrap_or(is.all_hours),
            hourly_days: wanted.hourly_days.unwrap_or(is.hourly_days),
            daily_days: wanted.daily_days.unwrap_or(is.daily_days),
            weekly_days: wanted.weekly_days.unwrap_or(is.weekly_days),
        })
    };
    let call = SetRetentionRequest {
        retention,
        command_id: uuid::Uuid::new_v4().to_string(),
    };
    let storage = repeat(|| {
        let (mut capsule, call) = (client.capsule(), request(call.clone()));
        async move { capsule.set_retention(call).await }
    })
    .await?;
    tell(ctx, &storage)
}

async fn storage(client: &Client) -> Result<Storage, Failure> {
    repeat(|| {
        let (mut capsule, call) = (client.capsule(), request(GetStorageRequest::default()));
        async move { capsule.get_storage(call).await }
    })
    .await
}

fn tell(ctx: &mut Context, storage: &Storage) -> Result<Exit, Failure> {
    let rule = storage.retention.unwrap_or_default();
    let value = json!({
        "bytes": storage.bytes,
        "objects": storage.objects,
        "quota_bytes": storage.quota_bytes,
        "snapshots": storage.snapshots,
        "pinned": storage.pinned,
        "swept_ms": storage.swept_ms,
        "checked_ms": storage.checked_ms,
        "damaged": storage.damaged,
        "keep": {
            "all_hours": rule.all_hours,
            "hourly_days": rule.hourly_days,
            "daily_days": rule.daily_days,
            "weekly_days": rule.weekly_days,
        },
    });
    let quota = match storage.quota_bytes {
        0 => String::new(),
        quota => format!(" of {}", size(quota)),
    };
    let mut words = vec![
        format!(
            "{} snapshots, {} pinned, in {}{quota}",
            storage.snapshots,
            storage.pinned,
            size(storage.bytes)
        ),
        format!(
            "kept: all of {} hours; then hourly for {} days, daily for {}, weekly for {}",
            rule.all_hours, rule.hourly_days, rule.daily_days, rule.weekly_days
        ),
    ];
    for (what, at_ms) in [("swept", storage.swept_ms), ("checked", storage.checked_ms)] {
        if at_ms > 0 {
            words.push(format!("{what} last: {}", text::moment(at_ms)));
        }
    }
    ctx.out.answer(&value, words.join("\n"))?;
    if storage.damaged > 0 {
        let damaged = storage.damaged;
        ctx.out.warn(format!(
            "{damaged} objects are damaged or missing; `cocoonbox audit` says which, the next save heals what boxes still have"
        ));
        return Ok(Exit::Failure);
    }
    Ok(Exit::Ok)
}

async fn prune(ctx: &mut Context, dry_run: bool) -> Result<Exit, Failure> {
    let client = ctx.client().await?;
    let call = PruneRequest {
        dry_run,
        command_id: uuid::Uuid::new_v4().to_string(),
    };
    let progress = ctx.out.progress("looking for what nobody needs");
    let mut tries = 1;
    let step = loop {
        match once(&client, &call, &progress).await {
            Err(status) if is_passing(&status) && tries < ATTEMPTS => {
                tries += 1;
                tokio::time::sleep(PAUSE).await;
            }
            step => break step?,
        }
    };
    drop(progress);
    match step {
        Step::Plan(plan) => planned(ctx, &plan),
        Step::Swept(swept) => {
            let value = json!({
                "packs_deleted": swept.packs_deleted,
                "bytes_deleted": swept.bytes_deleted,
                "objects": swept.objects,
                "bytes": swept.bytes,
            });
            let words = format!(
                "gave {} back; {} are left",
                size(swept.bytes_deleted),
                size(swept.bytes)
            );
            ctx.out.answer(&value, words)?;
            Ok(Exit::Ok)
        }
    }
}

fn planned(ctx: &mut Context, plan: &Plan) -> Result<Exit, Failure> {
    let value = json!({
        "dropped": plan.dropped.iter().map(record).collect::<Vec<_>>(),
        "snapshots": plan.snapshots,
        "chunks_needed": plan.chunks_needed,
        "chunks_dead": plan.chunks_dead,
        "packs_given_up": plan.packs_given_up,
        "packs_rewritten": plan.packs_rewritten,
        "packs_deleted": plan.packs_deleted,
        "packs_waiting": plan.packs_waiting,
    });
    let mut words: Vec<_> = plan.dropped.iter().map(line).collect();
    words.push(format!(
        "would delete {} snapshots and keep {}; give up {} packs ({} rewritten), delete {}, {} wait",
        plan.dropped.len(),
        plan.snapshots,
        plan.packs_given_up,
        plan.packs_rewritten,
        plan.packs_deleted,
        plan.packs_waiting
    ));
    ctx.out.answer(&value, words.join("\n"))?;
    Ok(Exit::Ok)
}

/// The last step of a pruning.
async fn once(client: &Client, call: &PruneRequest, progress: &Progress) -> Result<Step, Status> {
    let answer = client.capsule().prune(Request::new(call.clone())).await?;
    let mut steps = answer.into_inner();
    let mut last = None;
    while let Some(message) = steps.message().await? {
        if let Some(Step::Plan(plan)) = &message.step {
            progress.show(format!("giving {} packs up", plan.packs_given_up));
        }
        last = message.step.or(last);
    }
    last.ok_or_else(|| Status::unavailable("the answer was cut off"))
}
