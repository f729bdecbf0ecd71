//! Saving and restoring.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use cocoonbox_capsule::{
    Reader, Snapshot,
    restore::{self, Existing, Tally},
    save,
    snapshot::{Counts, Lines},
};
use cocoonbox_events::{Clock as _, SystemClock};
use serde_json::{Value, json};

use crate::{
    cli::capsule::{Of, Where},
    context::Context,
    exit::Exit,
    failure::Failure,
    output::{Out, Progress},
};

use super::{
    place::{failure, open},
    reading::{absolute, record, size},
};

/// How often a person is told.
const SAY: Duration = Duration::from_millis(250);
/// How many lines of a kind are shown; `--json` has the rest.
const SHOWN: usize = 20;

/// What to save.
pub(super) struct Wanted {
    pub(super) label: String,
    pub(super) cache: Option<PathBuf>,
    pub(super) has_default_excludes: bool,
    pub(super) is_full: bool,
    pub(super) level: i32,
    pub(super) folders: Vec<PathBuf>,
}

pub(super) fn save(ctx: &mut Context, place: &Where, wanted: Wanted) -> Result<Exit, Failure> {
    let capsule = open(place)?;
    let roots: Result<Vec<_>, _> = wanted.folders.iter().map(|path| absolute(path)).collect();
    let progress = ctx.out.progress("saving");
    let mut said = Said::new(&progress);
    let mut report = |counts: &Counts| {
        said.say(|| {
            format!(
                "saving: {} files, {}, {} read",
                counts.files,
                size(counts.bytes),
                size(counts.bytes_read)
            )
        });
    };
    let now_ns = || SystemClock.now_us().saturating_mul(1_000);
    let mut options = save::Options::new(roots?, &now_ns, &mut report);
    options.label = wanted.label.into_bytes();
    options.cache = Some(
        wanted
            .cache
            .unwrap_or_else(|| ctx.environment.capsule_cache()),
    );
    options.has_default_excludes = wanted.has_default_excludes;
    options.is_full = wanted.is_full;
    options.level = wanted.level;
    let saved = save::save(&capsule, options);
    drop(progress);
    tell(&mut ctx.out, &saved.map_err(failure)?.into_snapshot())
}

fn tell(out: &mut Out, snapshot: &Snapshot) -> Result<Exit, Failure> {
    lines(out, "left out", &snapshot.excluded);
    lines(out, "not saved", &snapshot.skipped);
    lines(out, "changed while it was read", &snapshot.unsettled);
    let mut value = record(snapshot);
    value["left_out"] = list(&snapshot.excluded);
    value["not_saved"] = list(&snapshot.skipped);
    value["changed_while_read"] = list(&snapshot.unsettled);
    let counts = &snapshot.counts;
    out.answer(
        &value,
        format!(
            "saved {}: {} files, {}, of which {} files changed, {} added",
            snapshot.id,
            counts.files,
            size(counts.bytes),
            counts.files_changed,
            size(counts.bytes_added)
        ),
    )?;
    Ok(Exit::Ok)
}

pub(super) fn restore(
    ctx: &mut Context,
    place: &Where,
    of: &Of,
    target: PathBuf,
    keep_existing: bool,
    paths: &[PathBuf],
) -> Result<Exit, Failure> {
    let capsule = open(place)?;
    let snapshot = capsule.find_snapshot(&of.snapshot).map_err(failure)?;
    let reader = Reader::new(&capsule).map_err(failure)?;
    raise_open_files();
    let progress = ctx.out.progress("restoring");
    let mut said = Said::new(&progress);
    let mut report = |tally: &Tally| {
        said.say(|| format!("restoring: {} files, {}", tally.files, size(tally.bytes)));
    };
    let paths: Result<Vec<_>, _> = paths.iter().map(|path| absolute(path)).collect();
    let options = restore::Options {
        target,
        makes_target: true,
        below: Vec::new(),
        strip: Vec::new(),
        paths: paths?,
        existing: if keep_existing {
            Existing::Keep
        } else {
            Existing::Refuse
        },
        has_owners: rustix::process::geteuid().is_root(),
        owner: None,
        cancelled: None,
        threads: std::thread::available_parallelism().map_or(2, usize::from),
        progress: &mut report,
    };
    let restored = restore::restore(&reader, &snapshot, options);
    drop(progress);
    let restored = restored.map_err(failure)?;
    lines(&mut ctx.out, "replaced", &restored.replaced);
    lines(&mut ctx.out, "not as it was saved", &restored.problems);
    let tally = restored.tally;
    let value = json!({
        "snapshot": snapshot.id.to_string(),
        "files": tally.files,
        "directories": tally.directories,
        "symlinks": tally.symlinks,
        "links": tally.links,
        "bytes": tally.bytes,
        "kept": restored.kept,
        "replaced": list(&restored.replaced),
        "problems": list(&restored.problems),
        "problem_count": restored.problems.count,
    });
    let line = format!("restored {} files, {}", tally.files, size(tally.bytes));
    ctx.out.answer(&value, line)?;
    Ok(if restored.problems.count == 0 {
        Exit::Ok
    } else {
        Exit::Failure
    })
}

/// A restore holds a folder open for each level of a path; the usual limit of 1,024 is too low for deep
/// ones. Left as it is where it cannot be raised.
fn raise_open_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).ok();
}

fn lines(out: &mut Out, what: &str, lines: &Lines) {
    if lines.count == 0 {
        return;
    }
    out.note(format!("{what}: {}", lines.count));
    for line in lines.list.iter().take(SHOWN) {
        out.note(format!(
            "  {} ({})",
            String::from_utf8_lossy(&line.path),
            line.why
        ));
    }
    if lines.count > SHOWN as u64 {
        out.note("  …");
    }
}

pub(super) fn list(lines: &Lines) -> Value {
    lines
        .list
        .iter()
        .map(|line| json!({"path": String::from_utf8_lossy(&line.path), "why": line.why}))
        .collect()
}

/// Shows how far it is, not more often than somebody can read.
struct Said<'p> {
    progress: &'p Progress,
    last: Instant,
}

impl<'p> Said<'p> {
    fn new(progress: &'p Progress) -> Self {
        Self {
            progress,
            last: Instant::now(),
        }
    }

    fn say(&mut self, words: impl FnOnce() -> String) {
        if self.last.elapsed() >= SAY {
            self.last = Instant::now();
            self.progress.show(words());
        }
    }
}
