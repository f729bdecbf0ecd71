//! `snapshots`, `files ls`, `files cat` and `files diff`.

use std::path::Path;

use cocoonbox_proto::control::v1::{
    BrowseSnapshotRequest, DiffRequest, Difference, FileEntry, ListSnapshotsRequest, Moment,
    ReadFileRequest, Snapshot, difference::Change, file_entry::Kind, moment::Moment as Said,
};
use serde_json::{Value, json};
use tonic::Request;

use super::{lossy, moment, path as in_box, save};
use crate::{
    capsule::size,
    cli::{BoxOption, files::At},
    client::{Client, repeat, request},
    context::Context,
    exit::Exit,
    failure::Failure,
    target, text,
};

/// Snapshots of one answer.
const PAGE: u32 = 1_000;

pub(super) async fn list(ctx: &mut Context, name: &str) -> Result<Exit, Failure> {
    let client = ctx.client().await?;
    let found = target::find(&client, name).await?;
    let mut page_token = String::new();
    let mut is_first = true;
    loop {
        let call = ListSnapshotsRequest {
            box_id: found.id.clone(),
            page_size: PAGE,
            page_token,
            at_least: String::new(),
        };
        let answer = repeat(|| {
            let (mut capsule, call) = (client.capsule(), request(call.clone()));
            async move { capsule.list_snapshots(call).await }
        })
        .await?;
        if is_first && answer.snapshots.is_empty() && !ctx.out.json {
            ctx.out.note("nothing is saved yet; `cocoonbox save` saves");
        }
        is_first = false;
        for snapshot in &answer.snapshots {
            ctx.out.answer(&record(snapshot), line(snapshot))?;
        }
        if answer.next_page_token.is_empty() {
            return Ok(Exit::Ok);
        }
        page_token = answer.next_page_token;
    }
}

pub(super) fn line(snapshot: &Snapshot) -> String {
    let before = match snapshot.tool_call_id.as_str() {
        "" => String::new(),
        call => format!("  before {call}"),
    };
    format!(
        "{}  {}  {:<9}  {:>8} files  {:>7} changed  {:>9}  +{}{}{before}",
        snapshot.id,
        text::moment(snapshot.started_ms),
        snapshot.reason,
        snapshot.files,
        snapshot.files_changed,
        size(snapshot.bytes),
        size(snapshot.bytes_added),
        if snapshot.pinned { "  pinned" } else { "" },
    )
}

pub(super) fn record(snapshot: &Snapshot) -> Value {
    json!({
        "id": snapshot.id,
        "box_id": snapshot.box_id,
        "parent_id": snapshot.parent_id,
        "reason": snapshot.reason,
        "tool_call_id": snapshot.tool_call_id,
        "pinned": snapshot.pinned,
        "started_ms": snapshot.started_ms,
        "ended_ms": snapshot.ended_ms,
        "files": snapshot.files,
        "directories": snapshot.directories,
        "bytes": snapshot.bytes,
        "files_changed": snapshot.files_changed,
        "bytes_added": snapshot.bytes_added,
        "left_out": snapshot.left_out,
        "not_saved": snapshot.not_saved,
        "unsettled": snapshot.unsettled,
        "box_offset_key": snapshot.box_offset_key,
        "offset_key": snapshot.offset_key,
    })
}

pub(super) async fn ls(
    ctx: &mut Context,
    of: &BoxOption,
    at: &At,
    path: Option<&Path>,
) -> Result<Exit, Failure> {
    let path = path.map(in_box).transpose()?.unwrap_or_default();
    let mut at = moment(&at.at)?;
    let client = ctx.client().await?;
    let found = target::find(&client, &of.box_name).await?;
    let mut after = Vec::new();
    loop {
        let call = BrowseSnapshotRequest {
            box_id: found.id.clone(),
            at: at.clone(),
            path: path.clone(),
            page_size: 0,
            after,
        };
        let answer = repeat(|| {
            let (mut capsule, call) = (client.capsule(), request(call.clone()));
            async move { capsule.browse_snapshot(call).await }
        })
        .await?;
        for entry in &answer.entries {
            show(ctx, entry)?;
        }
        if answer.next_after.is_empty() {
            return Ok(Exit::Ok);
        }
        // All pages are of one snapshot, whatever is saved meanwhile.
        at = answer
            .snapshot
            .map(|snapshot| said(Said::SnapshotId(snapshot.id)));
        after = answer.next_after;
    }
}

fn said(moment: Said) -> Moment {
    Moment {
        moment: Some(moment),
    }
}

