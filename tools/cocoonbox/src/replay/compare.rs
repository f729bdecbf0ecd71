//! Two moments of a log, or two logs.

use std::path::Path;

use cocoonbox_events::LogId;
use cocoonbox_replay::{By, Changes, Diff, Line, changes, diff};

use super::{failed, good, logs::Logs};
use crate::{context::Context, exit::Exit, failure::Failure, text};

pub(super) async fn moments(
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

pub(super) async fn two_logs(
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
            let side = |line: &Option<Box<Line>>| {
                line.as_ref()
                    .map_or("(ended)".to_owned(), ToString::to_string)
            };
            format!("they part at {pos}\n- {}\n+ {}", side(a), side(b))
        }
    };
    ctx.out.answer(&found.to_json(), words)?;
    Ok(good(matches!(found, Diff::Same { .. })))
}
