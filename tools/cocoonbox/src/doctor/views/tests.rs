use cocoonbox_proto::control::v1::LateLog;

use super::*;

fn condition(view: ViewCondition) -> ConditionResponse {
    ConditionResponse {
        views: vec![view],
        ..ConditionResponse::default()
    }
}

fn good() -> ViewCondition {
    ViewCondition {
        name: "transcript".to_owned(),
        answers: true,
        ..ViewCondition::default()
    }
}

fn told(view: ViewCondition) -> String {
    let found = findings(&condition(view), true);
    found
        .iter()
        .map(Finding::to_string)
        .collect::<Vec<_>>()
        .join("\n")
}

fn stop() -> StoppedLog {
    StoppedLog {
        log_id: "0198".to_owned(),
        owner: "u1".to_owned(),
        pos: 43,
        kind: "agent.prompt_received".to_owned(),
        kind_version: 2,
        error: "version 2 of `agent.prompt_received` is newer than this build, which knows 1"
            .to_owned(),
    }
}

#[test]
fn a_good_view_is_not_worth_a_word() {
    assert_eq!(told(good()), "");
}

#[test]
fn a_stop_says_where_why_and_what_to_do() {
    let view = ViewCondition {
        stopped: vec![stop()],
        ..good()
    };
    insta::assert_snapshot!(told(view), @"
    wrong  view `transcript` stopped at event 43 of log 0198 of user u1
             why: agent.prompt_received (version 2): version 2 of `agent.prompt_received` is newer than this build, which knows 1
             do:  start an api whose version reads it: it goes on from there by itself; to see it: `cocoonbox replay show --log 0198 --from 42 --limit 1`
    ");
}

#[test]
fn what_is_built_says_how_far_it_is_and_who_answers() {
    let building = |answers, blocked| ViewCondition {
        answers,
        building: Some(ViewBuilding {
            done: 43,
            of: 100,
            answers,
            blocked,
            ..ViewBuilding::default()
        }),
        ..good()
    };
    insta::assert_snapshot!(told(building(true, None)), @"note   view `transcript` is being built: 43 of 100 events, 43 %; its old rows answer");
    insta::assert_snapshot!(told(building(false, None)), @"
    wrong  view `transcript` is being built: 43 of 100 events, 43 %; it answers nothing yet
             why: this version keeps its rows in another form than the one before
             do:  wait: it is done by itself
    ");
    assert!(
        told(building(true, Some(stop()))).starts_with("wrong  view `transcript` cannot be built")
    );
}

#[test]
fn lag_is_a_note_and_then_wrong_and_an_unreadable_log_is_named() {
    let late = |lag_ms, unreadable| ViewCondition {
        lag_ms,
        lag_events: 5,
        late: vec![LateLog {
            log_id: "0198".to_owned(),
            pos: 2,
            tail: 7,
            unreadable,
            ..LateLog::default()
        }],
        ..good()
    };
    assert_eq!(told(late(3_000, false)), "");
    assert!(
        told(late(11_000, false)).starts_with("note   view `transcript` is 5 events behind, 11 s")
    );
    assert!(
        told(late(70_000, false)).starts_with("wrong  view `transcript` is 5 events behind, 70 s")
    );
    assert!(told(late(0, true)).contains("event 3 cannot be read from the log"));
    // Without an api nothing is expected to have been taken in.
    assert_eq!(findings(&condition(late(70_000, false)), false), []);
}
