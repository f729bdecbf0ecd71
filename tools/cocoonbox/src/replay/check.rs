//! Whether logs and views are what they must be.

use std::path::Path;

use cocoonbox_projections::{Views, compare::Difference};
use cocoonbox_replay::{Finding, VerifyReport, rebuild, verify, verify_all};
use serde_json::json;

use super::{failed, good, logs::Logs};
use crate::{context::Context, exit::Exit, failure::Failure};

pub(super) async fn check(
    ctx: &mut Context,
    logs: &Logs,
    log: Option<&str>,
) -> Result<Exit, Failure> {
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
    let found = |finding: &Finding| {
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

pub(super) async fn views(ctx: &mut Context, logs: &Logs, data: &Path) -> Result<Exit, Failure> {
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
    let row = |found: &Difference| format!("{:?} {}: {:?}", found.view, found.key, found.what);
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
