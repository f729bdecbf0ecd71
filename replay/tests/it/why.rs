use cocoonbox_commands::boxes;
use cocoonbox_events::EventId;
use cocoonbox_proto::log::v1::actor;
use cocoonbox_replay::{Error, Target, why};

use crate::world::{World, account, actor, box_log};

#[tokio::test]
async fn a_start_from_the_request_to_the_anchor() {
    let world = World::whole().await;
    let tree = why(&world.store, Target::Pos(account(), 4)).await.unwrap();
    let text = tree.text();
    // Links depend on the salts, which are drawn.
    let (told, _) = text.split_once(" chain=").unwrap();
    insta::assert_snapshot!(told, @r#"
      02020202 3 2026-01-02T03:04:08.000750Z box/b1#2 box.ensure_requested user:u1 operation_id="o1"
    * └─ 02020202 4 2026-01-02T03:04:09.001000Z box/b1#3 box.starting system:lifecycle operation_id="o1" wake_id="w1" image="core-1"
         └─ 02020202 5 2026-01-02T03:04:10.001250Z box/b1#4 box.running system:lifecycle operation_id="o1" wake_id="w1" agent_version="0.1"
            └─ 02020202 6 2026-01-02T03:04:25.005000Z box/b1#5 box.log_anchored system:lifecycle box_log="03030303030303030303030303030303" pos=15
    "#);
    let root = tree.causes[0].line.event_id.parse::<EventId>().unwrap();
    let from_root = why(&world.store, Target::Event(root)).await.unwrap();
    assert_eq!(from_root.effects.len(), 1);
    assert_eq!(
        from_root.effects[0].effects[0].effects[0].node.line.kind,
        "box.log_anchored"
    );
    assert_eq!(tree.to_json()["causes"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn causes_reach_into_other_logs_and_may_be_missing() {
    let mut world = World::whole().await;
    let prompt = world
        .store
        .read(box_log(), 1, 1)
        .await
        .unwrap()
        .events
        .remove(0);
    let by = || actor(actor::Kind::Box, "b1");
    let rename = |name: &str| boxes::Command::Rename { name: name.into() };
    world.boxes(rename("x"), by(), prompt.event_id()).await;
    let tree = why(&world.store, Target::Event(prompt.event_id().unwrap()))
        .await
        .unwrap();
    assert_eq!(tree.effects.len(), 1);
    assert_eq!(
        (tree.effects[0].node.log, tree.effects[0].node.line.pos),
        (account(), 7)
    );

    let strange = EventId::from_slice(&[0xee; 16]).unwrap();
    world.boxes(rename("y"), by(), Some(strange)).await;
    let tree = why(&world.store, Target::Pos(account(), 8)).await.unwrap();
    assert_eq!(tree.missing_cause, Some(strange));
    assert!(tree.text().contains("in no log here"));
    assert!(matches!(
        why(&world.store, Target::Event(strange)).await,
        Err(Error::NoSuchEvent { .. })
    ));
    assert!(matches!(
        why(&world.store, Target::Pos(account(), 99)).await,
        Err(Error::NoSuchPosition { .. })
    ));
}

#[tokio::test]
async fn causes_that_go_in_circles_end() {
    let mut world = World::whole().await;
    let by = || actor(actor::Kind::Box, "b1");
    let rename = |name: &str| boxes::Command::Rename { name: name.into() };
    // Ids are drawn in order here, so that an event can name one that comes after it.
    let last = world.boxes(rename("x"), by(), None).await.unwrap();
    let behind = |n: u128| Some(EventId(uuid::Uuid::from_u128(last.0.as_u128() + n)));
    let first = world.boxes(rename("y"), by(), behind(2)).await;
    let second = world.boxes(rename("z"), by(), first).await;
    assert_eq!((first, second), (behind(1), behind(2)));
    let itself = world.boxes(rename("w"), by(), behind(3)).await;
    assert_eq!(itself, behind(3));
    let tree = why(&world.store, Target::Event(second.unwrap()))
        .await
        .unwrap();
    let chain: Vec<_> = tree.causes.iter().map(|node| node.line.pos).collect();
    assert_eq!(chain, [8, 9]);
    assert!(
        tree.effects.is_empty(),
        "what is above is not shown again below"
    );
    let tree = why(&world.store, Target::Event(itself.unwrap()))
        .await
        .unwrap();
    assert_eq!((tree.causes.len(), tree.effects.len()), (1, 0));
}
