//! Whether logs and views are what they must be.

use std::{path::Path, time::Duration};

use cocoonbox_events::checkpoint::VerifierKey;
use cocoonbox_projections::{Views, compare::Difference};
use cocoonbox_replay::{
    Against, AllReport, Finding, VerifyReport, rebuild, verify_against, verify_all_against,
};
use serde_json::json;

use super::{failed, good, logs::Logs};
use crate::{cli::proof::Verify, context::Context, exit::Exit, failure::Failure};

/// About 10 GB of a file on a disk of today; what the logs say is checked to the end whatever it takes.
const FILE_TIME: Duration = Duration::from_mins(1);

pub(super) async fn check(
    ctx: &mut Context,
    logs: &Logs,
    options: &Verify,
) -> Result<Exit, Failure> {
    let against = against(options)?;
    let progress = ctx.out.progress("checking");
    if let Some(name) = &options.log.log {
        let report = verify_against(&logs.store, logs.find(name)?, &against)
            .await
            .map_err(failed("verify"))?;
        drop(progress);
        ctx.out
            .answer(&report.to_json(), verdict(logs, &report).join("\n"))?;
        return Ok(good(report.is_good()));
    }
    let report = verify_all_against(&logs.store, &against)
        .await
        .map_err(failed("verify"))?;
    drop(progress);
    let mut lines: Vec<String> = report
        .logs
        .iter()
        .flat_map(|one| verdict(logs, one))
        .collect();
    lines.extend(report.findings.iter().map(|found| finding(logs, found)));
    lines.extend(conclusion(&report));
    ctx.out.answer(&report.to_json(), lines.join("\n"))?;
    Ok(good(report.is_good()))
}

/// Reads what the logs are to be held against.
fn against(options: &Verify) -> Result<Against, Failure> {
    let mut against = Against {
        file: (!options.quick).then_some(FILE_TIME),
        ..Against::default()
    };
    for text in &options.trust {
        let key: VerifierKey = text
            .parse()
            .map_err(|error| Failure::local("reading --trust", &error))?;
        against.trust.push(key);
    }
    for folder in &options.checkpoints {
        against
            .outside
            .add_folder(folder)
            .map_err(|error| Failure::local("reading --checkpoints", &error))?;
    }
    for file in &options.checkpoint {
        against
            .outside
            .add_file(file)
            .map_err(|error| Failure::local("reading --checkpoint", &error))?;
    }
    Ok(against)
}

fn verdict(logs: &Logs, report: &VerifyReport) -> Vec<String> {
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
    // An empty log has nothing to be proved.
    if report.first_break.is_none() && report.tail > 0 {
        line.extend([match report.proved {
            0 => ", not signed".to_owned(),
            proved if proved == report.tail => ", signed to its end".to_owned(),
            proved => format!(", signed up to {proved}"),
        }]);
    }
    let findings = report.findings.iter().map(|found| finding(logs, found));
    std::iter::once(line).chain(findings).collect()
}

fn finding(logs: &Logs, finding: &Finding) -> String {
    let name = logs.name(finding.log);
    match finding.pos {
        0 => format!("{name}: {}", finding.what),
        pos => format!("{name} at {pos}: {}", finding.what),
    }
}

/// What it comes to, and what it is worth.
fn conclusion(report: &AllReport) -> Vec<String> {
    let (count, folded, anchors) = (report.logs.len(), report.folded, report.anchors);
    let checkpoints: u64 = report.logs.iter().map(|log| log.checkpoints).sum();
    let word = if report.is_good() { "good" } else { "NOT GOOD" };
    let mut lines = vec![format!(
        "{word}: {count} logs, {folded} streams folded, {anchors} anchors and {checkpoints} checkpoints compared"
    )];
    let behind: u64 = report
        .logs
        .iter()
        .map(|log| log.tail - log.proved.min(log.tail))
        .sum();
    if behind > 0 {
        lines.push(format!(
            "not proved: {behind} events behind the newest checkpoints hang together, no more"
        ));
    }
    if report.is_file_cut {
        let seconds = FILE_TIME.as_secs();
        lines.push(format!(
            "not looked at: what of the database file could not be read in {seconds} s"
        ));
    }
    if checkpoints > 0 && !report.is_key_given {
        lines.push(
            "not proved: that nobody wrote the logs anew with a key of their own; --trust a key that you know"
                .to_owned(),
        );
    }
    lines
}

pub(super) async fn views(ctx: &mut Context, logs: &Logs, data: &Path) -> Result<Exit, Failure> {
    let path = data.join("views.db");
    if !path.exists() {
        return Err(
            Failure::new(Exit::NotFound, "there are no views to compare with")
                .advise("they are made when an api runs"),
        );
    }
    let views = Views::open_read_only(&path)
        .map_err(|error| Failure::local("opening the views", &error))?;
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
