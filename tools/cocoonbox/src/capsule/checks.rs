//! Checking and pruning.

use std::num::NonZeroUsize;

use cocoonbox_capsule::{
    check::{self, Checked},
    snapshot,
    sweep::{self, Swept},
};
use serde_json::json;

use crate::{cli::capsule::Where, context::Context, exit::Exit, failure::Failure};

use super::{
    place::{failure, open},
    reading::size,
    saving::list,
};

pub(super) fn check(
    ctx: &mut Context,
    place: &Where,
    reads_data: bool,
    slice: Option<(u8, u8)>,
    repairs: bool,
) -> Result<Exit, Failure> {
    let capsule = open(place)?;
    let progress = ctx.out.progress("checking");
    let mut report = |object: &str, at: u64, of: u64| {
        progress.show(format!("checking {at} of {of}: {object}"));
    };
    let options = check::Options {
        cancelled: None,
        reads_data,
        slice,
        progress: &mut report,
    };
    let checked = check::check(&capsule, options);
    drop(progress);
    let checked = checked.map_err(failure)?;
    let mut given_up = 0;
    if repairs && !checked.bad_packs.is_empty() {
        sweep::give_up(&capsule, &checked.bad_packs).map_err(failure)?;
        given_up = checked.bad_packs.len();
    }
    tell(ctx, &checked, given_up)?;
    Ok(if checked.is_good() {
        Exit::Ok
    } else {
        Exit::Failure
    })
}

fn tell(ctx: &mut Context, checked: &Checked, given_up: usize) -> Result<(), Failure> {
    if ctx.out.json {
        let files: serde_json::Map<_, _> = checked
            .files
            .iter()
            .map(|(id, lines)| {
                let value = json!({"count": lines.count, "files": list(lines)});
                (id.to_string(), value)
            })
            .collect();
        return ctx.out.value(&json!({
            "good": checked.is_good(),
            "snapshots": checked.snapshots,
            "packs": checked.packs,
            "chunks": checked.chunks,
            "bytes_read": checked.bytes_read,
            "unlisted_packs": checked.unlisted,
            "bad_objects": checked.bad,
            "damaged_files": files,
            "packs_given_up": given_up,
        }));
    }
    for (object, why) in &checked.bad {
        ctx.out.line(format!("{object}: {why}"))?;
    }
    for (id, lines) in &checked.files {
        ctx.out.line(format!(
            "snapshot {id}: {} files cannot be restored whole",
            lines.count
        ))?;
        for line in &lines.list {
            let path = String::from_utf8_lossy(&line.path);
            ctx.out.line(format!("  {path} ({})", line.why))?;
        }
    }
    if given_up > 0 {
        ctx.out.note(format!(
            "gave {given_up} packs up; the next save stores again what the folders still hold"
        ));
    }
    let verdict = if checked.is_good() { "good" } else { "damaged" };
    ctx.out.line(format!(
        "{verdict}: {} snapshots, {} packs, {} chunks, {} read",
        checked.snapshots,
        checked.packs,
        checked.chunks,
        size(checked.bytes_read)
    ))
}

/// What to prune.
pub(super) struct Prune {
    pub(super) keep_last: Option<NonZeroUsize>,
    pub(super) forget: Vec<String>,
    pub(super) is_at_once: bool,
    pub(super) is_dry: bool,
}

pub(super) fn prune(ctx: &mut Context, place: &Where, wanted: &Prune) -> Result<Exit, Failure> {
    let capsule = open(place)?;
    let mut gone = Vec::new();
    for text in &wanted.forget {
        gone.push(capsule.find_snapshot(text).map_err(failure)?.id);
    }
    if let Some(keep) = wanted.keep_last {
        let ids = capsule.snapshot_ids().map_err(failure)?;
        gone.extend(&ids[..ids.len().saturating_sub(keep.get())]);
    }
    gone.sort_unstable();
    gone.dedup();
    if !wanted.is_dry {
        for id in &gone {
            capsule
                .store()
                .delete(&snapshot::object(*id))
                .map_err(|error| failure(error.into()))?;
        }
    }
    let mut options = sweep::Options {
        is_dry: wanted.is_dry,
        ..sweep::Options::default()
    };
    if wanted.is_at_once {
        options.grace_ns = 0;
    }
    let progress = ctx.out.progress("looking for what nobody needs");
    let mut swept = sweep::sweep(&capsule, &options).map_err(failure)?;
    if wanted.is_at_once && !wanted.is_dry {
        progress.step(&mut ctx.out, "deleting it");
        let second = sweep::sweep(&capsule, &options).map_err(failure)?;
        swept = Swept {
            packs_given_up: swept.packs_given_up,
            packs_rewritten: swept.packs_rewritten,
            chunks_dead: swept.chunks_dead,
            packs_deleted: swept.packs_deleted + second.packs_deleted,
            bytes_deleted: swept.bytes_deleted + second.bytes_deleted,
            ..second
        };
    }
    drop(progress);
    let value = json!({
        "snapshots_deleted": gone.len(),
        "snapshots": swept.snapshots,
        "generation": swept.generation,
        "chunks_needed": swept.chunks_needed,
        "chunks_dead": swept.chunks_dead,
        "packs_given_up": swept.packs_given_up,
        "packs_rewritten": swept.packs_rewritten,
        "packs_deleted": swept.packs_deleted,
        "packs_waiting": swept.packs_waiting,
        "bytes_deleted": swept.bytes_deleted,
        "dry_run": wanted.is_dry,
    });
    let would = if wanted.is_dry { "would have " } else { "" };
    let line = format!(
        "{would}deleted {} snapshots; gave up {} packs ({} rewritten), deleted {} ({}), {} wait",
        gone.len(),
        swept.packs_given_up,
        swept.packs_rewritten,
        swept.packs_deleted,
        size(swept.bytes_deleted),
        swept.packs_waiting
    );
    ctx.out.answer(&value, line)?;
    Ok(Exit::Ok)
}
