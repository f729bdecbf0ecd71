use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use cocoonbox_events::{
    BoxEvent, LogInfo, LogKind, MemoryStore, OffsetKey, Recorded, Store, SystemIds,
};
use cocoonbox_projections::{
    ApplyError, Behind, Projection, Runner, Views, ViewsError,
    rows::{self, Rows, View},
};
use cocoonbox_proto::log::v1::{BoxCreated, BoxRenamed};
use tokio_util::sync::CancellationToken;

use crate::world::{DEADLINE, USER, World};

fn renamed(name: &str) -> BoxEvent {
    BoxEvent::Renamed(BoxRenamed {
        name: name.to_owned(),
    })
}

#[tokio::test]
async fn at_least_waits_for_the_runner_and_says_when_it_is_behind() {
    let mut world = World::idle();
    let log = world.account().await;
    let key = world.write_box(log, "b1", renamed("one")).await;
    let behind = world.views.at_least(&key, Duration::from_millis(20)).await;
    assert_eq!(
        behind,
        Err(Behind {
            log,
            asked: 1,
            reached: 0
        })
    );

    let views = world.views.clone();
    let waiting = tokio::spawn(async move { views.at_least(&key, DEADLINE).await });
    world.start();
    assert_eq!(waiting.await.unwrap(), Ok(()));
    assert_eq!(
        world.views.box_(USER, "b1").await.unwrap().unwrap().name,
        "one"
    );

    let ahead = OffsetKey { pos: 99, ..key };
    let behind = world
        .views
        .at_least(&ahead, Duration::from_millis(20))
        .await;
    assert_eq!(
        behind,
        Err(Behind {
            log,
            asked: 99,
            reached: 1
        })
    );
}

#[tokio::test]
async fn more_than_a_page_is_taken_in_and_a_restart_goes_on() {
    let mut world = World::idle();
    let log = world.account().await;
    for index in 0..2_300 {
        world
            .write_box(log, &format!("b{}", index % 7), renamed(&index.to_string()))
            .await;
    }
    world.start();
    assert!(world.settle().await.is_equal());
    assert_eq!(world.views.boxes(USER).await.unwrap().len(), 7);
    world.stop().await;
    let before = world.views.checkpoint("boxes", log).await.unwrap().unwrap();
    assert_eq!(before.pos, 2_300);

    world.views = Views::open(&world.path()).unwrap();
    assert_eq!(world.views.reached(log), Some(2_300));
    world.start();
    let key = world.write_box(log, "b0", renamed("last")).await;
    world.seen(&key).await;
    assert_eq!(
        world.views.box_(USER, "b0").await.unwrap().unwrap().name,
        "last"
    );
    assert!(world.settle().await.is_equal());
}

#[tokio::test]
async fn deleted_views_are_built_again_even_under_a_running_process() {
    let mut world = World::new();
    let log = world.account().await;
    let key = world.write_box(log, "b1", renamed("one")).await;
    world.seen(&key).await;

    for suffix in ["", "-wal", "-shm"] {
        let path = format!("{}{suffix}", world.path().display());
        drop(fs::remove_file(path));
    }
    let waiting = async {
        while !world.path().exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(DEADLINE, waiting).await.unwrap();
    let key = world.write_box(log, "b1", renamed("two")).await;
    world.seen(&key).await;
    assert!(world.settle().await.is_equal());
    world.stop().await;

    fs::remove_file(world.path()).unwrap();
    world.views = Views::open(&world.path()).unwrap();
    let nothing = world.views.boxes(USER).await.unwrap_err();
    assert!(
        matches!(
            nothing,
            ViewsError::Building {
                projection: "boxes",
                ..
            }
        ),
        "{nothing}"
    );
    world.start();
    assert!(world.settle().await.is_equal());
    assert_eq!(world.views.boxes(USER).await.unwrap()[0].name, "two");
}

#[tokio::test]
async fn a_file_that_is_damaged_is_replaced_and_one_of_somebody_else_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("views.db");
    fs::write(
        &path,
        b"not a database at all, but long enough to be looked at as if it were one",
    )
    .unwrap();
    drop(Views::open(&path).unwrap());
    drop(Views::open(&path).unwrap());

    let other = dir.path().join("other.db");
    let connection = rusqlite::Connection::open(&other).unwrap();
    connection
        .execute_batch("CREATE TABLE precious (x)")
        .unwrap();
    drop(connection);
    assert!(Views::open(&other).is_err());
    let connection = rusqlite::Connection::open(&other).unwrap();
    connection
        .execute_batch("INSERT INTO precious VALUES (1)")
        .unwrap();
}

