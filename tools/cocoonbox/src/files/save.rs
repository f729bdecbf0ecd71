//! `save`.

use cocoonbox_proto::control::v1::{
    PathNote, SaveProgress, SaveRequest, Snapshot,
    save_progress::{Saved, Step},
};
use serde_json::{Value, json};
use tonic::{Code, Request, Status};
use tonic_types::StatusExt as _;

use super::{look::record, lossy};
use crate::{
    capsule::size,
    cli::files::Save,
    client::Client,
    context::Context,
    exit::Exit,
    failure::Failure,
    output::{Out, Progress},
    target,
};

/// Lines of a kind that are shown; `--json` has the rest.
const SHOWN: usize = 20;
/// A save goes on when the connection breaks; it is asked for again this often.
pub(super) const ATTEMPTS: usize = 30;
pub(super) const PAUSE: std::time::Duration = std::time::Duration::from_secs(1);

pub async fn save(ctx: &mut Context, args: Save) -> Result<Exit, Failure> {
    let client = ctx.client().await?;
    let found = target::find(&client, &args.name).await?;
    let progress = ctx.out.progress(format!("saving {}", found.name));
    let saved = run(&client, &found.id, args.if_changed, &progress).await;
    drop(progress);
    tell(&mut ctx.out, &saved?)
}

/// Saves a box and waits until it is kept.
pub(super) async fn run(
    client: &Client,
    box_id: &str,
    only_if_changed: bool,
    progress: &Progress,
) -> Result<Saved, Failure> {
    let call = SaveRequest {
        box_id: box_id.to_owned(),
        command_id: uuid::Uuid::new_v4().to_string(),
        only_if_changed,
    };
    for _ in 1..ATTEMPTS {
        match once(client, &call, progress).await {
            Err(status) if is_passing(&status) => tokio::time::sleep(PAUSE).await,
            done => return Ok(done?),
        }
    }
    Ok(once(client, &call, progress).await?)
}

/// Whether the connection broke, or the api is not there for a moment: what the api refuses it says why.
pub(super) fn is_passing(status: &Status) -> bool {
    status.code() == Code::Unavailable || status.get_error_details().error_info().is_none()
}

async fn once(client: &Client, call: &SaveRequest, progress: &Progress) -> Result<Saved, Status> {
    let answer = client.capsule().save(Request::new(call.clone())).await?;
    let mut steps = answer.into_inner();
    while let Some(message) = steps.message().await? {
        if let Some(saved) = show(message, progress) {
            return Ok(saved);
        }
    }
    Err(Status::unavailable("the answer was cut off"))
}

/// Shows how far it is; answers the last message.
pub(super) fn show(message: SaveProgress, progress: &Progress) -> Option<Saved> {
    match message.step? {
        Step::Saved(saved) => return Some(saved),
        Step::Waiting(_) => {}
        Step::Reading(step) => progress.show(format!(
            "saving: {} files, {}, {} read",
            step.files,
            size(step.bytes),
            size(step.bytes_read)
        )),
    }
    None
}

fn tell(out: &mut Out, saved: &Saved) -> Result<Exit, Failure> {
    lines(
        out,
        "left out",
        saved.snapshot.as_ref().map(|of| of.left_out),
        &saved.left_out,
    );
    lines(
        out,
        "not saved",
        saved.snapshot.as_ref().map(|of| of.not_saved),
        &saved.not_saved,
    );
    let unsettled = saved.snapshot.as_ref().map(|of| of.unsettled);
    lines(
        out,
        "changed while it was read",
        unsettled,
        &saved.unsettled,
    );
    let snapshot = saved.snapshot.clone().unwrap_or_default();
    let value = json!({
        "snapshot": record(&snapshot),
        "unchanged": saved.unchanged,
        "left_out": notes(&saved.left_out),
        "not_saved": notes(&saved.not_saved),
        "changed_while_read": notes(&saved.unsettled),
    });
    let line = if saved.unchanged {
        format!("nothing has changed since {}", snapshot.id)
    } else {
        words(&snapshot)
    };
    out.answer(&value, line)?;
    Ok(Exit::Ok)
}

fn words(snapshot: &Snapshot) -> String {
    format!(
        "saved {}: {} files, {}, of which {} files changed, {} added",
        snapshot.id,
        snapshot.files,
        size(snapshot.bytes),
        snapshot.files_changed,
        size(snapshot.bytes_added)
    )
}

fn lines(out: &mut Out, what: &str, count: Option<u64>, notes: &[PathNote]) {
    if notes.is_empty() {
        return;
    }
    out.note(format!("{what}: {}", count.unwrap_or(notes.len() as u64)));
    for note in notes.iter().take(SHOWN) {
        out.note(format!("  {} ({})", lossy(&note.path), note.why));
    }
    if notes.len() > SHOWN {
        out.note("  …");
    }
}

fn notes(notes: &[PathNote]) -> Value {
    notes
        .iter()
        .map(|note| json!({"path": lossy(&note.path), "why": note.why}))
        .collect()
}
