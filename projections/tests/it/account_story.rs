use cocoonbox_events::{BoxEvent as B, LogKind, UserEvent};
use cocoonbox_projections::OperationEventRow;
use cocoonbox_proto::{
    control::v1::{Phase, State},
    log::v1::{
        BoxCreated, BoxDeleteRequested, BoxDeleted, BoxEnsureRequested, BoxFailed,
        BoxHibernateRequested, BoxHibernated, BoxMachineLost, BoxMemoryExhausted, BoxRenamed,
        BoxRunning, BoxStarting, BoxWakeRequested, UsageModelCalled, UserCreated,
    },
};

use crate::world::{USER, World};

fn op(id: &str) -> String {
    id.to_owned()
}

fn created(name: &str) -> B {
    B::Created(BoxCreated {
        box_id: "b1".to_owned(),
        flavor: 1,
        name: name.to_owned(),
        box_log: vec![0xab; 16],
        user_id: USER.to_owned(),
        origin: None,
    })
}

fn starting(id: &str) -> B {
    let (wake_id, image) = ("w1".to_owned(), "core-1".to_owned());
    B::Starting(BoxStarting {
        operation_id: op(id),
        wake_id,
        image,
    })
}

fn running(id: &str) -> B {
    let (wake_id, agent_version) = ("w1".to_owned(), "0.1.0".to_owned());
    B::Running(BoxRunning {
        operation_id: op(id),
        wake_id,
        agent_version,
    })
}

fn steps(events: &[OperationEventRow]) -> Vec<(Phase, &str)> {
    events
        .iter()
        .map(|event| (Phase::try_from(event.phase).unwrap(), event.detail.as_str()))
        .collect()
}

#[tokio::test]
async fn a_box_from_its_start_to_its_end() {
    let mut world = World::new();
    let log = world.account().await;
    world.write_box(log, "b1", created("main")).await;
    let ensure = B::EnsureRequested(BoxEnsureRequested {
        operation_id: op("op1"),
    });
    let key = world.write_box(log, "b1", ensure).await;
    world.seen(&key).await;

    let row = world.views.box_(USER, "b1").await.unwrap().unwrap();
    assert_eq!(row.state(), State::Starting);
    assert_eq!(row.operation_id, "op1");
    assert_eq!(row.name, "main");
    assert_eq!(row.flavor, 1);
    assert_eq!(row.box_log, "ab".repeat(16));
    assert_eq!(row.created_at_ms, 1_700_000_000_000);
    assert_eq!(row.offset_key, key.to_string());

    world.write_box(log, "b1", starting("op1")).await;
    world.clock.set(1_700_000_001_000_000);
    let key = world.write_box(log, "b1", running("op1")).await;
    world.seen(&key).await;
    let (owner, row) = world.views.box_owner("b1").await.unwrap().unwrap();
    assert_eq!(owner, USER);
    assert_eq!(row.state(), State::Running);
    assert_eq!(row.operation_id, "");
    assert_eq!(row.image, "core-1");
    assert_eq!(row.wake_id, "w1");
    assert_eq!(row.created_at_ms, 1_700_000_000_000);

    let all = world
        .views
        .operation_events(USER, "op1", 0, 100)
        .await
        .unwrap();
    assert_eq!(
        steps(&all),
        [
            (Phase::Creating, "requested"),
            (Phase::Creating, "starting"),
            (Phase::Done, "")
        ]
    );
    let rest = world
        .views
        .operation_events(USER, "op1", all[0].pos, 100)
        .await
        .unwrap();
    assert_eq!(rest, all[1..]);
    let row = world.views.operation(USER, "op1").await.unwrap().unwrap();
    assert!(row.ended);
    assert_eq!(row.kind, "ensure");
    assert_eq!(row.box_id, "b1");
    assert_eq!(row.offset_key, key.to_string());

    let asked = BoxHibernateRequested {
        operation_id: op("op2"),
        reason: "idle".to_owned(),
    };
    world
        .write_box(log, "b1", B::HibernateRequested(asked))
        .await;
    let done = BoxHibernated {
        operation_id: op("op2"),
        memory_kept: false,
        quiesced: true,
    };
    let key = world.write_box(log, "b1", B::Hibernated(done)).await;
    world.seen(&key).await;
    let row = world.views.box_(USER, "b1").await.unwrap().unwrap();
    assert_eq!((row.state(), row.wake_id.as_str()), (State::Hibernated, ""));
    let all = world
        .views
        .operation_events(USER, "op2", 0, 100)
        .await
        .unwrap();
    assert_eq!(
        steps(&all),
        [(Phase::CleaningUp, "requested"), (Phase::Done, "")]
    );

    let delete = BoxDeleteRequested {
        operation_id: op("op3"),
    };
    let key = world.write_box(log, "b1", B::DeleteRequested(delete)).await;
    world.seen(&key).await;
    let row = world.views.box_(USER, "b1").await.unwrap().unwrap();
    assert_eq!(row.state(), State::Deleting);
    let key = world
        .write_box(
            log,
            "b1",
            B::Deleted(BoxDeleted {
                operation_id: op("op3"),
            }),
        )
        .await;
    world.seen(&key).await;
    assert_eq!(world.views.boxes(USER).await.unwrap(), []);
    assert_eq!(world.views.box_owner("b1").await.unwrap(), None);
    assert!(
        world
            .views
            .operation(USER, "op3")
            .await
            .unwrap()
            .unwrap()
            .ended
    );
    assert!(world.settle().await.is_equal());
    world.stop().await;
}

