//! `files restore`.

use std::path::PathBuf;

use cocoonbox_proto::control::v1::{
    RestorePathsRequest,
    restore_progress::{Restored, Step},
};
use serde_json::json;
use tonic::{Request, Status};

use super::{
    lossy, moment, path as in_box,
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
        paths: paths.clone(),
        in_place,
        command_id: uuid::Uuid::new_v4().to_string(),
    };
    let progress = ctx.out.progress("restoring");
    let done = run(&client, &call, &progress).await;
    drop(progress);
    let done = done?;
    let snapshot = done.snapshot.clone().unwrap_or_default();
    let value = json!({
        "snapshot": snapshot.id,
        "target": done.target,
        "files": done.files,
        "bytes": done.bytes,
        "replaced": done.replaced,
        "kept": done.kept,
        "problems": done.problems,
        "undo_snapshot": done.undo_snapshot_id,
    });
    ctx.out.answer(&value, words(&done))?;
    for kept in &done.kept {
        ctx.out.note(format!("what was there is in {kept}"));
    }
    if in_place && !done.undo_snapshot_id.is_empty() {
        let paths: Vec<_> = paths.iter().map(|path| quoted(path)).collect();
        ctx.out.note(format!(
            "to undo: cocoonbox files restore --box {} --in-place --at {} {}",
            found.name,
            done.undo_snapshot_id,
            paths.join(" ")
        ));
    }
    if done.problems > 0 {
        ctx.out.warn(format!(
            "{} paths are not as they were saved",
            done.problems
        ));
        return Ok(Exit::Failure);
    }
    Ok(Exit::Ok)
}

async fn run(
    client: &Client,
    call: &RestorePathsRequest,
    progress: &Progress,
) -> Result<Restored, Failure> {
    for _ in 1..ATTEMPTS {
        match once(client, call, progress).await {
            Err(status) if is_passing(&status) => tokio::time::sleep(PAUSE).await,
            done => return Ok(done?),
        }
    }
    Ok(once(client, call, progress).await?)
}

async fn once(
    client: &Client,
    call: &RestorePathsRequest,
    progress: &Progress,
) -> Result<Restored, Status> {
    let answer = client
        .capsule()
        .restore_paths(Request::new(call.clone()))
        .await?;
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

/// A path for a shell.
fn quoted(path: &[u8]) -> String {
    let path = lossy(path);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    if path.chars().all(is_plain) {
        path
    } else {
        format!("'{}'", path.replace('\'', r"'\''"))
    }
}
