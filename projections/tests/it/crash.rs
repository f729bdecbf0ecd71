//! Power gone in each phase of a build: whatever is found there answers, and comes to its end.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
};

use cocoonbox_events::{
    BoxEvent, LogId, NoKeys, OffsetKey, Store, SystemClock, SystemIds, sqlite::SqliteStore,
};
use cocoonbox_projections::{Runner, Views, rebuild_and_compare};
use cocoonbox_proto::log::v1::BoxRenamed;
use tokio_util::sync::CancellationToken;

use crate::{
    counting::Counting,
    world::{DEADLINE, USER, World},
};

const DIR: &str = "COCOONBOX_TEST_CRASH_VIEWS";
const EVENTS: u64 = 6_000;
/// Pages of the build after which the child is killed; the last is after its end.
const KILLS: [usize; 7] = [1, 2, 4, 7, 10, 13, usize::MAX];

fn open(dir: &Path) -> Arc<dyn Store> {
    let store = SqliteStore::open(
        dir.join("log.db"),
        Arc::new(NoKeys),
        Arc::new(SystemClock),
        Arc::new(SystemIds),
    );
    Arc::new(store.unwrap())
}

fn counting() -> Counting {
    Counting {
        reads: vec![1],
        ..Counting::version(2)
    }
}

/// The child's side; passes at once when it is not the child. Builds until it is killed, and says each
/// step.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Some(dir) = std::env::var_os(DIR) else {
        return;
    };
    let dir = Path::new(&dir);
    let views = Views::open_with(&dir.join("views.db"), counting().all()).unwrap();
    views.rebuild("counting").await.unwrap();
    let runner = Runner::new(open(dir), views.clone());
    let telling = async {
        let mut changed = views.changed();
        loop {
            changed.changed().await.unwrap();
            let phase = match views.building().first() {
                Some(building) if building.comparing => "step comparing\n",
                Some(_) => "step building\n",
                None => "step built\n",
            };
            let mut out = std::io::stdout().lock();
            out.write_all(phase.as_bytes()).unwrap();
            out.flush().unwrap();
        }
    };
    tokio::join!(runner.run(CancellationToken::new()), telling);
}

fn spawn(dir: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::child", "--nocapture", "--test-threads=1"])
        .env(DIR, dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Kills a child that builds after `steps` steps, or once it is done. Returns the phases seen.
fn kill_after(dir: &Path, steps: usize) -> BTreeSet<String> {
    let mut child = spawn(dir);
    let mut seen = BTreeSet::new();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let steps_seen = lines
        .map_while(Result::ok)
        .filter(|line| line.contains("step "));
    for (count, line) in steps_seen.enumerate() {
        let phase = line.rsplit("step ").next().unwrap().to_owned();
        let done = phase == "built";
        seen.insert(phase);
        if done || count + 1 >= steps {
            break;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    seen
}

/// What the file answers without any runner.
async fn answer(dir: &Path) -> (String, u64) {
    let views = Views::open_with(&dir.join("views.db"), counting().all()).unwrap();
    let rows = views.usage(USER).await.unwrap();
    (rows[0].day.clone(), rows[0].calls)
}

async fn prepared(dir: &Path, version: u32) -> LogId {
    let store = open(dir);
    let mut world = World::over(store.clone());
    let views = || Views::open_with(&dir.join("views.db"), Counting::version(version).all());
    world.views = views().unwrap();
    let log = world.account().await;
    let writers = (0..64).map(|writer| {
        let world = &world;
        async move {
            for index in (writer..EVENTS).step_by(64) {
                let renamed = BoxRenamed {
                    name: index.to_string(),
                };
                world.write_box(log, "b1", BoxEvent::Renamed(renamed)).await;
            }
        }
    });
    futures::future::join_all(writers).await;
    world.start();
    let tail = store.tail(log).unwrap();
    world.seen(&OffsetKey::new(log, tail.pos, tail.chain)).await;
    world.stop().await;
    log
}

/// Lets it be built to its end, and compares.
async fn finish(dir: &Path, log: LogId) {
    let views = Views::open_with(&dir.join("views.db"), counting().all()).unwrap();
    let store = open(dir);
    let stop = CancellationToken::new();
    let running = tokio::spawn(Runner::new(store.clone(), views.clone()).run(stop.clone()));
    let tail = store.tail(log).unwrap();
    let key = OffsetKey::new(log, tail.pos, tail.chain);
    views.at_least(&key, DEADLINE).await.unwrap();
    let report = rebuild_and_compare(&*store, &views).await.unwrap();
    assert!(report.is_equal(), "{report:#?}");
    stop.cancel();
    running.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_that_is_killed_in_any_phase_leaves_rows_that_answer() {
    let dir = tempfile::tempdir().unwrap();
    let log = prepared(dir.path(), 2).await;
    let mut seen = BTreeSet::new();
    for steps in KILLS {
        seen.extend(kill_after(dir.path(), steps));
        assert_eq!(answer(dir.path()).await, ("v2".to_owned(), EVENTS));
    }
    finish(dir.path(), log).await;
    assert_eq!(answer(dir.path()).await, ("v2".to_owned(), EVENTS));
    let phases: Vec<_> = seen.iter().map(String::as_str).collect();
    assert!(
        phases.contains(&"building") && phases.contains(&"built"),
        "{phases:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_version_that_is_killed_in_any_phase_leaves_rows_that_answer() {
    let dir = tempfile::tempdir().unwrap();
    let log = prepared(dir.path(), 1).await;
    for steps in KILLS {
        kill_after(dir.path(), steps);
        let (version, calls) = answer(dir.path()).await;
        // The version's rows may be taken over a page before the end; they are its own then.
        match version.as_str() {
            "v1" => assert_eq!(calls, EVENTS),
            "v2" => assert!(calls + 1_000 >= EVENTS, "{calls}"),
            other => panic!("{other}"),
        }
    }
    finish(dir.path(), log).await;
    assert_eq!(answer(dir.path()).await, ("v2".to_owned(), EVENTS));
}
