//! Rows are built beside those that answer, and change places with them in one moment.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use cocoonbox_events::{BoxEvent, LogId, OffsetKey};
use cocoonbox_projections::{
    Runner, UsageTotals, Views, ViewsError, codec,
    compare::{Difference, Differs},
    rows::View,
};
use cocoonbox_proto::log::v1::BoxRenamed;
use rusqlite::Connection;
use tokio_util::sync::CancellationToken;

use crate::{
    counting::{Counting, Gate},
    world::{DEADLINE, USER, World},
};

/// More than two pages.
const EVENTS: u64 = 2_300;

fn renamed(name: u64) -> BoxEvent {
    BoxEvent::Renamed(BoxRenamed {
        name: name.to_string(),
    })
}

async fn write(world: &World, log: LogId, count: u64) -> OffsetKey {
    let mut last = None;
    for index in 0..count {
        last = Some(world.write_box(log, "b1", renamed(index)).await);
    }
    last.unwrap()
}

/// A world whose views are built by the first version.
async fn world(counting: &Counting) -> (World, LogId) {
    let mut world = World::idle_with(counting.all());
    let log = world.account().await;
    let key = write(&world, log, EVENTS).await;
    world.start();
    world.seen(&key).await;
    (world, log)
}

/// Who answers, and what.
async fn answer(world: &World) -> (String, u64) {
    let rows = world.views.usage(USER).await.unwrap();
    (rows[0].day.clone(), rows[0].calls)
}