#[tokio::test]
async fn a_log_with_another_history_is_folded_anew() {
    let mut world = World::new();
    let log = world.account().await;
    for name in ["one", "two", "three"] {
        world.write_box(log, name, renamed(name)).await;
    }
    assert!(world.settle().await.is_equal());
    world.stop().await;

    // The same log id, restored from before the last two events and written on otherwise.
    let restored = Arc::new(MemoryStore::new(world.clock.clone(), Arc::new(SystemIds)));
    let info = world.store.logs()[0].clone();
    let new = cocoonbox_events::NewLog {
        id: log,
        kind: LogKind::Account,
        owner: info.owner.clone(),
        parent: None,
    };
    restored.open(new).await.unwrap();
    world.store = restored;
    for name in ["one", "zwei", "drei", "vier"] {
        world.write_box(log, name, renamed(name)).await;
    }
    world.start();
    // The old checkpoint is past position 3 as well, so wait for what only the other history has.
    let waiting = async {
        let mut changed = world.views.changed();
        while world.views.box_(USER, "vier").await.unwrap().is_none() {
            changed.changed().await.unwrap();
        }
    };
    tokio::time::timeout(DEADLINE, waiting).await.unwrap();
    assert!(world.settle().await.is_equal());
    let names: Vec<_> = world
        .views
        .boxes(USER)
        .await
        .unwrap()
        .into_iter()
        .map(|row| row.id)
        .collect();
    assert_eq!(names, ["drei", "one", "vier", "zwei"]);
    world.stop().await;

    // And a store that has not got the log at all.
    world.store = Arc::new(MemoryStore::new(world.clock.clone(), Arc::new(SystemIds)));
    world.start();
    let waiting = async {
        while !world.views.boxes(USER).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(DEADLINE, waiting).await.unwrap();
}

/// Counts the boxes; which version it is comes from the test.
struct Counting(Arc<AtomicU32>);

impl Projection for Counting {
    fn name(&self) -> &'static str {
        "counting"
    }

    fn version(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }

    fn views(&self) -> &'static [View] {
        &[View::Usage]
    }

    fn wants(&self, kind: LogKind) -> bool {
        kind == LogKind::Account
    }

    fn gives_way(&self) -> bool {
        true
    }

    fn apply(&self, rows: &mut dyn Rows, _: &Recorded, log: &LogInfo) -> Result<(), ApplyError> {
        let key = format!("{}/count", log.owner);
        let count: u32 = rows::get(rows, View::Usage, &key)?.unwrap_or(self.version() * 100);
        Ok(rows::put(rows, View::Usage, &key, &(count + 1))?)
    }

    fn holds(&self, _: &dyn Rows, _: &Recorded, _: &LogInfo) -> Result<bool, rows::Error> {
        Ok(false)
    }

    fn clear(&self, rows: &mut dyn Rows, log: &LogInfo) -> Result<(), rows::Error> {
        rows.delete_prefix(View::Usage, &format!("{}/", log.owner))
    }
}

fn count(world: &World) -> u32 {
    let connection = rusqlite::Connection::open(world.path()).unwrap();
    let value: Vec<u8> = connection
        .query_row(
            "SELECT value FROM row WHERE view = 'usage' ORDER BY edition DESC LIMIT 1",
            [],
            |row| row.get(0),
        )
        .unwrap();
    cocoonbox_projections::codec::decode(&value).unwrap()
}

#[tokio::test]
async fn another_version_is_built_from_the_start() {
    let version = Arc::new(AtomicU32::new(1));
    let projections = || -> Vec<Box<dyn Projection>> { vec![Box::new(Counting(version.clone()))] };
    let mut world = World::idle_with(projections());
    let log = world.account().await;
    world.write_box(log, "b1", renamed("one")).await;
    let key = world.write_box(log, "b1", renamed("two")).await;
    world.start();
    world.seen(&key).await;
    assert_eq!(count(&world), 102);
    world.stop().await;

    version.store(2, Ordering::SeqCst);
    world.views = Views::open_with(&world.path(), projections()).unwrap();
    world.start();
    world.seen(&key).await;
    assert_eq!(count(&world), 202);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_runners_on_one_file_count_nothing_twice() {
    let version = Arc::new(AtomicU32::new(0));
    let projections = || -> Vec<Box<dyn Projection>> { vec![Box::new(Counting(version.clone()))] };
    let mut world = World::idle_with(projections());
    let other = Views::open_with(&world.path(), projections()).unwrap();
    let stop = CancellationToken::new();
    world.start();
    let second = tokio::spawn(Runner::new(world.store.clone(), other.clone()).run(stop.clone()));
    let log = world.account().await;
    let mut key = None;
    for index in 0..300 {
        key = Some(
            world
                .write_box(log, "b1", renamed(&index.to_string()))
                .await,
        );
    }
    world.seen(&key.unwrap()).await;
    other.at_least(&key.unwrap(), DEADLINE).await.unwrap();
    assert_eq!(count(&world), 300);
    stop.cancel();
    tokio::time::timeout(DEADLINE, second)
        .await
        .unwrap()
        .unwrap();
    world.stop().await;
}

#[tokio::test]
async fn a_user_cannot_be_mistaken_for_another_by_their_id() {
    let world = World::new();
    let mut last = None;
    for owner in ["a", "a/b", "a0", "A"] {
        let log = world.open(LogKind::Account, owner).await;
        let created = BoxCreated {
            name: owner.to_owned(),
            ..BoxCreated::default()
        };
        last = Some(
            world
                .write_box(log, owner, BoxEvent::Created(created))
                .await,
        );
    }
    world.seen(&last.unwrap()).await;
    assert!(world.settle().await.is_equal());
    for owner in ["a", "a/b", "a0", "A"] {
        let boxes = world.views.boxes(owner).await.unwrap();
        assert_eq!(
            boxes.iter().map(|row| &*row.name).collect::<Vec<_>>(),
            [owner]
        );
    }
}
