//! Looking into a capsule.

use std::{
    os::unix::ffi::OsStrExt as _,
    path::{Component, Path, PathBuf},
};

use cocoonbox_capsule::{
    Error, Reader, Snapshot,
    cursor::Cursor,
    diff::{self, Change},
    entry::{Entry, Node},
    reader::{FileReader, Stretch},
};
use serde_json::{Value, json};

use crate::{
    cli::capsule::{Of, Where},
    context::Context,
    exit::Exit,
    failure::Failure,
    text,
};

use super::place::{failure, open};

pub(super) fn snapshots(ctx: &mut Context, place: &Where) -> Result<Exit, Failure> {
    let capsule = open(place)?;
    for id in capsule.snapshot_ids().map_err(failure)? {
        match capsule.snapshot(id) {
            Ok(snapshot) => {
                let line = format!(
                    "{id}  {}  {:>9} files  {:>10}  +{:<10}  {}",
                    text::moment(snapshot.started_ns / 1_000_000),
                    snapshot.counts.files,
                    size(snapshot.counts.bytes),
                    size(snapshot.counts.bytes_added),
                    String::from_utf8_lossy(&snapshot.label),
                );
                ctx.out.answer(&record(&snapshot), line)?;
            }
            Err(error) => ctx.out.warn(format!("{id}: {}", failure(error).message)),
        }
    }
    Ok(Exit::Ok)
}

pub(super) fn ls(
    ctx: &mut Context,
    place: &Where,
    of: &Of,
    path: Option<&Path>,
) -> Result<Exit, Failure> {
    let capsule = open(place)?;
    let snapshot = capsule.find_snapshot(&of.snapshot).map_err(failure)?;
    let Some(path) = path else {
        for root in &snapshot.roots {
            show(ctx, &root.entry, &root.path)?;
        }
        return Ok(Exit::Ok);
    };
    let reader = Reader::new(&capsule).map_err(failure)?;
    let path = absolute(path)?;
    let entry = reader.lookup(&snapshot, &path).map_err(failure)?;
    let Node::Directory { tree, .. } = entry.node else {
        show(ctx, &entry, &entry.name)?;
        return Ok(Exit::Ok);
    };
    let mut cursor = Cursor::new(&reader, tree);
    while let Some(entry) = cursor.next_entry().map_err(failure)? {
        show(ctx, &entry, &entry.name)?;
    }
    Ok(Exit::Ok)
}

fn show(ctx: &mut Context, entry: &Entry, name: &[u8]) -> Result<(), Failure> {
    let (kind, bytes, target) = match &entry.node {
        Node::File(file) => ("file", file.size, None),
        Node::Directory { bytes, .. } => ("directory", *bytes, None),
        Node::Symlink { target } => ("symlink", target.len() as u64, Some(target)),
    };
    if ctx.out.json {
        let mut value = json!({
            "name": String::from_utf8_lossy(name),
            "kind": kind,
            "bytes": bytes,
            "mode": format!("{:04o}", entry.meta.mode),
            "uid": entry.meta.uid,
            "gid": entry.meta.gid,
            "mtime": {"seconds": entry.meta.mtime.seconds, "nanos": entry.meta.mtime.nanos},
        });
        if let Some(target) = target {
            value["target"] = String::from_utf8_lossy(target).into();
        }
        return ctx.out.value(&value);
    }
    let mut line = format!(
        "{}{:04o} {:>5} {:>5} {:>12} {} ",
        &kind[..1],
        entry.meta.mode,
        entry.meta.uid,
        entry.meta.gid,
        bytes,
        text::moment(entry.meta.mtime.seconds.saturating_mul(1000)),
    );
    line.push_str(&String::from_utf8_lossy(name));
    if let Some(target) = target {
        line.push_str(" -> ");
        line.push_str(&String::from_utf8_lossy(target));
    }
    ctx.out.line(line)
}