#[tokio::test]
async fn a_box_that_two_accounts_claim_is_nobodys_until_one_lets_go() {
    let world = World::new();
    let (ada, eve) = (
        world.account().await,
        world.open(LogKind::Account, "eve").await,
    );
    world.write_box(ada, "b1", created("main")).await;
    let key = world.write_box(eve, "b1", created("main")).await;
    world.seen(&key).await;
    assert!(world.views.box_owner("b1").await.unwrap().is_none());
    let deleted = B::Deleted(BoxDeleted {
        operation_id: op("op1"),
    });
    let key = world.write_box(eve, "b1", deleted).await;
    world.seen(&key).await;
    assert_eq!(world.views.box_owner("b1").await.unwrap().unwrap().0, USER);
}

#[tokio::test]
async fn a_wake_waits_for_the_hibernation_under_way() {
    let world = World::new();
    let log = world.account().await;
    world.write_box(log, "b1", created("main")).await;
    let ensure = BoxEnsureRequested {
        operation_id: op("op1"),
    };
    world.write_box(log, "b1", B::EnsureRequested(ensure)).await;
    world.write_box(log, "b1", starting("op1")).await;
    world.write_box(log, "b1", running("op1")).await;
    let sleep = BoxHibernateRequested {
        operation_id: op("op2"),
        reason: String::new(),
    };
    world
        .write_box(log, "b1", B::HibernateRequested(sleep))
        .await;
    let wake = BoxWakeRequested {
        operation_id: op("op3"),
    };
    let key = world.write_box(log, "b1", B::WakeRequested(wake)).await;
    world.seen(&key).await;
    let row = world.views.box_(USER, "b1").await.unwrap().unwrap();
    assert_eq!(
        (row.state(), row.operation_id.as_str()),
        (State::Hibernating, "op3")
    );
    assert!(
        !world
            .views
            .operation(USER, "op2")
            .await
            .unwrap()
            .unwrap()
            .ended
    );

    let slept = BoxHibernated {
        operation_id: op("op2"),
        memory_kept: false,
        quiesced: true,
    };
    let key = world.write_box(log, "b1", B::Hibernated(slept)).await;
    world.seen(&key).await;
    let row = world.views.box_(USER, "b1").await.unwrap().unwrap();
    assert_eq!(
        (row.state(), row.operation_id.as_str()),
        (State::Starting, "op3")
    );
    let slept = world.views.operation(USER, "op2").await.unwrap().unwrap();
    assert_eq!((slept.phase, slept.ended), (Phase::Done.into(), true));

    world.write_box(log, "b1", starting("op3")).await;
    let key = world.write_box(log, "b1", running("op3")).await;
    world.seen(&key).await;
    let row = world.views.box_(USER, "b1").await.unwrap().unwrap();
    assert_eq!(
        (row.state(), row.operation_id.as_str()),
        (State::Running, "")
    );
    assert!(
        world
            .views
            .operation(USER, "op3")
            .await
            .unwrap()
            .unwrap()
            .ended
    );
}

