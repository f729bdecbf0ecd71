//! What is wrong with the installation of this host, and what to do.

mod clock;
mod files;
mod finding;
mod gather;
mod rebuild;
mod views;
mod vitals;

use std::path::Path;

use cocoonbox_proto::control::v1::ConditionResponse;
use serde_json::json;

use crate::{cli::doctor::Doctor, context::Context, exit::Exit, failure::Failure};
use finding::{Finding, Severity};
use gather::Seen;

pub async fn doctor(ctx: &mut Context, args: Doctor) -> Result<Exit, Failure> {
    let data = std::path::absolute(ctx.data_dir())
        .map_err(|error| Failure::local("data directory", &error))?;
    if let Some(view) = args.rebuild {
        return rebuild::rebuild(ctx, &data, view).await;
    }
    let seen = gather::gather(ctx, &data).await;
    let findings = findings(&data, &seen);
    let is_wrong = findings.iter().any(|one| one.severity == Severity::Wrong);
    if ctx.out.json {
        let findings: Vec<_> = findings.iter().map(Finding::to_json).collect();
        let views = seen.condition.as_ref().map(views::to_json);
        let vitals = seen.condition.as_ref().map(vitals::to_json);
        let vitals = vitals.unwrap_or_default();
        ctx.out.value(&json!({
            "healthy": !is_wrong,
            "api": seen.is_up(),
            "version": seen.condition.as_ref().map(|found| &found.version),
            "data_dir": data,
            "views": views,
            "checkpoints": vitals["checkpoints"],
            "database": vitals["database"],
            "leases": vitals["leases"],
            "findings": findings,
        }))?;
    } else {
        if let Some(condition) = &seen.condition {
            ctx.out.line(summary(&seen, condition))?;
        }
        for finding in &findings {
            ctx.out.line(finding.to_string())?;
        }
        ctx.out.line(if is_wrong {
            "something is wrong"
        } else {
            "nothing is wrong"
        })?;
    }
    Ok(if is_wrong { Exit::Failure } else { Exit::Ok })
}

fn summary(seen: &Seen, condition: &ConditionResponse) -> String {
    let of: Vec<String> = condition
        .logs
        .iter()
        .map(|total| {
            format!(
                "{} {} logs with {} events",
                total.logs, total.kind, total.events
            )
        })
        .collect();
    let who = if seen.is_up() {
        format!(
            "api {} runs, {} boxes connected",
            condition.version, condition.boxes_attached
        )
    } else {
        "looked at the files".to_owned()
    };
    format!("{who}; {}", of.join(", "))
}

fn findings(data: &Path, seen: &Seen) -> Vec<Finding> {
    let mut findings = seen.findings.clone();
    if let Some(condition) = &seen.condition {
        if seen.is_up() && condition.version != env!("CARGO_PKG_VERSION") {
            findings.push(
                Finding::note(
                    "VERSIONS",
                    format!(
                        "the api is version {}, this program {}",
                        condition.version,
                        env!("CARGO_PKG_VERSION")
                    ),
                )
                .advise("`cocoonbox down`, then `cocoonbox up` starts the installed one"),
            );
        }
        findings.extend(views::findings(condition, seen.is_up()));
        findings.extend(clock::findings(condition));
        findings.extend(vitals::findings(condition, data));
        findings.extend(condition.replica_faults.iter().map(|fault| {
            Finding::wrong(
                "REPLICA",
                format!("the log of box {} is not copied any more", fault.box_id),
            )
            .because(&fault.cause)
            .advise("`cocoonbox hibernate` and `ensure` it: its log goes on from what was copied")
        }));
    }
    findings.extend(files::findings(data));
    findings.sort_by_key(|finding| finding.severity);
    findings
}