pub(super) fn cat(ctx: &mut Context, place: &Where, of: &Of, path: &Path) -> Result<Exit, Failure> {
    static ZEROS: [u8; 65536] = [0; 65536];
    let capsule = open(place)?;
    let snapshot = capsule.find_snapshot(&of.snapshot).map_err(failure)?;
    let reader = Reader::new(&capsule).map_err(failure)?;
    let path = absolute(path)?;
    let entry = reader.lookup(&snapshot, &path).map_err(failure)?;
    let Node::File(file) = &entry.node else {
        return Err(failure(Error::WrongKind {
            path: String::from_utf8_lossy(&path).into_owned(),
            is: entry.node.kind(),
            wanted: "a file",
        }));
    };
    let mut bytes = FileReader::new(&reader, file);
    while let Some(stretch) = bytes.next_stretch().map_err(failure)? {
        match stretch {
            Stretch::Inline(part) => ctx.out.bytes(&part)?,
            Stretch::Chunk(part) => ctx.out.bytes(&part)?,
            Stretch::Hole(mut left) => {
                while left > 0 {
                    let now = usize::try_from(left).map_or(ZEROS.len(), |n| n.min(ZEROS.len()));
                    ctx.out.bytes(&ZEROS[..now])?;
                    left -= now as u64;
                }
            }
        }
    }
    Ok(Exit::Ok)
}

pub(super) fn diff(
    ctx: &mut Context,
    place: &Where,
    before: &str,
    after: &str,
) -> Result<Exit, Failure> {
    let capsule = open(place)?;
    let before = capsule.find_snapshot(before).map_err(failure)?;
    let after = capsule.find_snapshot(after).map_err(failure)?;
    let reader = Reader::new(&capsule).map_err(failure)?;
    let mut told = Ok(());
    diff::diff(&reader, &before, &after, &mut |difference| {
        let path = String::from_utf8_lossy(difference.path);
        let (letter, word) = match difference.change {
            Change::Added => ("+", "added"),
            Change::Removed => ("-", "removed"),
            Change::Content => ("M", "content"),
            Change::Kind => ("K", "kind"),
            Change::Meta => ("m", "meta"),
        };
        if told.is_ok() {
            told = ctx.out.answer(
                &json!({"path": path, "change": word}),
                format!("{letter} {path}"),
            );
        }
        Ok(())
    })
    .map_err(failure)?;
    told.map(|()| Exit::Ok)
}

/// A path of a snapshot. Symbolic links are not resolved, neither there nor here.
pub(super) fn absolute(path: &Path) -> Result<Vec<u8>, Failure> {
    let whole = std::path::absolute(path)
        .map_err(|error| Failure::local(format!("finding `{}`", path.display()), &error))?;
    let mut clean = PathBuf::from("/");
    for part in whole.components() {
        match part {
            Component::Normal(name) => clean.push(name),
            Component::ParentDir => drop(clean.pop()),
            _ => {}
        }
    }
    Ok(clean.as_os_str().as_bytes().to_vec())
}

/// A snapshot's record, for scripts.
pub(super) fn record(snapshot: &Snapshot) -> Value {
    let roots = snapshot.roots.iter();
    let counts = &snapshot.counts;
    json!({
        "snapshot": snapshot.id.to_string(),
        "parent": snapshot.parent.map(|parent| parent.to_string()),
        "label": String::from_utf8_lossy(&snapshot.label),
        "started_ms": snapshot.started_ns / 1_000_000,
        "ended_ms": snapshot.ended_ns / 1_000_000,
        "roots": roots.map(|root| String::from_utf8_lossy(&root.path)).collect::<Vec<_>>(),
        "files": counts.files,
        "directories": counts.directories,
        "symlinks": counts.symlinks,
        "bytes": counts.bytes,
        "files_read": counts.files_read,
        "files_changed": counts.files_changed,
        "bytes_read": counts.bytes_read,
        "chunks_added": counts.chunks_added,
        "bytes_added": counts.bytes_added,
        "excluded": snapshot.excluded.count,
        "skipped": snapshot.skipped.count,
        "unsettled": snapshot.unsettled.count,
    })
}

/// A size for people.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.2} GB", bytes as f64 / 1e9),
    }
}
