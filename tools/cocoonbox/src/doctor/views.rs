//! What views are behind, and why.

use cocoonbox_proto::control::v1::{ConditionResponse, StoppedLog, ViewBuilding, ViewCondition};
use serde_json::{Value, json};

use super::finding::Finding;

/// event-log.md 1.11: a view this far behind is worth a word. A busy machine is, for moments.
const LAG_MS_NOTE: i64 = 10_000;
const LAG_MS_WRONG: i64 = 60_000;
/// The runner looks each second.
const LOOKED_MS_MAX: i64 = 30_000;
/// Stops that are told one by one.
const STOPS_MAX: usize = 5;

pub(super) fn findings(condition: &ConditionResponse, is_up: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    if is_up && condition.views_looked_ago_ms > LOOKED_MS_MAX {
        let seconds = condition.views_looked_ago_ms / 1_000;
        findings.push(
            Finding::wrong("VIEWS", format!("the views have not looked at the logs for {seconds} s"))
                .because("they are being written anew after something was erased, or the disk does not answer")
                .advise("wait a minute; if it stays so, restart the api: nothing is lost"),
        );
    }
    for view in &condition.views {
        of_view(view, is_up, &mut findings);
    }
    findings
}

fn of_view(view: &ViewCondition, is_up: bool, findings: &mut Vec<Finding>) {
    let name = &view.name;
    for stop in view.stopped.iter().take(STOPS_MAX) {
        findings.push(
            Finding::wrong("VIEW_STOPPED", format!("view `{name}` stopped {}", place(stop)))
                .because(format!("{} (version {}): {}", stop.kind, stop.kind_version, stop.error))
                .advise(format!(
                    "start an api whose version reads it: it goes on from there by itself; to see it: `cocoonbox replay show --log {} --from {} --limit 1`",
                    stop.log_id,
                    stop.pos.saturating_sub(1)
                )),
        );
    }
    if view.stopped.len() > STOPS_MAX {
        let more = view.stopped.len() - STOPS_MAX;
        findings.push(Finding::wrong(
            "VIEW_STOPPED",
            format!("view `{name}` stopped in {more} more logs"),
        ));
    }
    if let Some(building) = &view.building {
        findings.push(of_building(view, building, is_up));
    } else if !view.answers && is_up {
        findings.push(
            Finding::wrong(
                "VIEW_BUILDING",
                format!("view `{name}` answers nothing yet"),
            )
            .advise("it is built by itself; ask again in a moment"),
        );
    }
    if !is_up {
        return;
    }
    if let Some(late) = view.late.iter().find(|late| late.unreadable) {
        findings.push(
            Finding::wrong(
                "LOG_UNREADABLE",
                format!(
                    "view `{name}` is behind in log {} of {}",
                    late.log_id,
                    who(&late.owner)
                ),
            )
            .because(format!(
                "event {} cannot be read from the log",
                late.pos + 1
            ))
            .advise(format!(
                "`cocoonbox replay verify --log {}` says what is damaged",
                late.log_id
            )),
        );
    }
    if view.lag_ms >= LAG_MS_NOTE {
        let what = format!(
            "view `{name}` is {} events behind, {} s",
            view.lag_events,
            view.lag_ms / 1_000
        );
        let worst = view.late.first().map(|late| {
            let behind = late.tail.saturating_sub(late.pos);
            format!(
                "log {} of {} is at {} of {}, {behind} events behind",
                late.log_id,
                who(&late.owner),
                late.pos,
                late.tail
            )
        });
        let finding = if view.lag_ms >= LAG_MS_WRONG {
            Finding::wrong("VIEW_BEHIND", what)
        } else {
            Finding::note("VIEW_BEHIND", what)
        };
        findings.push(
            finding.because(worst.unwrap_or_default()).advise(
                "more is written than this machine takes in: fewer boxes, or a faster disk",
            ),
        );
    }
}

fn of_building(view: &ViewCondition, building: &ViewBuilding, is_up: bool) -> Finding {
    let name = &view.name;
    if let Some(stop) = &building.blocked {
        return Finding::wrong(
            "VIEW_BUILDING",
            format!("view `{name}` cannot be built to its end; its old rows answer"),
        )
        .because(format!("it stopped {}: {}", place(stop), stop.error))
        .advise("start an api whose version reads the event: the build goes on from there");
    }
    let percent = building
        .done
        .saturating_mul(100)
        .checked_div(building.of)
        .unwrap_or(100);
    let of = format!("{} of {} events, {percent} %", building.done, building.of);
    if !is_up {
        return Finding::note(
            "VIEW_BUILDING",
            format!("view `{name}` was being built: {of}"),
        )
        .advise("it goes on from there when an api runs");
    }
    if building.comparing {
        Finding::note(
            "VIEW_BUILDING",
            format!("view `{name}` is built and being compared with what answers"),
        )
    } else if building.answers {
        Finding::note(
            "VIEW_BUILDING",
            format!("view `{name}` is being built: {of}; its old rows answer"),
        )
    } else {
        Finding::wrong(
            "VIEW_BUILDING",
            format!("view `{name}` is being built: {of}; it answers nothing yet"),
        )
        .because("this version keeps its rows in another form than the one before")
        .advise("wait: it is done by itself")
    }
}

fn place(stop: &StoppedLog) -> String {
    format!(
        "at event {} of log {} of {}",
        stop.pos,
        stop.log_id,
        who(&stop.owner)
    )
}

fn who(owner: &str) -> String {
    if owner.is_empty() {
        "the installation".to_owned()
    } else {
        format!("user {owner}")
    }
}

pub(super) fn to_json(condition: &ConditionResponse) -> Value {
    let stop = |stop: &StoppedLog| {
        json!({
            "log_id": stop.log_id, "owner": stop.owner, "pos": stop.pos, "kind": stop.kind,
            "kind_version": stop.kind_version, "error": stop.error,
        })
    };
    let view = |view: &ViewCondition| {
        let building = view.building.as_ref().map(|one| {
            json!({
                "version": one.version, "done": one.done, "of": one.of, "answers": one.answers,
                "comparing": one.comparing, "blocked": one.blocked.as_ref().map(stop),
            })
        });
        json!({
            "name": view.name, "version": view.version, "answers": view.answers, "logs": view.logs,
            "events_done": view.events_done, "lag_events": view.lag_events,
            "lag_events_max": view.lag_events_max, "lag_ms": view.lag_ms,
            "stopped": view.stopped.iter().map(stop).collect::<Vec<_>>(),
            "building": building,
        })
    };
    condition.views.iter().map(view).collect()
}

#[cfg(test)]
mod tests;
