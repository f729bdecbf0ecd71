//! Checkpoints, the database and leases of an api that runs.

use std::path::Path;

use cocoonbox_proto::control::v1::{
    CheckpointsCondition, ConditionResponse, DatabaseCondition, LeasesCondition,
};
use serde_json::{Value, json};

use super::finding::Finding;

/// The database is asked each second; it is late when three questions had no answer.
const POLLED_MS_MAX: i64 = 3_000;

pub(super) fn findings(condition: &ConditionResponse, data: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(checkpoints) = &condition.checkpoints {
        of_checkpoints(checkpoints, data, &mut findings);
    }
    if let Some(database) = &condition.database {
        of_database(database, &mut findings);
    }
    if let Some(leases) = &condition.leases {
        of_leases(leases, &mut findings);
    }
    findings
}

fn of_checkpoints(checkpoints: &CheckpointsCondition, data: &Path, findings: &mut Vec<Finding>) {
    if !checkpoints.alarm.is_empty() {
        let kept = data.join("objects/checkpoints");
        let kept = kept.display();
        findings.push(
            Finding::wrong("CHECKPOINT_ALARM", &checkpoints.alarm)
                .because("the log was written anew behind a signed checkpoint, or the store was put back to an older state")
                .advise(format!(
                    "keep `{kept}` as it is; `cocoonbox replay verify --checkpoints {kept}` says where they part; after a restore: `cocoonbox log rewind`"
                )),
        );
    }
    if !checkpoints.fault.is_empty() {
        let CheckpointsCondition {
            overdue_logs,
            failed,
            ..
        } = checkpoints;
        findings.push(
            Finding::wrong(
                "CHECKPOINTS",
                format!("checkpoints cannot be written: {overdue_logs} logs are overdue, {failed} attempts failed"),
            )
            .because(&checkpoints.fault)
            .advise("logs are written all the same, unsigned; mend what the cause names (`objects` in the data directory, its room, the store): it is tried again every 5 s"),
        );
    }
}

fn of_database(database: &DatabaseCondition, findings: &mut Vec<Finding>) {
    if database.polled_ago_ms > POLLED_MS_MAX {
        let seconds = database.polled_ago_ms / 1_000;
        findings.push(
            Finding::wrong("DATABASE", format!("the database has not answered for {seconds} s"))
                .because(format!("{} questions had no answer; nothing can be written, and after 10 s other processes take its boxes over", database.failed_polls))
                .advise("is the server up, and can it be reached from here? it is asked again by itself; `run/api.log` has what it says"),
        );
    }
    if database.notifies && !database.is_listening {
        findings.push(
            Finding::wrong("DOORBELL", "the connection that hears of other processes' events does not stand")
                .because(format!("it was lost {} times; what others write is seen a second late", database.listener_losses))
                .advise("it is made anew by itself; a pooler that keeps no sessions has to be passed by, or the store's address ends with ?notify=off"),
        );
    }
}

fn of_leases(leases: &LeasesCondition, findings: &mut Vec<Finding>) {
    if !leases.is_renewing {
        findings.push(
            Finding::wrong(
                "LEASES",
                format!("the leases of {} boxes cannot be renewed", leases.held),
            )
            .because("the database does not answer in time; 10 s after the last renewal other processes drive the boxes")
            .advise("mend the way to the database; it is tried again by itself"),
        );
    } else if leases.lost > 0 {
        findings.push(
            Finding::note(
                "LEASES_LOST",
                format!("{} leases were lost since the api began", leases.lost),
            )
            .because("this process or the database stood still for some seconds; the boxes went on elsewhere")
            .advise("if it grows: less load on this machine, or a database that answers in time"),
        );
    }
}

pub(super) fn to_json(condition: &ConditionResponse) -> Value {
    let checkpoints = condition.checkpoints.as_ref().map(|one| {
        json!({
            "overdue_logs": one.overdue_logs, "written": one.written, "failed": one.failed,
            "fault": one.fault, "alarm": one.alarm,
        })
    });
    let database = condition.database.as_ref().map(|one| {
        json!({
            "polled_ago_ms": one.polled_ago_ms, "notifies": one.notifies,
            "is_listening": one.is_listening, "listener_losses": one.listener_losses,
            "failed_polls": one.failed_polls,
        })
    });
    let leases = condition
        .leases
        .as_ref()
        .map(|one| json!({"held": one.held, "lost": one.lost, "is_renewing": one.is_renewing}));
    json!({"checkpoints": checkpoints, "database": database, "leases": leases})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(condition: &ConditionResponse) -> Vec<&'static str> {
        let findings = findings(condition, Path::new("/data"));
        findings.iter().map(|one| one.code).collect()
    }

    fn well() -> ConditionResponse {
        ConditionResponse {
            checkpoints: Some(CheckpointsCondition {
                written: 7,
                failed: 2,
                ..CheckpointsCondition::default()
            }),
            database: Some(DatabaseCondition {
                polled_ago_ms: 3_000,
                notifies: true,
                is_listening: true,
                listener_losses: 1,
                failed_polls: 1,
            }),
            leases: Some(LeasesCondition {
                held: 3,
                lost: 0,
                is_renewing: true,
            }),
            ..ConditionResponse::default()
        }
    }

    #[test]
    fn what_went_wrong_and_is_well_again_is_not_told() {
        assert!(codes(&well()).is_empty());
        assert!(codes(&ConditionResponse::default()).is_empty());
    }

    #[test]
    fn each_thing_that_is_wrong_is_told() {
        let mut ill = well();
        let checkpoints = ill.checkpoints.as_mut().unwrap();
        checkpoints.fault = "no space left".to_owned();
        checkpoints.alarm = "`checkpoints/x/9` is kept".to_owned();
        let database = ill.database.as_mut().unwrap();
        database.polled_ago_ms = 3_001;
        database.is_listening = false;
        ill.leases.as_mut().unwrap().is_renewing = false;
        let all = [
            "CHECKPOINT_ALARM",
            "CHECKPOINTS",
            "DATABASE",
            "DOORBELL",
            "LEASES",
        ];
        assert_eq!(codes(&ill), all);
        let told = findings(&ill, Path::new("/data"));
        assert!(told.iter().all(|one| one.advice.is_some()));
    }

    #[test]
    fn who_does_not_listen_by_choice_has_lost_nothing() {
        let mut polling = well();
        let database = polling.database.as_mut().unwrap();
        database.notifies = false;
        database.is_listening = false;
        polling.leases.as_mut().unwrap().lost = 2;
        assert_eq!(codes(&polling), ["LEASES_LOST"]);
    }
}