fn show(ctx: &mut Context, entry: &FileEntry) -> Result<(), Failure> {
    let (kind, bytes) = match entry.kind() {
        Kind::Folder => ("directory", entry.bytes),
        Kind::Symlink => ("symlink", entry.size),
        Kind::File | Kind::Unspecified => ("file", entry.size),
    };
    if ctx.out.json {
        let mut value = json!({
            "name": lossy(&entry.name),
            "kind": kind,
            "bytes": bytes,
            "mode": format!("{:04o}", entry.mode),
            "uid": entry.uid,
            "gid": entry.gid,
            "mtime_ns": entry.mtime_ns,
        });
        if entry.kind() == Kind::Symlink {
            value["target"] = lossy(&entry.target).into();
        }
        if entry.kind() == Kind::Folder {
            value["files"] = entry.files.into();
        }
        if entry.unsettled {
            value["unsettled"] = true.into();
        }
        return ctx.out.value(&value);
    }
    let mut line = format!(
        "{}{:04o} {:>5} {:>5} {:>12} {} {}",
        &kind[..1],
        entry.mode,
        entry.uid,
        entry.gid,
        bytes,
        text::moment(entry.mtime_ns.div_euclid(1_000_000)),
        lossy(&entry.name),
    );
    if entry.kind() == Kind::Symlink {
        line.push_str(" -> ");
        line.push_str(&lossy(&entry.target));
    }
    if entry.unsettled {
        line.push_str("  (changed while it was read)");
    }
    ctx.out.line(line)
}

pub(super) async fn cat(
    ctx: &mut Context,
    of: &BoxOption,
    at: &At,
    path: &Path,
) -> Result<Exit, Failure> {
    let (path, at) = (in_box(path)?, moment(&at.at)?);
    let client = ctx.client().await?;
    let found = target::find(&client, &of.box_name).await?;
    let call = ReadFileRequest {
        box_id: found.id,
        at,
        path,
        offset: 0,
    };
    let answer = client.capsule().read_file(Request::new(call)).await?;
    let mut parts = answer.into_inner();
    while let Some(part) = parts.message().await? {
        ctx.out.bytes(&part.data)?;
    }
    Ok(Exit::Ok)
}

pub(super) async fn diff(
    ctx: &mut Context,
    of: &BoxOption,
    (before, after): (&str, &str),
    path: Option<&Path>,
) -> Result<Exit, Failure> {
    let path = path.map(in_box).transpose()?.unwrap_or_default();
    // Before anything is saved: `latest` is the last one that is there now.
    let client = ctx.client().await?;
    let found = target::find(&client, &of.box_name).await?;
    let before = pinned(&client, &found.id, moment(before)?).await?;
    let after = if after == "now" {
        let progress = ctx.out.progress(format!("saving {}", found.name));
        let saved = save::run(&client, &found.id, true, &progress).await;
        drop(progress);
        let id = saved?.snapshot.map(|snapshot| snapshot.id);
        id.map(|id| said(Said::SnapshotId(id)))
    } else {
        moment(after)?
    };
    let call = DiffRequest {
        box_id: found.id,
        before: Some(before),
        after,
        path,
    };
    let answer = client.capsule().diff(Request::new(call)).await?;
    let mut pages = answer.into_inner();
    while let Some(page) = pages.message().await? {
        if let (Some(before), Some(after)) = (&page.before, &page.after) {
            ctx.out.note(format!(
                "from {} ({}) to {} ({})",
                before.id,
                text::moment(before.started_ms),
                after.id,
                text::moment(after.started_ms)
            ));
        }
        for one in &page.differences {
            ctx.out.answer(&difference(one), difference_line(one))?;
        }
    }
    Ok(Exit::Ok)
}

/// The snapshot that a moment names now.
async fn pinned(client: &Client, box_id: &str, at: Option<Moment>) -> Result<Moment, Failure> {
    let call = BrowseSnapshotRequest {
        box_id: box_id.to_owned(),
        at,
        ..BrowseSnapshotRequest::default()
    };
    let answer = repeat(|| {
        let (mut capsule, call) = (client.capsule(), request(call.clone()));
        async move { capsule.browse_snapshot(call).await }
    })
    .await?;
    let id = answer.snapshot.unwrap_or_default().id;
    Ok(said(Said::SnapshotId(id)))
}

fn letter(change: Change) -> (&'static str, &'static str) {
    match change {
        Change::Added => ("+", "added"),
        Change::Removed => ("-", "removed"),
        Change::Kind => ("K", "kind"),
        Change::Meta => ("m", "meta"),
        Change::Content | Change::Unspecified => ("M", "content"),
    }
}

fn difference_line(of: &Difference) -> String {
    format!("{} {}", letter(of.change()).0, lossy(&of.path))
}

fn difference(of: &Difference) -> Value {
    json!({
        "path": lossy(&of.path),
        "change": letter(of.change()).1,
        "bytes_before": of.bytes_before,
        "bytes_after": of.bytes_after,
    })
}
