//! The logs of this host, read without an api.

mod logs;

use std::path::Path;

use cocoonbox_events::{EventId, LogId, LogKind, OffsetKey, StreamName};
use cocoonbox_projections::Views;
use cocoonbox_replay::{
    By, Changes, Diff, Filter, Rerun, Target, VerifyReport, changes, diff, rebuild, rerun, show,
    state, verify, verify_all, why,
};
use serde_json::json;

use crate::{
    cli::replay::{LogOption, Replay},
    context::Context,
    exit::Exit,
    failure::{Failure, chain},
    text,
};
use logs::Logs;

pub async fn replay(ctx: &mut Context, command: Replay) -> Result<Exit, Failure> {
    let data = ctx.data_dir();
    let logs = Logs::open(&data).await?;
    match command {
        Replay::Verify(LogOption { log }) => check(ctx, &logs, log.as_deref()).await,
        Replay::Show {
            log,
            stream,
            kind,
            actor,
            text,
            from,
            limit,
        } => {
            let filter = Filter {
                streams: stream,
                kinds: kind,
                actor,
                text,
                ..Filter::default()
            };
            events(
                ctx,
                &logs,
                log.log.as_deref(),
                filter,
                from.as_deref(),
                limit,
            )
            .await
        }
        Replay::State { log, stream, at } => {
            known(ctx, &logs, log.log.as_deref(), &stream, at.as_deref()).await
        }
        Replay::Diff {
            log,
            a,
            b,
            other,
            meaning,
        } => {
            let by = if meaning { By::Meaning } else { By::Bytes };
            match log.log {
                Some(log) => moments(ctx, &logs, logs.find(&log)?, &a, &b).await,
                None => match (a.parse::<OffsetKey>(), b.parse::<OffsetKey>()) {
                    (Ok(from), Ok(_)) => moments(ctx, &logs, from.log, &a, &b).await,
                    _ => two_logs(ctx, &logs, (&a, &b), other.as_deref(), by).await,
                },
            }
        }
        Replay::Rebuild => views(ctx, &logs, &data).await,
        Replay::Rerun { log, stream } => {
            conversations(ctx, &logs, log.log.as_deref(), stream.as_deref()).await
        }
        Replay::Why { log, event } => causes(ctx, &logs, log.log.as_deref(), &event).await,
    }
}

async fn check(ctx: &mut Context, logs: &Logs, log: Option<&str>) -> Result<Exit, Failure> {
    let progress = ctx.out.progress("checking");
    if let Some(name) = log {
        let report = verify(&logs.store, logs.find(name)?)
            .await
            .map_err(failed("verify"))?;
        drop(progress);
        ctx.out.answer(&report.to_json(), verdict(logs, &report))?;
        return Ok(good(report.is_good()));
    }
    let report = verify_all(&logs.store).await.map_err(failed("verify"))?;
    drop(progress);
    let mut lines: Vec<String> = report.logs.iter().map(|one| verdict(logs, one)).collect();
    let found = |finding: &cocoonbox_replay::Finding| {
        format!(
            "{} at {}: {}",
            logs.name(finding.log),
            finding.pos,
            finding.what
        )
    };
    lines.extend(report.findings.iter().map(found));
    let (count, folded, anchors) = (report.logs.len(), report.folded, report.anchors);
    let word = if report.is_good() { "good" } else { "NOT GOOD" };
    lines.push(format!(
        "{word}: {count} logs, {folded} streams folded, {anchors} anchors compared"
    ));
    ctx.out.answer(&report.to_json(), lines.join("\n"))?;
    Ok(good(report.is_good()))
}

fn verdict(logs: &Logs, report: &VerifyReport) -> String {
    let name = logs.name(report.log);
    let mut line = match &report.first_break {
        None => format!(
            "{name}: {} events in {} streams, whole",
            report.events, report.streams
        ),
        Some(found) => format!("{name}: BROKEN at {}: {}", found.pos, found.what),
    };
    for (count, word) in [
        (report.erased, "erased"),
        (report.unknown, "of unknown kind"),
    ] {
        if count > 0 {
            line.extend([format!(", {count} {word}")]);
        }
    }
    line
}

async fn events(
    ctx: &mut Context,
    logs: &Logs,
    log: Option<&str>,
    filter: Filter,
    from: Option<&str>,
    mut limit: usize,
) -> Result<Exit, Failure> {
    let mut selected = logs.select(log)?;
    if let Some(key) = from.and_then(|from| from.parse::<OffsetKey>().ok()) {
        selected.retain(|info| info.id == key.log);
    }
    for info in &selected {
        let after = match from {
            Some(from) => logs.position(info.id, from).await?,
            None => 0,
        };
        let mut shown =
            show(&logs.store, info.id, filter.clone(), after, limit).map_err(failed("show"))?;
        let mut is_first = selected.len() > 1;
        while let Some(lines) = shown.next().await.map_err(failed("show"))? {
            if is_first {
                ctx.out
                    .note(format!("{} ({})", logs.name(info.id), info.id));
                is_first = false;
            }
            limit -= lines.len();
            for line in lines {
                ctx.out.answer(&line.to_json(), line.to_string())?;
            }
        }
    }
    Ok(Exit::Ok)
}

