//! Two moments, two logs, or two sources.

use std::path::Path;

use cocoonbox_events::{LogId, OffsetKey};
use cocoonbox_replay::rows::RowWhat;
use cocoonbox_replay::{
    By, Changes, Diff, FieldChange, Line, LogDiff, RowChange, Side, changes, diff, diff_stores,
    row_changes,
};
use serde_json::json;

use super::{
    failed, good,
    logs::Logs,
    ticker::Ticker,
    when::{Calendar, Moment},
};
use crate::{context::Context, exit::Exit, failure::Failure, text};

/// Longer values are cut on a line.
const VALUE_CHARS: usize = 60;
const ROW_CHARS: usize = 160;

/// What is compared with what, as the command line says.
pub(super) struct Question<'a> {
    pub(super) log: Option<&'a str>,
    pub(super) a: Option<&'a str>,
    pub(super) b: Option<&'a str>,
    pub(super) other: Option<&'a Path>,
    pub(super) key_dir: Option<&'a Path>,
    pub(super) by: By,
}

pub(super) async fn compare(
    ctx: &mut Context,
    logs: &Logs,
    question: Question<'_>,
) -> Result<Exit, Failure> {
    let Question { log, other, by, .. } = question;
    if let Some(path) = other {
        let others = Logs::open_other(ctx, path, question.key_dir).await?;
        return match (question.a.or(log), question.b.or(log)) {
            (Some(a), Some(b)) => two_logs(ctx, (logs, a), (&others, b), by).await,
            (Some(a), None) => two_logs(ctx, (logs, a), (&others, a), by).await,
            _ => sources(ctx, logs, &others, by).await,
        };
    }
    let (Some(a), Some(b)) = (question.a, question.b) else {
        return Err(Failure::usage(
            "two moments or two logs are compared; one is missing",
        ));
    };
    let calendar = Calendar::here();
    match (log, calendar.moment(a), calendar.moment(b)) {
        (Some(log), from, to) => {
            let log = logs.find(log)?;
            moments(ctx, logs, &calendar, &[log], (from?, to?)).await
        }
        (None, Ok(Moment::Key(from)), Ok(to)) => {
            let from = (from.log, Moment::Key(from));
            moments(ctx, logs, &calendar, &[from.0], (from.1, to)).await
        }
        (None, Ok(from @ Moment::Time(_)), Ok(to @ Moment::Time(_))) => {
            let all: Vec<LogId> = logs
                .store
                .logs()
                .iter()
                .filter(|info| info.moved_to.is_none())
                .map(|info| info.id)
                .collect();
            moments(ctx, logs, &calendar, &all, (from, to)).await
        }
        (None, Ok(_), Ok(to)) => {
            let key = b.parse::<OffsetKey>();
            match (key, calendar.moment(a)?) {
                (Ok(key), from @ Moment::Time(_)) => {
                    moments(ctx, logs, &calendar, &[key.log], (from, to)).await
                }
                _ => Err(Failure::usage("a position needs --log")),
            }
        }
        (None, ..) => two_logs(ctx, (logs, a), (logs, b), by).await,
    }
}

/// What happened between two moments of each of these logs.
async fn moments(
    ctx: &mut Context,
    logs: &Logs,
    calendar: &Calendar,
    of: &[LogId],
    (a, b): (Moment, Moment),
) -> Result<Exit, Failure> {
    logs.warn(ctx);
    for (word, moment) in [("from", a), ("to", b)] {
        if let Moment::Time(at) = moment {
            calendar.say(&mut ctx.out, word, at);
        }
    }
    let mut found = Vec::new();
    let mut spans = Vec::new();
    for log in of {
        let (from, to) = (
            logs.position_of(*log, a).await?,
            logs.position_of(*log, b).await?,
        );
        // One log that is asked for is answered for, also if nothing happened in it.
        if from == to && matches!((a, b), (Moment::Time(_), Moment::Time(_))) {
            continue;
        }
        let changed = changes(&logs.store, *log, from, to).await;
        found.push((*log, changed.map_err(failed("diff"))?));
        spans.push((*log, from, to));
    }
    // A row comes from one log: those that did not move have nothing to say.
    let mut ticker = Ticker::new(&mut ctx.out, "folding");
    let see = &mut |events| ticker.see(events);
    let rows = row_changes(&logs.store, &spans, see).await;
    let rows = rows.map_err(failed("diff"))?;
    drop(ticker);
    let value = json!({
        "logs": found.iter().map(|(log, changed)| {
            let mut value = changed.to_json();
            value["log"] = log.to_string().into();
            value["name"] = logs.name(*log).into();
            value
        }).collect::<Vec<_>>(),
        "rows": rows.iter().map(RowChange::to_json).collect::<Vec<_>>(),
    });
    ctx.out.answer(&value, moments_text(logs, &found, &rows))?;
    Ok(Exit::Ok)
}

