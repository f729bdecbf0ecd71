//! A capsule from the shell: needs a store and a key, and no api, which is only asked for the key.

mod checks;
mod key;
mod place;
mod reading;
mod saving;

pub(crate) use reading::size;

use crate::{cli::capsule::Capsule, context::Context, exit::Exit, failure::Failure};

/// Runs a command. It blocks: there is nothing else to do meanwhile.
pub async fn capsule(ctx: &mut Context, command: Capsule) -> Result<Exit, Failure> {
    match command {
        Capsule::ExportKey { file } => key::export(ctx, &file).await,
        Capsule::Init { place } => place::init(ctx, &place),
        Capsule::Save {
            place,
            label,
            cache,
            no_default_excludes,
            full,
            level,
            folders,
        } => {
            let wanted = saving::Wanted {
                label,
                cache,
                has_default_excludes: !no_default_excludes,
                is_full: full,
                level,
                folders,
            };
            saving::save(ctx, &place, wanted)
        }
        Capsule::Snapshots { place } => reading::snapshots(ctx, &place),
        Capsule::Ls { place, of, path } => reading::ls(ctx, &place, &of, path.as_deref()),
        Capsule::Cat { place, of, path } => reading::cat(ctx, &place, &of, &path),
        Capsule::Restore {
            place,
            of,
            target,
            keep_existing,
            paths,
        } => saving::restore(ctx, &place, &of, target, keep_existing, &paths),
        Capsule::Diff {
            place,
            before,
            after,
        } => reading::diff(ctx, &place, &before, &after),
        Capsule::Check {
            place,
            read_data,
            slice,
            repair,
        } => checks::check(ctx, &place, read_data, slice, repair),
        Capsule::Prune {
            place,
            keep_last,
            forget,
            now,
            dry_run,
        } => {
            let wanted = checks::Prune {
                keep_last,
                forget,
                is_at_once: now,
                is_dry: dry_run,
            };
            checks::prune(ctx, &place, &wanted)
        }
    }
}
