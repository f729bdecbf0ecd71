//! An event that a projection cannot take in: seen by whom it concerns, and passed by a build that can.

use std::sync::atomic::Ordering;

use cocoonbox_events::{BoxEvent, LogKind};
use cocoonbox_projections::{Views, conditions};
use cocoonbox_proto::log::v1::BoxRenamed;

use crate::{
    counting::Counting,
    world::{USER, World},
};

fn renamed() -> BoxEvent {
    BoxEvent::Renamed(BoxRenamed::default())
}

#[tokio::test]
async fn a_stop_is_told_kept_in_the_file_and_passed_by_a_build_that_can() {
    let faulty = Counting {
        poison: Some(3),
        ..Counting::version(1)
    };
    let mut world = World::idle_with(faulty.all());
    let bad = world.account().await;
    let good = world.open(LogKind::Account, "user-2").await;
    for _ in 0..5 {
        world.write_box(bad, "b1", renamed()).await;
    }
    world.start();
    world.until(|views| !views.degraded().is_empty()).await;
    // Other logs go on, also those that come later.
    let key = world.write_box(good, "b2", renamed()).await;
    world.seen(&key).await;
    assert_eq!(world.views.usage("user-2").await.unwrap()[0].calls, 1);

    let stop = world.views.degraded().remove(0);
    assert_eq!((stop.projection, stop.log, stop.pos), ("counting", bad, 3));
    assert_eq!(stop.kind_name(), "box.renamed");
    assert!(stop.error.contains("`test.poison`"), "{}", stop.error);
    let now_us = 1_700_000_009_000_000;
    let condition = conditions(&world.views, &*world.store, now_us)
        .await
        .remove(0);
    assert!(condition.is_degraded());
    assert_eq!(
        (
            condition.logs,
            condition.lag_events,
            condition.lag_events_max
        ),
        (2, 3, 3)
    );
    assert_eq!(condition.stopped, std::slice::from_ref(&stop));
    assert_eq!((condition.late, condition.lag_us), (vec![], 0));
    world.stop().await;

    // Who looks at the file alone sees the same.
    let file = Views::open_with(&world.path(), faulty.all()).unwrap();
    assert_eq!(file.degraded(), [stop]);
    drop(file);

    // The same version in a build that can read it: from there, not from the start.
    let mended = Counting::version(1);
    world.restart_with(mended.all()).await;
    let key = world.write_box(bad, "b1", renamed()).await;
    world.seen(&key).await;
    world.until(|views| views.degraded().is_empty()).await;
    assert_eq!(mended.applied.load(Ordering::SeqCst), 4);
    assert_eq!(world.views.usage(USER).await.unwrap()[0].calls, 6);
    world.stop().await;
    assert_eq!(
        Views::open_with(&world.path(), mended.all())
            .unwrap()
            .degraded(),
        []
    );
}

#[tokio::test]
async fn what_is_behind_is_told_with_its_age() {
    let mut world = World::idle_with(Counting::version(1).all());
    let log = world.account().await;
    let key = world.write_box(log, "b1", renamed()).await;
    world.start();
    world.seen(&key).await;
    world.stop().await;
    world.write_box(log, "b1", renamed()).await;
    world.write_box(log, "b1", renamed()).await;
    let recorded = world.store.read(log, 1, 1).await.unwrap().events[0].recorded_us;
    let condition = conditions(&world.views, &*world.store, recorded + 7_000_000)
        .await
        .remove(0);
    assert!(!condition.is_degraded());
    assert_eq!(
        (condition.done, condition.lag_events, condition.lag_us),
        (1, 2, 7_000_000)
    );
    assert_eq!((condition.late[0].pos, condition.late[0].tail), (1, 3));
}
