//! `files restore`.

use std::path::PathBuf;

use cocoonbox_proto::control::v1::{
    RestorePathsRequest, UndoRestoreRequest,
    restore_progress::{Restored, Step},
};
use serde_json::json;
use tonic::{Request, Status};

use super::{
    moment, path as in_box,
    save::{self, ATTEMPTS, PAUSE, is_passing},
};
use crate::{
    capsule::size,
    cli::{BoxOption, files::At},
    client::Client,
    context::Context,
    exit::Exit,
    failure::Failure,
    output::Progress,
    target,
};

pub(super) async fn restore(
    ctx: &mut Context,
    of: &BoxOption,
    at: &At,
    in_place: bool,
    paths: &[PathBuf],
) -> Result<Exit, Failure> {
    let paths: Result<Vec<_>, _> = paths.iter().map(|path| in_box(path)).collect();
    let (paths, at) = (paths?, moment(&at.at)?);
    let client = ctx.client().await?;
    let found = target::find(&client, &of.box_name).await?;
    let call = RestorePathsRequest {
        box_id: found.id,
        at,
        paths,
        in_place,
        command_id: uuid::Uuid::new_v4().to_string(),
    };
    let done = run(ctx, &client, &Asked::Restore(call)).await?;
    for kept in &done.kept {
        ctx.out.note(format!("what was there is in {kept}"));
    }
    if in_place {
        let (name, id) = (found.name, &done.restore_id);
        ctx.out
            .note(format!("to undo: cocoonbox files undo --box {name} {id}"));
    }
    Ok(problems(ctx, &done))
}

/// Takes a restore in place back, the last one if none is named.
pub(super) async fn undo(
    ctx: &mut Context,
    of: &BoxOption,
    restore_id: String,
) -> Result<Exit, Failure> {
    let client = ctx.client().await?;
    let found = target::find(&client, &of.box_name).await?;
    let call = UndoRestoreRequest {
        box_id: found.id,
        restore_id,
        command_id: uuid::Uuid::new_v4().to_string(),
    };
    let done = run(ctx, &client, &Asked::Undo(call)).await?;
    for kept in &done.kept {
        ctx.out.note(format!(
            "what was changed since and stood in the way is in {kept}"
        ));
    }
    if done.stayed > 0 {
        let before = done.snapshot.as_ref().map(|one| one.id.clone());
        let before = before.unwrap_or_default();
        ctx.out.note(format!(
            "{} paths that the restore had added were changed since and stay; to see them: cocoonbox files diff \
             --box {} {before} now",
            done.stayed, found.name
        ));
    }
    Ok(problems(ctx, &done))
}

fn problems(ctx: &mut Context, done: &Restored) -> Exit {
    if done.problems == 0 {
        return Exit::Ok;
    }
    ctx.out.warn(format!(
        "{} paths are not as they were saved",
        done.problems
    ));
    Exit::Failure
}

/// What a restore is asked for by.
enum Asked {
    Restore(RestorePathsRequest),
    Undo(UndoRestoreRequest),
}

/// Has it done, and says what came of it.
async fn run(ctx: &mut Context, client: &Client, asked: &Asked) -> Result<Restored, Failure> {
    let progress = ctx.out.progress("restoring");
    let mut tries = 1;
    let done = loop {
        match once(client, asked, &progress).await {
            Err(status) if is_passing(&status) && tries < ATTEMPTS => {
                tries += 1;
                tokio::time::sleep(PAUSE).await;
            }
            done => break done,
        }
    };
    drop(progress);
    let done = done?;
    let snapshot = done.snapshot.as_ref().map(|one| one.id.as_str());
    let mut value = json!({
        "restore": done.restore_id,
        "snapshot": snapshot.unwrap_or_default(),
        "target": done.target,
        "files": done.files,
        "bytes": done.bytes,
        "replaced": done.replaced,
        "kept": done.kept,
        "problems": done.problems,
        "undo_snapshot": done.undo_snapshot_id,
    });
    let words = match asked {
        Asked::Restore(_) => words(&done),
        Asked::Undo(_) => {
            value["removed"] = done.removed.into();
            value["stayed"] = done.stayed.into();
            format!(
                "undone: {} files are back, {} are gone",
                done.files, done.removed
            )
        }
    };
    ctx.out.answer(&value, words)?;
    Ok(done)
}

async fn once(client: &Client, asked: &Asked, progress: &Progress) -> Result<Restored, Status> {
    let mut capsule = client.capsule();
    let answer = match asked {
        Asked::Restore(call) => capsule.restore_paths(Request::new(call.clone())).await?,
        Asked::Undo(call) => capsule.undo_restore(Request::new(call.clone())).await?,
    };
    let mut steps = answer.into_inner();
    while let Some(message) = steps.message().await? {
        match message.step {
            Some(Step::Restored(done)) => return Ok(done),
            Some(Step::Saving(saving)) => drop(save::show(saving, progress)),
            Some(Step::Writing(step)) => progress.show(format!(
                "restoring: {} files, {}",
                step.files,
                size(step.bytes)
            )),
            None => {}
        }
    }
    Err(Status::unavailable("the answer was cut off"))
}

fn words(done: &Restored) -> String {
    let place = match done.target.as_str() {
        "" => "where they were".to_owned(),
        target => format!("below {target}"),
    };
    format!(
        "restored {} files, {}, {place}",
        done.files,
        size(done.bytes)
    )
}
