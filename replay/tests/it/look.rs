//! `show`, `state`, `changes` and `diff`.

use cocoonbox_replay::{By, Diff, Error, Filter, Line, changes, diff, show, state};
use serde_json::json;

use crate::world::{World, account, box_log, stream, system};

async fn lines(world: &World, log: cocoonbox_events::LogId, filter: Filter) -> Vec<Line> {
    let mut cursor = show(&world.store, log, filter, 0, usize::MAX)
        .await
        .unwrap();
    let mut all = Vec::new();
    while let Some(page) = cursor.next().await.unwrap() {
        assert!(!page.is_empty());
        all.extend(page);
    }
    all
}

fn kinds(lines: &[Line]) -> Vec<&str> {
    lines.iter().map(|line| line.kind.as_str()).collect()
}

#[tokio::test]
async fn an_account_log_as_lines() {
    let world = World::whole().await;
    let told: Vec<_> = lines(&world, account(), Filter::default())
        .await
        .iter()
        .map(Line::to_string)
        .collect();
    insta::assert_snapshot!(told[..5].join("\n"), @r#"
         1 2026-01-02T03:04:07.000500Z user/u1#1 user.created host user_id="u1" name="ann" admin=true
         2 2026-01-02T03:04:08.000750Z box/b1#1 box.created user:u1 box_id="b1" flavor=1 name="main" box_log="03030303030303030303030303030303" user_id="u1"
         3 2026-01-02T03:04:08.000750Z box/b1#2 box.ensure_requested user:u1 operation_id="o1"
         4 2026-01-02T03:04:09.001000Z box/b1#3 box.starting system:lifecycle operation_id="o1" wake_id="w1" image="core-1"
         5 2026-01-02T03:04:10.001250Z box/b1#4 box.running system:lifecycle operation_id="o1" wake_id="w1" agent_version="0.1"
    "#);
}

#[tokio::test]
async fn output_is_text_and_long_payloads_are_cut() {
    let world = World::whole().await;
    let filter = Filter {
        kinds: vec!["exec.output_streamed".into()],
        ..Filter::default()
    };
    let output = lines(&world, box_log(), filter).await;
    assert_eq!(output[0].short(), "source=\"STDOUT\" data=\"12\\n\"");
    assert_eq!(output[0].to_json()["payload"]["data"], "12\n");
    let long = Line {
        payload: json!({"text": "ä".repeat(1_000)}),
        ..output[0].clone()
    };
    assert_eq!(long.short().chars().count(), 161);
}

#[tokio::test]
async fn filters() {
    let world = World::whole().await;
    let one = |text: &str| vec![text.to_owned()];
    let of_box = Filter {
        streams: one("box/"),
        kinds: one("box.log_anchored"),
        ..Filter::default()
    };
    assert_eq!(
        kinds(&lines(&world, account(), of_box).await),
        ["box.log_anchored"]
    );
    let exec = Filter {
        kinds: one("exec"),
        ..Filter::default()
    };
    assert_eq!(lines(&world, box_log(), exec).await.len(), 3);
    assert!(
        lines(
            &world,
            box_log(),
            Filter {
                kinds: one("exe"),
                ..Filter::default()
            }
        )
        .await
        .is_empty()
    );
    let by = Filter {
        actor: Some("system".into()),
        ..Filter::default()
    };
    assert_eq!(lines(&world, account(), by).await.len(), 3);
    let by = Filter {
        actor: Some("user:u1".into()),
        ..Filter::default()
    };
    assert_eq!(lines(&world, account(), by).await.len(), 2);
    let by = Filter {
        actor: Some("user:u".into()),
        ..Filter::default()
    };
    assert!(lines(&world, account(), by).await.is_empty());
    let text = Filter {
        text: Some("gRÖSSE".into()),
        ..Filter::default()
    };
    assert!(
        lines(&world, box_log(), text).await.is_empty(),
        "ß is not ss"
    );
    let text = Filter {
        text: Some("GRÖßE".into()),
        ..Filter::default()
    };
    assert_eq!(
        kinds(&lines(&world, box_log(), text).await),
        ["agent.prompt_received"]
    );
    let all = lines(&world, account(), Filter::default()).await;
    let (from, to) = (Some(all[1].at_us), Some(all[4].at_us));
    let some = lines(
        &world,
        account(),
        Filter {
            from_us: from,
            to_us: to,
            ..Filter::default()
        },
    )
    .await;
    assert_eq!(some, all[1..4]);
}

#[tokio::test]
async fn a_limit_counts_what_is_shown() {
    let world = World::whole().await;
    let filter = Filter {
        kinds: vec!["box".into()],
        ..Filter::default()
    };
    let mut cursor = show(&world.store, account(), filter, 2, 2).await.unwrap();
    assert_eq!(
        kinds(&cursor.next().await.unwrap().unwrap()),
        ["box.ensure_requested", "box.starting"]
    );
    assert_eq!(cursor.next().await.unwrap(), None);
}

#[tokio::test]
async fn a_state_at_each_position() {
    let world = World::whole().await;
    let mut phases = Vec::new();
    for pos in 2..=6 {
        let at = state(&world.store, account(), &stream("box/b1"), Some(pos))
            .await
            .unwrap();
        phases.push((
            at.pos,
            at.seq,
            at.to_json()["state"]["phase"].as_str().unwrap().to_owned(),
        ));
    }
    let expected = [
        (2, 1, "absent"),
        (3, 2, "starting"),
        (4, 3, "starting"),
        (5, 4, "running"),
        (6, 5, "running"),
    ];
    let expected: Vec<_> = expected
        .into_iter()
        .map(|(pos, seq, phase)| (pos, seq, phase.to_owned()))
        .collect();
    assert_eq!(phases, expected);
    let at = state(&world.store, box_log(), &stream("agent/main"), None)
        .await
        .unwrap();
    assert_eq!(at.to_json()["state"]["conversation_entries"], 4);
    assert!(at.state.text().contains("Größe?"));
    let at = state(&world.store, system(), &stream("directory"), None)
        .await
        .unwrap();
    assert_eq!(at.to_json()["state"]["users"]["u1"]["name"], "ann");
}

#[tokio::test]
async fn questions_without_an_answer_say_why() {
    let world = World::whole().await;
    let ask = async |name: &str, pos| {
        state(&world.store, account(), &stream(name), pos)
            .await
            .unwrap_err()
    };
    assert!(matches!(
        ask("box/none", None).await,
        Error::NoSuchStream { .. }
    ));
    assert!(
        matches!(ask("box/b1", Some(1)).await, Error::NoSuchStream { .. }),
        "not yet"
    );
    assert!(matches!(
        ask("usage/day", None).await,
        Error::NotAnAggregate { .. }
    ));
    assert!(matches!(
        ask("box/b1", Some(99)).await,
        Error::NoSuchPosition { tail: 6, .. }
    ));
    assert!(matches!(
        changes(&world.store, account(), 3, 3).await,
        Err(Error::BadRange { from: 3, to: 3 })
    ));
}

#[tokio::test]
async fn changes_between_two_moments() {
    let world = World::whole().await;
    let changed = changes(&world.store, account(), 3, 5).await.unwrap();
    assert_eq!(changed.events, 2);
    let of_box = &changed.streams[&stream("box/b1")];
    assert_eq!((of_box.first_seq, of_box.last_seq), (3, 4));
    let fields: Vec<_> = of_box
        .fields
        .iter()
        .map(|field| format!("{}: {} -> {}", field.path, field.before, field.after))
        .collect();
    insta::assert_snapshot!(fields.join("\n"), @r#"
    agent_version: "" -> "0.1"
    image: "" -> "core-1"
    operation: "o1" -> null
    phase: "starting" -> "running"
    wake: null -> "w1"
    "#);
    let first = changes(&world.store, account(), 0, 1).await.unwrap();
    let of_user = &first.streams[&stream("user/u1")];
    assert!(
        of_user
            .fields
            .iter()
            .any(|field| field.path == "name" && field.before.is_null())
    );
    assert_eq!(
        first.to_json()["streams"]["user/u1"]["kinds"]["user.created"],
        1
    );
}

#[tokio::test]
async fn where_two_logs_part() {
    let world = World::whole().await;
    let mut other = World::whole().await;
    let (a, b) = ((&world.store, box_log()), (&other.store, box_log()));
    let events = world.store.tail(box_log()).unwrap().pos;
    assert_eq!(diff(a, a, By::Bytes).await.unwrap(), Diff::Same { events });
    assert_eq!(
        diff(a, b, By::Meaning).await.unwrap(),
        Diff::Same { events }
    );
    // Salts are drawn, so two runs are never the same bytes.
    assert!(matches!(
        diff(a, b, By::Bytes).await.unwrap(),
        Diff::Parts { pos: 1, .. }
    ));
    world.store.erase(box_log(), &[3]).await.unwrap();
    assert_eq!(diff(a, a, By::Bytes).await.unwrap(), Diff::Same { events });
    let Diff::Parts {
        pos,
        a: left,
        b: right,
    } = diff(a, b, By::Meaning).await.unwrap()
    else {
        panic!()
    };
    assert_eq!(
        (pos, left.unwrap().erased, right.unwrap().erased),
        (3, true, false)
    );
    let more = cocoonbox_commands::agent::Command::Rename { name: "x".into() };
    other.agent(more).await;
    let fresh = World::whole().await;
    let parts = diff(
        (&fresh.store, box_log()),
        (&other.store, box_log()),
        By::Meaning,
    )
    .await
    .unwrap();
    let Diff::Parts {
        pos,
        a: None,
        b: Some(line),
    } = parts
    else {
        panic!("{parts:?}")
    };
    assert_eq!((pos, line.kind.as_str()), (events + 1, "agent.renamed"));
}