fn moments_text(logs: &Logs, found: &[(LogId, Changes)], rows: &[RowChange]) -> String {
    if found.is_empty() {
        return "nothing happened in between".to_owned();
    }
    let mut lines = Vec::new();
    for (log, changed) in found {
        let name = logs.name(*log);
        let Changes {
            events, from, to, ..
        } = changed;
        lines.push(format!("{name}: {events} events behind {from} up to {to}"));
        for (stream, changed) in &changed.streams {
            let kinds: Vec<String> = changed
                .kinds
                .iter()
                .map(|(kind, count)| format!("{count} {kind}"))
                .collect();
            lines.push(format!("  {stream}: {}", kinds.join(", ")));
            for field in &changed.fields {
                lines.push(format!("    {}", field_text(field)));
            }
        }
    }
    for row in rows {
        let name = format!(
            "view {} {}: {}",
            row.view.name(),
            row.key,
            row.what.as_str()
        );
        match row.what {
            RowWhat::Changed => {
                lines.push(name);
                let fields = row.fields.iter();
                lines.extend(fields.map(|field| format!("    {}", field_text(field))));
            }
            RowWhat::Added => lines.push(format!("{name} {}", row_text(row, |field| &field.after))),
            RowWhat::Removed => {
                lines.push(format!("{name} {}", row_text(row, |field| &field.before)));
            }
        }
    }
    lines.join("\n")
}

/// A row that came or went, on one line.
fn row_text(row: &RowChange, value: impl Fn(&FieldChange) -> &serde_json::Value) -> String {
    let fields = row.fields.iter().map(|field| {
        let value = value(field);
        if field.path.is_empty() {
            value.to_string()
        } else {
            format!("{}={value}", field.path)
        }
    });
    text::short(&fields.collect::<Vec<_>>().join(" "), ROW_CHARS)
}

fn field_text(field: &FieldChange) -> String {
    let short = |value: &serde_json::Value| text::short(&value.to_string(), VALUE_CHARS);
    let (before, after) = (short(&field.before), short(&field.after));
    let path = if field.path.is_empty() {
        "value"
    } else {
        &field.path
    };
    format!("{path}: {before} -> {after}")
}

async fn two_logs(
    ctx: &mut Context,
    (logs, a): (&Logs, &str),
    (others, b): (&Logs, &str),
    by: By,
) -> Result<Exit, Failure> {
    let (first, second) = (logs.find(a)?, others.find(b)?);
    let found = diff((&logs.store, first), (&others.store, second), by).await;
    let found = found.map_err(failed("diff"))?;
    ctx.out.answer(&found.to_json(), diff_text(&found))?;
    Ok(good(matches!(found, Diff::Same { .. })))
}

async fn sources(ctx: &mut Context, logs: &Logs, others: &Logs, by: By) -> Result<Exit, Failure> {
    let mut ticker = Ticker::new(&mut ctx.out, "comparing");
    let see = &mut |events| ticker.see(events);
    let found = diff_stores(&logs.store, &others.store, by, see).await;
    let found = found.map_err(failed("diff"))?;
    drop(ticker);
    let is_same = found.iter().all(LogDiff::is_same);
    let lines: Vec<String> = found
        .iter()
        .map(|one| match &one.found {
            Side::Both(diff) => format!("{}: {}", logs.name(one.log), diff_text(diff)),
            Side::OnlyA => format!("{}: only in {}", logs.name(one.log), logs.origin),
            Side::OnlyB => format!("{}: only in {}", others.name(one.log), others.origin),
        })
        .collect();
    let value = json!({
        "same": is_same,
        "logs": found.iter().map(LogDiff::to_json).collect::<Vec<_>>(),
    });
    ctx.out.answer(&value, lines.join("\n"))?;
    Ok(good(is_same))
}

fn diff_text(found: &Diff) -> String {
    match found {
        Diff::Same { events } => format!("the same: {events} events"),
        Diff::Parts { pos, a, b } => {
            let side = |line: &Option<Box<Line>>| {
                line.as_ref()
                    .map_or("(ended)".to_owned(), ToString::to_string)
            };
            format!("they part at {pos}\n- {}\n+ {}", side(a), side(b))
        }
    }
}
