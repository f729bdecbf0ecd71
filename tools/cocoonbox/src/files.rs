//! Saved files of a box: saving, looking, giving back.

mod keeping;
mod look;
mod moment;
mod restore;
mod save;

use std::{
    os::unix::ffi::OsStrExt as _,
    path::{Component, Path},
};

pub use self::{keeping::snapshots, moment::moment, save::save};
use crate::{cli::files::Files, context::Context, exit::Exit, failure::Failure};

pub async fn files(ctx: &mut Context, command: Files) -> Result<Exit, Failure> {
    match command {
        Files::Ls { target, at, path } => look::ls(ctx, &target, &at, path.as_deref()).await,
        Files::Cat { target, at, path } => look::cat(ctx, &target, &at, &path).await,
        Files::Diff {
            target,
            before,
            after,
            path,
        } => look::diff(ctx, &target, (&before, &after), path.as_deref()).await,
        Files::Undo { target, restore } => {
            restore::undo(ctx, &target, restore.unwrap_or_default()).await
        }
        Files::Restore {
            target,
            at,
            in_place,
            paths,
        } => restore::restore(ctx, &target, &at, in_place, &paths).await,
    }
}

/// A path in the box, without `.` and doubled slashes. The box is not asked: `..` may go through a link there.
fn path(path: &Path) -> Result<Vec<u8>, Failure> {
    let refused = |what: &str| {
        Err(Failure::usage(format!("`{}` {what}", path.display()))
            .advise("paths are absolute paths in the box, like /workspace/app"))
    };
    if !path.is_absolute() {
        return refused("is not absolute");
    }
    let mut plain = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => {
                plain.push(b'/');
                plain.extend_from_slice(name.as_bytes());
            }
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => return refused("has `..` in it"),
        }
    }
    if plain.is_empty() {
        return refused("is not a folder that is saved");
    }
    Ok(plain)
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
