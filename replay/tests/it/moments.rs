//! Times, last events, and rows as they were.

use cocoonbox_projections::rows::View;
use cocoonbox_replay::{
    Filter, RowFold, Upto, position_at, row_changes, row_json, rows::RowWhat, show, show_last,
};

use crate::world::{World, account, box_log};

/// When the events of the account log were recorded.
async fn times(world: &World) -> Vec<i64> {
    let events = world.store.read(account(), 0, 100).await.unwrap().events;
    events.iter().map(|event| event.recorded_us).collect()
}

#[tokio::test]
async fn the_position_at_a_time() {
    let world = World::whole().await;
    let times = times(&world).await;
    assert_eq!(times[1], times[2], "two events of one append");
    for (at_us, pos) in [
        (i64::MIN, 0),
        (times[0] - 1, 0),
        (times[0], 1),
        (times[1] - 1, 1),
        (times[1], 3),
        (times[5], 6),
        (i64::MAX, 6),
    ] {
        assert_eq!(
            position_at(&world.store, account(), at_us).await.unwrap(),
            pos
        );
    }
}

#[tokio::test]
async fn times_bound_what_is_shown() {
    let world = World::whole().await;
    let times = times(&world).await;
    let filter = Filter {
        from_us: Some(times[1]),
        to_us: Some(times[4]),
        ..Filter::default()
    };
    let mut shown = show(&world.store, account(), filter.clone(), 0, 100)
        .await
        .unwrap();
    let lines = shown.next().await.unwrap().unwrap();
    let positions: Vec<u64> = lines.iter().map(|line| line.pos).collect();
    assert_eq!(positions, [2, 3, 4]);
    assert_eq!(shown.next().await.unwrap(), None);
    let last = show_last(&world.store, account(), &filter, 2, 1)
        .await
        .unwrap();
    assert_eq!(last[0].pos, 4);
}

#[tokio::test]
async fn the_last_events_come_oldest_first() {
    let mut world = World::whole().await;
    for n in 0..1_200 {
        let name = format!("n{n}");
        let renamed = cocoonbox_proto::log::v1::BoxRenamed { name };
        let event = cocoonbox_events::BoxEvent::Renamed(renamed);
        world.forge(account(), "box/b1", event).await;
    }
    let last = async |filter: Filter, count| {
        let lines = show_last(&world.store, account(), &filter, 0, count)
            .await
            .unwrap();
        lines.iter().map(|line| line.pos).collect::<Vec<_>>()
    };
    assert_eq!(last(Filter::default(), 3).await, [1204, 1205, 1206]);
    let kinds = vec!["box.running".to_owned(), "user.".to_owned()];
    let early = Filter {
        kinds,
        ..Filter::default()
    };
    assert_eq!(last(early.clone(), 1).await, [5]);
    assert_eq!(last(early, 9).await, [1, 5], "all there are");
    assert_eq!(last(Filter::default(), 2_000).await.len(), 1_206);
    assert!(last(Filter::default(), 0).await.is_empty());
}

#[tokio::test]
async fn rows_as_of_a_position_and_what_became_of_them() {
    let world = World::whole().await;
    let log = world.store.info(account()).unwrap();
    let state = async |pos| {
        let mut fold = RowFold::of_view(View::Boxes);
        let upto = Upto {
            log: log.clone(),
            pos,
        };
        fold.take(&world.store, &upto, 0, &mut |_| {})
            .await
            .unwrap();
        fold.rows()
            .iter()
            .filter(|(view, ..)| *view == View::Boxes)
            .map(|(view, _, value)| row_json(view, value)["image"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert!(state(1).await.is_empty());
    assert_eq!(state(3).await, [""]);
    assert_eq!(state(4).await, ["core-1"]);

    let spans = [(account(), 3, 5), (box_log(), 0, 1)];
    let changes = row_changes(&world.store, &spans, &mut |_| {})
        .await
        .unwrap();
    let told: Vec<String> = changes
        .iter()
        .filter(|change| change.view != View::Audit)
        .map(|change| {
            let fields: Vec<_> = change
                .fields
                .iter()
                .filter(|field| field.path != "offset_key" && !field.path.ends_with("_ms"))
                .map(|field| format!("{} {}->{}", field.path, field.before, field.after))
                .collect();
            let (view, what) = (change.view.name(), change.what.as_str());
            format!("{view} {} {what}: {}", change.key, fields.join(", "))
        })
        .collect();
    insta::assert_snapshot!(told.join("\n"), @r#"
        agents 03030303030303030303030303030303/main added: approvals_waiting null->0, id null->"main", model null->"m1", more.model.model null->"m1", more.model.output_tokens_max null->100, more.model.wire null->"OPENAI_CHAT", more.models.main.model null->"m1", more.models.main.output_tokens_max null->100, more.models.main.wire null->"OPENAI_CHAT", more.rules.rules null->[{"risk":"READ","verdict":"ALLOW"},{"risk":"WRITE_WORKSPACE","verdict":"ALLOW"},{"risk":"WRITE_OUTSIDE","verdict":"ALLOW"},{"risk":"NETWORK_WRITE","verdict":"ALLOW"},{"risk":"DESTRUCTIVE","verdict":"ALLOW"},{"risk":"MONEY","verdict":"ALLOW"}], name null->"main", output_tokens_max null->100, state null->"Idle", wire null->2
        awake_since u1/b1 added: box_id null->"b1", since_us null->1767323050001250
        boxes u1/b1 changed: agent_version ""->"0.1", image ""->"core-1", operation_id "o1"->"", state 1->2, wake_id ""->"w1"
        operation_events u1/o1/0000000000000004 added: detail null->"starting", operation_id null->"o1", phase null->1, pos null->4
        operation_events u1/o1/0000000000000005 added: detail null->"", operation_id null->"o1", phase null->4, pos null->5
        operations u1/o1 changed: detail "requested"->"", ended false->true, phase 1->4
        operations_open u1/b1 removed:  ["o1"]->null
        "#);
    assert!(changes.iter().any(|change| change.what == RowWhat::Added));
}
