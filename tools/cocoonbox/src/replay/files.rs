//! Exports written and read.

use std::{
    collections::BTreeSet,
    fs::{File, OpenOptions},
    io::{self, BufWriter, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use cocoonbox_events::{KeyStore, LogId, LogInfo, SqliteStore, SystemClock, SystemIds};
use cocoonbox_replay::{
    Origin,
    export::{ExportError, Plan, VERIFIER, Written},
    import::{ImportError, Imported, check, import},
};
use serde_json::json;

use super::{failed, logs::Logs, ticker::Ticker};
use crate::{cli::replay::Export, context::Context, exit::Exit, failure::Failure};

/// What one file holds is written through a buffer of this size.
const BUFFER_BYTES: usize = 256 * 1024;
const VERIFIER_FILE: &str = "verify.py";
/// The first bytes of every verifier: another file of that name is not written over.
const VERIFIER_HEAD: &str = "#!/usr/bin/env python3\n# cocoonbox export verifier";
const STDOUT: &str = "-";

pub(super) async fn export(
    ctx: &mut Context,
    logs: &Logs,
    options: &Export,
) -> Result<Exit, Failure> {
    let plan = Plan::new(selected(logs, options)?, options.redacted);
    if plan.logs().is_empty() {
        return Err(Failure::new(
            Exit::NotFound,
            "there is no such log to export",
        ));
    }
    if options.to == Path::new(STDOUT) {
        let mut out = BufWriter::with_capacity(BUFFER_BYTES, io::stdout());
        let mut ticker = Ticker::new(&mut ctx.out, "exporting");
        let see = &mut |events| ticker.see(events);
        plan.write(&logs.store, &mut out, see)
            .await
            .map_err(not_written)?;
        return Ok(Exit::Ok);
    }
    let is_file = options.to.extension().is_some_and(|end| end == "jsonl");
    let written = if is_file {
        let mut file = create(&options.to)?;
        let mut ticker = Ticker::new(&mut ctx.out, "exporting");
        let see = &mut |events| ticker.see(events);
        let written = plan
            .write(&logs.store, &mut file, see)
            .await
            .map_err(not_written)?;
        finish(file, &options.to)?;
        written
    } else {
        folder(ctx, logs, &plan, &options.to).await?
    };
    let beside = match options.to.parent().filter(|_| is_file) {
        Some(parent) => parent.to_owned(),
        None => options.to.clone(),
    };
    let verifier = write_verifier(&beside)?;
    let Written {
        logs: count,
        events,
        checkpoints,
    } = written;
    let (to, verifier) = (options.to.display(), verifier.display());
    let redacted = if options.redacted { ", redacted" } else { "" };
    let words = format!(
        "{to}: {events} events of {count} logs, {checkpoints} checkpoints{redacted}\ncheck it with: python3 {verifier} {to}"
    );
    let value = json!({
        "export": options.to, "logs": count, "events": events, "checkpoints": checkpoints,
        "redacted": options.redacted,
    });
    ctx.out.answer(&value, words)?;
    if !options.redacted {
        ctx.out
            .note("it is not sealed: whoever reads it reads what was said");
    }
    Ok(Exit::Ok)
}

/// The logs that are asked for, and those that they branch off.
fn selected(logs: &Logs, options: &Export) -> Result<Vec<LogInfo>, Failure> {
    let all = logs.store.logs();
    if options.log.is_empty() && options.owner.is_empty() {
        return Ok(all);
    }
    let mut ids: BTreeSet<LogId> = BTreeSet::new();
    for name in &options.log {
        ids.insert(logs.find(name)?);
    }
    for user in &options.owner {
        let owners = logs.owners(user);
        let before = ids.len();
        ids.extend(
            all.iter()
                .filter(|info| owners.contains(&info.owner))
                .map(|info| info.id),
        );
        if ids.len() == before {
            return Err(Failure::new(
                Exit::NotFound,
                format!("no log is of user `{user}`"),
            ));
        }
    }
    let parent = |id: &LogId| all.iter().find(|info| info.id == *id)?.parent;
    let mut left: Vec<LogId> = ids.iter().copied().collect();
    while let Some(id) = left.pop() {
        if let Some(parent) = parent(&id)
            && ids.insert(parent.log)
        {
            left.push(parent.log);
        }
    }
    Ok(all
        .into_iter()
        .filter(|info| ids.contains(&info.id))
        .collect())
}

async fn folder(
    ctx: &mut Context,
    logs: &Logs,
    plan: &Plan,
    to: &Path,
) -> Result<Written, Failure> {
    let made = std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(to);
    made.map_err(|error| Failure::local(format!("making `{}`", to.display()), &error))?;
    let mut total = Written::default();
    let mut ticker = Ticker::new(&mut ctx.out, "exporting");
    for info in plan.logs() {
        let path = to.join(format!("{}.jsonl", info.id));
        let mut file = create(&path)?;
        let before = total.events;
        let see = &mut |events| ticker.see(before + events);
        let one = plan.write_one(&logs.store, info, &mut file, see).await;
        let one = one.map_err(not_written)?;
        finish(file, &path)?;
        total.logs += one.logs;
        total.events += one.events;
        total.checkpoints += one.checkpoints;
    }
    Ok(total)
}

fn create(path: &Path) -> Result<BufWriter<File>, Failure> {
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(|error| {
            let failure = Failure::local(format!("making `{}`", path.display()), &error);
            if error.kind() == io::ErrorKind::AlreadyExists {
                failure.advise("an export is never written over another one")
            } else {
                failure
            }
        })?;
    Ok(BufWriter::with_capacity(BUFFER_BYTES, file))
}

/// An export that is said to be there is on disk.
fn finish(file: BufWriter<File>, path: &Path) -> Result<(), Failure> {
    file.into_inner()
        .map_err(io::IntoInnerError::into_error)
        .and_then(|file| file.sync_all())
        .map_err(|error| Failure::local(format!("writing `{}`", path.display()), &error))
}

fn write_verifier(folder: &Path) -> Result<PathBuf, Failure> {
    let path = folder.join(VERIFIER_FILE);
    if let Ok(found) = std::fs::read_to_string(&path)
        && !found.starts_with(VERIFIER_HEAD)
    {
        let message = format!("`{}` is something else than the verifier", path.display());
        return Err(Failure::new(Exit::Failure, message)
            .advise("the export is written; move that file away, or export into a folder"));
    }
    File::create(&path)
        .and_then(|mut file| file.write_all(VERIFIER.as_bytes()))
        .map_err(|error| Failure::local(format!("writing `{}`", path.display()), &error))?;
    Ok(path)
}

fn not_written(error: ExportError) -> Failure {
    match error {
        ExportError::Write(error) => error.into(),
        ExportError::Read(error) => failed("export")(error),
        ExportError::Encode { .. } => Failure::local("export", &error),
    }
}

/// Makes a data directory of an export.
pub(super) async fn bring_in(
    ctx: &mut Context,
    logs: &Logs,
    to: &Path,
    allow_redacted: bool,
) -> Result<Exit, Failure> {
    if !matches!(logs.origin, Origin::Export(_)) {
        return Err(Failure::usage(format!("{} is not an export", logs.origin))
            .advise("`cocoonbox replay export` makes one of it"));
    }
    if logs.redacted && !allow_redacted {
        return Err(Failure::usage(format!("{} is redacted", logs.origin))
            .advise("--allow-redacted takes it: payloads will read as erased, for good"));
    }
    let target = to.join("log.db");
    if target.exists() {
        let message = format!("`{}` is there already", target.display());
        return Err(Failure::new(Exit::Failure, message)
            .advise("an export is read into a fresh directory; name another one with --to"));
    }
    let mut ticker = Ticker::new(&mut ctx.out, "checking");
    let checked = check(&logs.store, &mut |events| ticker.see(events)).await;
    checked.map_err(not_taken)?;
    drop(ticker);
    let made = std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(to);
    made.map_err(|error| Failure::local(format!("making `{}`", to.display()), &error))?;
    let keys = KeyStore::open(to).map_err(|error| Failure::local("making the keys", &error))?;
    // Under another name until it is whole: a broken import is never taken for a log.
    let part = to.join("log.db.part");
    let (clock, ids) = (Arc::new(SystemClock), Arc::new(SystemIds));
    let store = SqliteStore::open(&part, Arc::new(keys), clock, ids)
        .map_err(|error| Failure::local("making the log", &error))?;
    let mut ticker = Ticker::new(&mut ctx.out, "importing");
    let done = import(&logs.store, &store, &mut |events| ticker.see(events)).await;
    drop(ticker);
    let done = done.map_err(not_taken)?;
    store.close().await;
    drop(store);
    settle(&part, &target)?;
    let Imported {
        logs: count,
        events,
        checkpoints,
    } = done;
    let words = format!(
        "{}: {events} events of {count} logs, {checkpoints} checkpoints\nread it with: cocoonbox replay show --from {}",
        to.display(),
        to.display()
    );
    let value =
        json!({"data_dir": to, "logs": count, "events": events, "checkpoints": checkpoints});
    ctx.out.answer(&value, words)?;
    Ok(Exit::Ok)
}

/// Gives the log its name. The write-ahead log was moved into the file when the store was closed.
fn settle(part: &Path, target: &Path) -> Result<(), Failure> {
    let named = |end: &str| {
        let mut name = part.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    };
    let fail = |error| Failure::local(format!("naming `{}`", target.display()), &error);
    let wal = named("-wal");
    if std::fs::metadata(&wal).is_ok_and(|found| found.len() > 0) {
        let error = io::Error::other("the write-ahead log was not taken in");
        return Err(fail(error));
    }
    std::fs::rename(part, target).map_err(fail)?;
    for end in ["-wal", "-shm", ".lock"] {
        match std::fs::remove_file(named(end)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fail(error)),
            _ => {}
        }
    }
    Ok(())
}

fn not_taken(error: ImportError) -> Failure {
    let failure = Failure::local("import", &error);
    match error {
        ImportError::Broken { .. } => failure.advise("nothing was written"),
        ImportError::NoParent { .. } => {
            failure.advise("export the log together with the one that it branches off")
        }
        ImportError::Read(_)
        | ImportError::Open { .. }
        | ImportError::Write { .. }
        | ImportError::Checkpoint { .. } => {
            failure.advise("what was written so far is in `log.db.part` and can be deleted")
        }
    }
}