fn editions(world: &World) -> Vec<(u32, i64)> {
    let connection = Connection::open(world.path()).unwrap();
    let mut statement = connection
        .prepare("SELECT version, count(row.key) FROM edition LEFT JOIN row USING (edition) GROUP BY edition")
        .unwrap();
    let found = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    found.unwrap().map(Result::unwrap).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_a_version_that_is_read_answer_until_the_others_are_built() {
    let (mut world, log) = world(&Counting::version(1)).await;
    let gate = Gate::at(EVENTS / 2);
    let second = Counting {
        reads: vec![1],
        gate: Some(gate.clone()),
        ..Counting::version(2)
    };
    world.restart_with(second.all()).await;
    gate.reached().await;
    assert_eq!(answer(&world).await, ("v1".to_owned(), EVENTS));
    let building = &world.views.building()[0];
    assert_eq!((building.version, building.answers), (2, true));
    assert!(building.done < building.of && building.of == EVENTS);
    // What they do not have is not claimed.
    let key = write(&world, log, 1).await;
    let behind = world.views.at_least(&key, Duration::from_millis(20)).await;
    assert_eq!(behind.unwrap_err().reached, EVENTS);
    gate.open();
    world.seen(&key).await;
    assert_eq!(answer(&world).await, ("v2".to_owned(), EVENTS + 1));
    assert_eq!(world.views.building(), []);
    // For who goes back to the build before.
    assert_eq!(editions(&world), [(1, 1), (2, 1)]);
    let first = Counting::version(1);
    world.restart_with(first.all()).await;
    world.seen(&key).await;
    assert_eq!(answer(&world).await, ("v1".to_owned(), EVENTS + 1));
    assert_eq!(
        first.applied.load(Ordering::SeqCst),
        1,
        "it was built again"
    );
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_are_not_read_answer_nothing_and_the_question_waits_or_is_refused() {
    let (mut world, _) = world(&Counting::version(1)).await;
    let gate = Gate::at(EVENTS / 3);
    let second = Counting {
        gate: Some(gate.clone()),
        ..Counting::version(2)
    };
    world.restart_with(second.all()).await;
    gate.reached().await;
    let refused = world.views.usage(USER).await.unwrap_err();
    let ViewsError::Building {
        projection,
        done,
        of,
    } = refused
    else {
        panic!("{refused}");
    };
    assert_eq!((projection, of), ("counting", EVENTS));
    assert!(refused.is_retryable() && done < of, "{refused}");
    // A question that is asked shortly before is answered.
    let views = world.views.clone();
    let asked = tokio::spawn(async move { views.usage(USER).await });
    gate.open();
    // They answer from a page before the end on.
    let calls = asked.await.unwrap().unwrap()[0].calls;
    assert!(calls + 1_000 >= EVENTS, "{calls}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_another_build_go_after_their_time_or_when_something_is_erased() {
    let (mut world, log) = world(&Counting::version(1)).await;
    world.restart_with(Counting::version(2).all()).await;
    let key = write(&world, log, 1).await;
    world.seen(&key).await;
    assert_eq!(editions(&world), [(1, 1), (2, 1)]);
    // This build cannot take an erased payload out of rows that it did not write.
    let key = world.erase(log, &[1]).await;
    world.seen(&key).await;
    let (views, file) = (world.views.clone(), world.path());
    let swept = || async {
        let only_the_second = || {
            let connection = Connection::open(&file).unwrap();
            let count = "SELECT count(*) FROM edition";
            connection
                .query_row(count, [], |row| row.get::<_, i64>(0))
                .unwrap()
                == 1
        };
        let waiting = async {
            while !only_the_second() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(DEADLINE, waiting).await.unwrap();
    };
    swept().await;
    assert_eq!(editions(&world), [(2, 1)]);
    world.stop().await;

    let third = Views::open_with(&world.path(), Counting::version(3).all()).unwrap();
    let stop = CancellationToken::new();
    let runner = Runner::new(world.store.clone(), third.clone()).keep_foreign_for(Duration::ZERO);
    let running = tokio::spawn(runner.run(stop.clone()));
    third.at_least(&key, DEADLINE).await.unwrap();
    swept().await;
    assert_eq!(editions(&world), [(3, 1)]);
    stop.cancel();
    running.await.unwrap();
    drop(views);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operators_rebuild_tells_every_row_that_differs_and_mends_it() {
    let (mut world, log) = world(&Counting::version(1)).await;
    let edition = world.views.rebuild("counting").await.unwrap();
    world
        .until(|views| views.rebuilt("counting").is_some())
        .await;
    let rebuilt = world.views.rebuilt("counting").unwrap();
    assert_eq!(rebuilt.edition, edition);
    let compared = rebuilt.compared.unwrap();
    assert_eq!((compared.rows, compared.differing), (1, 0));

    // Somebody meddles with the file.
    world.stop().await;
    let connection = Connection::open(world.path()).unwrap();
    let row = "INSERT INTO row SELECT max(edition), 'usage', ?1, ?2 FROM edition WHERE state = 2";
    let wrong = codec::encode(&UsageTotals::default()).unwrap();
    connection
        .execute("UPDATE row SET value = ?1", [&wrong])
        .unwrap();
    connection.execute(row, ("user-1/extra", &wrong)).unwrap();
    drop(connection);
    world.start();
    let edition = world.views.rebuild("counting").await.unwrap();
    // Asked twice, it is the same one.
    assert_eq!(world.views.rebuild("counting").await.unwrap(), edition);
    let key = write(&world, log, 10).await;
    world.seen(&key).await;
    world
        .until(|views| {
            views
                .rebuilt("counting")
                .is_some_and(|r| r.edition == edition)
        })
        .await;
    let compared = world.views.rebuilt("counting").unwrap().compared.unwrap();
    assert_eq!((compared.rows, compared.differing), (1, 2));
    let differs = |key: &str, what| Difference {
        view: View::Usage,
        key: key.to_owned(),
        what,
    };
    assert_eq!(
        compared.differences,
        [
            differs("user-1/count", Differs::Content),
            differs("user-1/extra", Differs::Extra)
        ]
    );
    assert_eq!(answer(&world).await, ("v1".to_owned(), EVENTS + 10));
    let unknown = world.views.rebuild("nothing").await.unwrap_err();
    assert!(
        matches!(unknown, ViewsError::NoSuchProjection { .. }),
        "{unknown}"
    );
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_mends_rows_that_cannot_be_read() {
    let (mut world, log) = world(&Counting::version(1)).await;
    world.stop().await;
    let connection = Connection::open(world.path()).unwrap();
    connection
        .execute("UPDATE row SET value = x'07'", [])
        .unwrap();
    drop(connection);
    world.start();
    let key = write(&world, log, 1).await;
    world.until(|views| !views.degraded().is_empty()).await;
    assert!(world.views.usage(USER).await.is_err());
    world.views.rebuild("counting").await.unwrap();
    world
        .until(|views| views.rebuilt("counting").is_some())
        .await;
    world.seen(&key).await;
    assert_eq!(world.views.rebuilt("counting").unwrap().compared, None);
    assert_eq!(answer(&world).await, ("v1".to_owned(), EVENTS + 1));
    assert_eq!(world.views.degraded(), []);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_that_cannot_come_as_far_leaves_the_rows_that_answer() {
    let (mut world, _) = world(&Counting::version(1)).await;
    // A build with a fault in its fold.
    let faulty = Counting {
        poison: Some(700),
        ..Counting::version(1)
    };
    world.restart_with(faulty.all()).await;
    world.views.rebuild("counting").await.unwrap();
    let blocked = |views: &Views| {
        let building = views.building();
        building.first().is_some_and(|one| one.blocked.is_some())
    };
    world.until(blocked).await;
    let stop = world.views.building()[0].blocked.clone().unwrap();
    assert_eq!(
        (stop.pos, stop.kind_name()),
        (700, "box.renamed".to_owned())
    );
    assert_eq!(answer(&world).await, ("v1".to_owned(), EVENTS));
    assert_eq!(world.views.degraded(), []);
    // One without it goes on from there.
    let mended = Counting::version(1);
    world.restart_with(mended.all()).await;
    world
        .until(|views| views.rebuilt("counting").is_some())
        .await;
    assert_eq!(mended.applied.load(Ordering::SeqCst), EVENTS - 699);
    assert_eq!(answer(&world).await, ("v1".to_owned(), EVENTS));
    world.stop().await;
    drop(Arc::new(()));
}