async fn known(
    ctx: &mut Context,
    logs: &Logs,
    log: Option<&str>,
    stream: &str,
    at: Option<&str>,
) -> Result<Exit, Failure> {
    let stream = stream_name(stream)?;
    let key = at.and_then(|at| at.parse::<OffsetKey>().ok());
    let log = match (log, key) {
        (Some(name), _) => logs.find(name)?,
        (None, Some(key)) => key.log,
        (None, None) => holder(logs, &stream).await?,
    };
    let at = match at {
        Some(at) => Some(logs.position(log, at).await?),
        None => None,
    };
    let found = state(&logs.store, log, &stream, at)
        .await
        .map_err(failed("state"))?;
    let words = format!(
        "{stream} in {} as of position {} (event {} of the stream)\n{}",
        logs.name(log),
        found.pos,
        found.seq,
        found.state.text()
    );
    ctx.out.answer(&found.to_json(), words)?;
    Ok(Exit::Ok)
}

/// The one log that has this stream.
async fn holder(logs: &Logs, stream: &StreamName) -> Result<LogId, Failure> {
    let mut found = Vec::new();
    for info in logs.store.logs() {
        let page = logs
            .store
            .read_stream(info.id, stream, 0, 1)
            .await
            .map_err(failed("reading"))?;
        if !page.events.is_empty() {
            found.push(info.id);
        }
    }
    match found.as_slice() {
        [one] => Ok(*one),
        [] => Err(Failure::new(
            Exit::NotFound,
            format!("no log has a stream `{stream}`"),
        )),
        several => {
            let names: Vec<String> = several.iter().map(|log| logs.name(*log)).collect();
            Err(
                Failure::usage(format!("several logs have a stream `{stream}`"))
                    .advise(format!("name one with --log: {}", names.join(", "))),
            )
        }
    }
}

async fn moments(
    ctx: &mut Context,
    logs: &Logs,
    log: LogId,
    a: &str,
    b: &str,
) -> Result<Exit, Failure> {
    let (from, to) = (logs.position(log, a).await?, logs.position(log, b).await?);
    let found = changes(&logs.store, log, from, to)
        .await
        .map_err(failed("diff"))?;
    ctx.out.answer(&found.to_json(), changes_text(&found))?;
    Ok(Exit::Ok)
}

fn changes_text(found: &Changes) -> String {
    let mut lines = vec![format!(
        "{} events behind {} up to {}",
        found.events, found.from, found.to
    )];
    for (stream, changed) in &found.streams {
        let kinds: Vec<String> = changed
            .kinds
            .iter()
            .map(|(kind, count)| format!("{count} {kind}"))
            .collect();
        lines.push(format!("{stream}: {}", kinds.join(", ")));
        for field in &changed.fields {
            let (before, after) = (field.before.to_string(), field.after.to_string());
            let (before, after) = (text::short(&before, 60), text::short(&after, 60));
            lines.push(format!("  {}: {before} -> {after}", field.path));
        }
    }
    lines.join("\n")
}

async fn two_logs(
    ctx: &mut Context,
    logs: &Logs,
    (a, b): (&str, &str),
    other: Option<&Path>,
    by: By,
) -> Result<Exit, Failure> {
    let first = logs.find(a)?;
    let found = match other {
        Some(folder) => {
            let others = Logs::open(folder).await?;
            let second = others.find(b)?;
            diff((&logs.store, first), (&others.store, second), by).await
        }
        None => diff((&logs.store, first), (&logs.store, logs.find(b)?), by).await,
    };
    let found = found.map_err(failed("diff"))?;
    let words = match &found {
        Diff::Same { events } => format!("the same: {events} events"),
        Diff::Parts { pos, a, b } => {
            let side = |line: &Option<Box<cocoonbox_replay::Line>>| {
                line.as_ref()
                    .map_or("(ended)".to_owned(), ToString::to_string)
            };
            format!("they part at {pos}\n- {}\n+ {}", side(a), side(b))
        }
    };
    ctx.out.answer(&found.to_json(), words)?;
    Ok(good(matches!(found, Diff::Same { .. })))
}