#[tokio::test]
async fn what_is_asked_later_supersedes_what_is_under_way() {
    let world = World::new();
    let log = world.account().await;
    world.write_box(log, "b1", created("main")).await;
    let ensure = B::EnsureRequested(BoxEnsureRequested {
        operation_id: op("op1"),
    });
    world.write_box(log, "b1", ensure).await;
    world.write_box(log, "b1", starting("op1")).await;
    let delete = BoxDeleteRequested {
        operation_id: op("op2"),
    };
    world.write_box(log, "b1", B::DeleteRequested(delete)).await;
    // The start had gone too far to hear of it.
    let key = world.write_box(log, "b1", running("op1")).await;
    world.seen(&key).await;

    let all = world
        .views
        .operation_events(USER, "op1", 0, 100)
        .await
        .unwrap();
    assert_eq!(
        steps(&all).last(),
        Some(&(Phase::FailedPhase, "superseded by op2"))
    );
    assert_eq!(all.len(), 3);
    let row = world.views.operation(USER, "op1").await.unwrap().unwrap();
    assert!(row.ended);
    assert!(
        !world
            .views
            .operation(USER, "op2")
            .await
            .unwrap()
            .unwrap()
            .ended
    );

    let key = world
        .write_box(
            log,
            "b1",
            B::Deleted(BoxDeleted {
                operation_id: op("op2"),
            }),
        )
        .await;
    world.seen(&key).await;
    let row = world.views.operation(USER, "op2").await.unwrap().unwrap();
    assert_eq!((row.ended, row.phase), (true, Phase::Done.into()));
}

#[tokio::test]
async fn a_failure_and_a_lost_machine_are_told() {
    let world = World::new();
    let log = world.account().await;
    world.write_box(log, "b1", created("main")).await;
    let ensure = B::EnsureRequested(BoxEnsureRequested {
        operation_id: op("op1"),
    });
    world.write_box(log, "b1", ensure).await;
    let failed = BoxFailed {
        operation_id: op("op1"),
        reason: "NO_SPACE".to_owned(),
        detail: "disk is full".to_owned(),
    };
    let key = world.write_box(log, "b1", B::Failed(failed)).await;
    world.seen(&key).await;
    let row = world.views.box_(USER, "b1").await.unwrap().unwrap();
    assert_eq!(
        (row.state(), row.failure.as_str()),
        (State::Failed, "NO_SPACE: disk is full")
    );
    let row = world.views.operation(USER, "op1").await.unwrap().unwrap();
    assert_eq!((row.phase, row.ended), (Phase::FailedPhase.into(), true));
    assert_eq!(row.detail, "NO_SPACE: disk is full");

    let again = B::EnsureRequested(BoxEnsureRequested {
        operation_id: op("op2"),
    });
    world.write_box(log, "b1", again).await;
    world.write_box(log, "b1", running("op2")).await;
    let lost = || BoxMachineLost {
        wake_id: "w1".to_owned(),
        detail: "killed".to_owned(),
    };
    for killed in [1, 3] {
        let wake_id = "w1".to_owned();
        let exhausted = B::MemoryExhausted(BoxMemoryExhausted { wake_id, killed });
        let key = world.write_box(log, "b1", exhausted).await;
        world.seen(&key).await;
    }
    let row = world.views.box_(USER, "b1").await.unwrap().unwrap();
    let shown = cocoonbox_proto::control::v1::Box::from(row);
    assert_eq!(shown.notice, "its memory was full: 3 processes were killed");
    let key = world.write_box(log, "b1", B::MachineLost(lost())).await;
    world.seen(&key).await;
    let row = world.views.box_(USER, "b1").await.unwrap().unwrap();
    assert_eq!(
        (row.state(), row.failure.as_str()),
        (State::Hibernated, "killed")
    );

    // Lost in the middle of a wake: the wake goes on.
    let wake = B::WakeRequested(BoxWakeRequested {
        operation_id: op("op3"),
    });
    world.write_box(log, "b1", wake).await;
    world.write_box(log, "b1", B::MachineLost(lost())).await;
    world.write_box(log, "b1", starting("op3")).await;
    let key = world.write_box(log, "b1", running("op3")).await;
    world.seen(&key).await;
    let all = world
        .views
        .operation_events(USER, "op3", 0, 100)
        .await
        .unwrap();
    assert_eq!(
        steps(&all),
        [
            (Phase::Creating, "requested"),
            (Phase::Creating, "machine lost: killed"),
            (Phase::Creating, "starting"),
            (Phase::Done, ""),
        ]
    );
    let row = world.views.box_(USER, "b1").await.unwrap().unwrap();
    assert_eq!((row.state(), row.failure.as_str()), (State::Running, ""));
}

