//! A rebuild under load: what is written meanwhile is seen as fast, and whoever asks is answered.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use cocoonbox_events::{
    BoxEvent, LogId, LogKind, NoKeys, SystemClock, SystemIds, sqlite::SqliteStore,
};
use cocoonbox_proto::log::v1::BoxRenamed;

use crate::world::{USER, World, prompt};

/// Events in the logs before; `COCOONBOX_TEST_LOAD_EVENTS` for more.
const EVENTS: u64 = 20_000;

fn renamed(name: &str) -> BoxEvent {
    BoxEvent::Renamed(BoxRenamed {
        name: name.to_owned(),
    })
}

async fn fill(world: &World, logs: &[LogId], account: LogId, count: u64) {
    let writers = (0_u64..64).map(|writer| async move {
        for index in (writer..count).step_by(64) {
            if index % 4 == 0 {
                world
                    .write_box(account, &format!("b{}", index % 50), renamed("name"))
                    .await;
            } else {
                let log = logs[usize::try_from(index % logs.len() as u64).unwrap()];
                let text = "what somebody may say to an agent, about this long, ".repeat(4);
                world
                    .write_agent(log, &format!("a{}", index % 5), prompt(&text))
                    .await;
            }
        }
    });
    futures::future::join_all(writers).await;
}

/// Writes one event at a time and waits until it is seen, until told to stop.
async fn live(
    world: &World,
    account: LogId,
    stop: &AtomicBool,
    asked: &AtomicU64,
) -> Vec<Duration> {
    let mut waits = Vec::new();
    while !stop.load(Ordering::SeqCst) {
        let name = asked.fetch_add(1, Ordering::SeqCst).to_string();
        let key = world.write_box(account, "live", renamed(&name)).await;
        let begun = Instant::now();
        world.seen(&key).await;
        waits.push(begun.elapsed());
        // Never refused, never older than what was just seen.
        let row = world.views.box_(USER, "live").await.unwrap().unwrap();
        assert_eq!(row.name, name);
    }
    waits.sort();
    waits
}

fn told(waits: &[Duration]) -> String {
    let at = |percent: usize| waits[(waits.len() - 1) * percent / 100];
    format!(
        "{} events, p50 {:?}, p99 {:?}, max {:?}",
        waits.len(),
        at(50),
        at(99),
        at(100)
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn live_events_are_seen_while_everything_is_built_again() {
    let events = std::env::var("COCOONBOX_TEST_LOAD_EVENTS");
    let events = events.map_or(EVENTS, |text| text.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(
        dir.path().join("log.db"),
        Arc::new(NoKeys),
        Arc::new(SystemClock),
        Arc::new(SystemIds),
    )
    .unwrap();
    let mut world = World::over(Arc::new(store));
    let account = world.account().await;
    let mut logs = Vec::new();
    for _ in 0..5 {
        logs.push(world.open(LogKind::Box, USER).await);
    }
    fill(&world, &logs, account, events).await;
    world.start();
    world.settle().await;

    let (stop, asked) = (AtomicBool::new(false), AtomicU64::new(0));
    let quiet = async {
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        stop.store(true, Ordering::SeqCst);
    };
    let (before, ()) = tokio::join!(live(&world, account, &stop, &asked), quiet);

    stop.store(false, Ordering::SeqCst);
    let names = [
        "boxes",
        "operations",
        "transcript",
        "desktops",
        "snapshots",
        "audit",
        "usage",
    ];
    let begun = Instant::now();
    let rebuild = async {
        for name in names {
            world.views.rebuild(name).await.unwrap();
        }
        world
            .until(|views| names.iter().all(|name| views.rebuilt(name).is_some()))
            .await;
        stop.store(true, Ordering::SeqCst);
    };
    let (during, ()) = tokio::join!(live(&world, account, &stop, &asked), rebuild);
    println!(
        "rebuilt {events} events five times beside in {:?}",
        begun.elapsed()
    );
    println!("quiet: {}\nbuilding: {}", told(&before), told(&during));
    for name in names {
        let compared = world.views.rebuilt(name).unwrap().compared.unwrap();
        assert_eq!(compared.differing, 0, "{name}: {:?}", compared.differences);
    }
    // One step and one live page, with room for a busy machine; without turns it is the whole rebuild.
    let p50 = during[during.len() / 2];
    assert!(p50 < Duration::from_millis(500), "{}", told(&during));
    assert!(world.settle().await.is_equal());
    world.stop().await;
}