async fn views(ctx: &mut Context, logs: &Logs, data: &Path) -> Result<Exit, Failure> {
    let path = data.join("views.db");
    if !path.exists() {
        return Err(
            Failure::new(Exit::NotFound, "there are no views to compare with")
                .advise("they are made when an api runs"),
        );
    }
    let views = Views::open(&path).map_err(|error| Failure::local("opening the views", &error))?;
    let progress = ctx.out.progress("building the views again");
    let report = rebuild(&*logs.store, &views)
        .await
        .map_err(failed("rebuild"))?;
    drop(progress);
    let parts = report.projections.iter();
    let parts_json: Vec<_> = parts
        .clone()
        .map(|one| json!({"name": one.name, "logs": one.logs, "events": one.events, "rows": one.rows}))
        .collect();
    let row = |found: &cocoonbox_projections::compare::Difference| {
        format!("{:?} {}: {:?}", found.view, found.key, found.what)
    };
    let differences: Vec<String> = report.differences.iter().map(row).collect();
    let mut lines: Vec<String> = parts
        .map(|one| {
            format!(
                "{}: {} rows from {} events of {} logs",
                one.name, one.rows, one.events, one.logs
            )
        })
        .collect();
    lines.extend(differences.iter().cloned());
    lines.push(match report.differing {
        0 => "the views are what the logs say".to_owned(),
        count => format!("{count} rows DIFFER"),
    });
    let value = json!({
        "equal": report.is_equal(),
        "projections": parts_json,
        "differing": report.differing,
        "differences": differences,
    });
    ctx.out.answer(&value, lines.join("\n"))?;
    Ok(good(report.is_equal()))
}

async fn conversations(
    ctx: &mut Context,
    logs: &Logs,
    log: Option<&str>,
    stream: Option<&str>,
) -> Result<Exit, Failure> {
    let mut all_same = true;
    let mut count = 0;
    for info in logs
        .select(log)?
        .into_iter()
        .filter(|info| info.kind == LogKind::Box)
    {
        let streams = match stream {
            Some(stream) => vec![stream_name(stream)?],
            None => agents(logs, info.id).await?,
        };
        for stream in streams {
            let found = match rerun(&logs.store, info.id, &stream).await {
                Err(cocoonbox_replay::Error::NoSuchStream { .. }) => continue,
                other => other.map_err(failed("rerun"))?,
            };
            all_same &= found.is_same();
            count += 1;
            ctx.out.answer(&found.to_json(), rerun_text(logs, &found))?;
        }
    }
    if count == 0 {
        return Err(Failure::new(
            Exit::NotFound,
            "there is no such conversation in these logs",
        ));
    }
    Ok(good(all_same))
}

fn rerun_text(logs: &Logs, found: &Rerun) -> String {
    format!(
        "{} {}: {}",
        logs.name(found.log),
        found.stream,
        found.text()
    )
}

/// The agents of a box log, by name.
async fn agents(logs: &Logs, log: LogId) -> Result<Vec<StreamName>, Failure> {
    let filter = Filter {
        kinds: vec!["agent.created".to_owned()],
        ..Filter::default()
    };
    let mut shown = show(&logs.store, log, filter, 0, usize::MAX).map_err(failed("reading"))?;
    let mut streams = Vec::new();
    while let Some(lines) = shown.next().await.map_err(failed("reading"))? {
        for line in lines {
            streams.push(stream_name(&line.stream)?);
        }
    }
    Ok(streams)
}

async fn causes(
    ctx: &mut Context,
    logs: &Logs,
    log: Option<&str>,
    event: &str,
) -> Result<Exit, Failure> {
    let target = match (event.parse::<OffsetKey>(), log) {
        (Ok(key), _) => Target::Pos(key.log, logs.position(key.log, event).await?),
        (Err(_), Some(name)) => {
            let log = logs.find(name)?;
            Target::Pos(log, logs.position(log, event).await?)
        }
        (Err(_), None) => Target::Event(event.parse::<EventId>().map_err(|_| {
            Failure::usage(format!(
                "`{event}` is neither an offset key nor an event id"
            ))
            .advise("a position needs --log")
        })?),
    };
    let found = why(&logs.store, target).await.map_err(failed("why"))?;
    ctx.out.answer(&found.to_json(), found.text())?;
    Ok(Exit::Ok)
}

fn stream_name(text: &str) -> Result<StreamName, Failure> {
    StreamName::new(text).map_err(|error| Failure::usage(error.to_string()))
}

fn good(is_good: bool) -> Exit {
    if is_good { Exit::Ok } else { Exit::Failure }
}

/// Words for an error of a log, with its causes. What is asked for and not there is told apart.
fn failed<E: std::error::Error + 'static>(doing: &'static str) -> impl Fn(E) -> Failure {
    move |error| {
        use cocoonbox_replay::Error;
        let known = (&error as &dyn std::any::Any).downcast_ref::<Error>();
        let is_missing = known.is_some_and(|error| {
            matches!(
                error,
                Error::NoSuchStream { .. }
                    | Error::NoSuchPosition { .. }
                    | Error::NoSuchEvent { .. }
            )
        });
        let exit = if is_missing {
            Exit::NotFound
        } else {
            Exit::Failure
        };
        Failure::new(exit, format!("{doing}: {}", chain(&error)))
    }
}