#[tokio::test]
async fn audit_and_usage_of_two_users_stay_apart() {
    let world = World::new();
    let log = world.account().await;
    let other = world
        .open(cocoonbox_events::LogKind::Account, "user-2")
        .await;
    let user = UserCreated {
        user_id: USER.to_owned(),
        name: "Ada".to_owned(),
        admin: true,
    };
    world
        .write(log, &format!("user/{USER}"), UserEvent::Created(user))
        .await;
    let call = |status, complete, input| UsageModelCalled {
        box_id: "b1".to_owned(),
        vendor: "openai".to_owned(),
        model: "family/model".to_owned(),
        input_tokens: input,
        output_tokens: 2,
        status,
        complete,
        ..UsageModelCalled::default()
    };
    world
        .write_usage(log, "2026-11-29", call(200, true, 10))
        .await;
    world
        .write_usage(log, "2026-11-29", call(529, true, 0))
        .await;
    world
        .write_usage(log, "2026-11-29", call(200, false, 7))
        .await;
    world
        .write_usage(log, "2026-11-30", call(200, true, 1))
        .await;
    let renamed = BoxRenamed {
        name: "second".to_owned(),
    };
    let key = world.write_box(other, "b2", B::Renamed(renamed)).await;
    world.seen(&key).await;
    assert!(world.settle().await.is_equal());

    let rows = world.views.usage(USER).await.unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!(
        (rows[0].day.as_str(), rows[0].model.as_str()),
        ("2026-11-29", "family/model")
    );
    assert_eq!((rows[0].calls, rows[0].failed_calls), (3, 2));
    assert_eq!((rows[0].input_tokens, rows[0].output_tokens), (17, 6));
    assert_eq!(world.views.usage("user-2").await.unwrap(), []);

    let first = world.views.audit(USER, None, 2).await.unwrap();
    let lines: Vec<_> = first
        .items
        .iter()
        .map(|row| (&*row.kind, &*row.summary))
        .collect();
    assert_eq!(
        lines,
        [
            ("user.created", "Ada, admin"),
            (
                "usage.model_called",
                "openai family/model: 10 in, 2 out, status 200"
            ),
        ]
    );
    assert_eq!(first.items[0].actor, "user:user-1");
    let rest = world
        .views
        .audit(USER, first.next.as_deref(), 100)
        .await
        .unwrap();
    assert_eq!((rest.items.len(), rest.next), (3, None));
    assert_eq!(
        rest.items[1].summary,
        "openai family/model: 7 in, 2 out, status 200, cut"
    );
    let theirs = world.views.audit("user-2", None, 100).await.unwrap();
    assert_eq!(theirs.items.len(), 1);
    // A token that tries to climb out of the prefix finds nothing.
    let climbed = world
        .views
        .audit(USER, Some("../user-2/"), 100)
        .await
        .unwrap();
    assert!(
        climbed
            .items
            .iter()
            .all(|row| row.actor == "user:user-1" && row.stream != "box/b2")
    );
}
