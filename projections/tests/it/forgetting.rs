//! What is forgotten is in no row and nowhere in the file.

use std::{fs, path::Path, sync::Arc};

use cocoonbox_events::{
    AgentEvent, BoxEvent, KeyStore, LogId, LogKind, Store, SystemClock, SystemIds,
    sqlite::SqliteStore,
};
use cocoonbox_projections::forget;
use cocoonbox_proto::log::v1::{AgentModelCalled, AgentOutputStreamed, BoxCreated};

use crate::world::{USER, World, prompt};

/// Every text that must not be found begins like this.
const PLANTED: &str = "planted-needle-";

fn found_in(path: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for suffix in ["", "-wal", "-shm"] {
        let mut file = path.as_os_str().to_owned();
        file.push(suffix);
        let bytes = fs::read(&file).unwrap_or_default();
        let needle = PLANTED.as_bytes();
        if bytes.windows(needle.len()).any(|at| at == needle) {
            found.push(suffix.to_owned());
        }
    }
    found
}

fn created(name: &str) -> BoxEvent {
    BoxEvent::Created(BoxCreated {
        name: name.to_owned(),
        ..BoxCreated::default()
    })
}

/// Prompts of growing size and streamed output that rewrites its row again and again: rows move between
/// pages, pages are split and merged.
async fn chatter(world: &World, log: LogId, agent: &str, count: u64) {
    for index in 0..count {
        let text = format!(
            "{PLANTED}{index}-{}",
            "x".repeat(usize::try_from(index % 700).unwrap())
        );
        world.write_agent(log, agent, prompt(&text)).await;
        let call_id = format!("c{index}");
        let called = AgentModelCalled {
            call_id: call_id.clone(),
            ..AgentModelCalled::default()
        };
        world
            .write_agent(log, agent, AgentEvent::ModelCalled(called))
            .await;
        for _ in 0..3 {
            let chunk = AgentOutputStreamed {
                call_id: call_id.clone(),
                text: format!("{PLANTED}streamed {index} "),
                ..AgentOutputStreamed::default()
            };
            world
                .write_agent(log, agent, AgentEvent::OutputStreamed(chunk))
                .await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_whose_key_is_gone_is_in_no_row_and_not_in_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let keys = Arc::new(KeyStore::open(dir.path()).unwrap());
    let store = SqliteStore::open(
        dir.path().join("log.db"),
        keys.clone(),
        Arc::new(SystemClock),
        Arc::new(SystemIds),
    )
    .unwrap();
    let mut world = World::over(Arc::new(store));
    world.start();
    let (gone, stays) = ("user-gone", USER);
    let account = world.open(LogKind::Account, gone).await;
    let log = world.open(LogKind::Box, gone).await;
    let (other_account, other) = (
        world.open(LogKind::Account, stays).await,
        world.open(LogKind::Box, stays).await,
    );
    for index in 0..50 {
        let name = format!("{PLANTED}box {index}");
        world
            .write_box(account, &format!("b{index}"), created(&name))
            .await;
    }
    world.write_box(other_account, "b1", created("kept")).await;
    // Rows of both users share pages.
    chatter(&world, log, "a1", 60).await;
    world.write_agent(other, "a1", prompt("kept prompt")).await;
    chatter(&world, log, "a2", 20).await;
    assert!(world.settle().await.is_equal());
    assert!(
        !found_in(&world.path()).is_empty(),
        "the test plants nothing"
    );

    keys.destroy(gone).unwrap();
    let store: Arc<dyn Store> = world.store.clone();
    let forgotten = forget(&store, &world.views, gone).await.unwrap();
    assert_eq!((forgotten.logs, forgotten.folded), (2, 9));
    assert_eq!(found_in(&world.path()), Vec::<String>::new());

    // The steps are still counted, the content is told as erased, and others have lost nothing.
    let items = world
        .views
        .transcript(log, "a1", None, 1_000)
        .await
        .unwrap()
        .items;
    assert!(!items.is_empty());
    assert!(
        items
            .iter()
            .all(|item| item.outcome == "erased" && item.text.is_empty())
    );
    let kept = world
        .views
        .transcript(other, "a1", None, 9)
        .await
        .unwrap()
        .items;
    assert_eq!(kept[0].text, "kept prompt");
    assert_eq!(world.views.boxes(stays).await.unwrap()[0].name, "kept");

    // The runner goes on behind it.
    world.write_agent(other, "a1", prompt("more")).await;
    assert!(world.settle().await.is_equal());
    assert_eq!(found_in(&world.path()), Vec::<String>::new());
    world.stop().await;
    let forgotten = forget(&store, &world.views, "nobody").await.unwrap();
    assert_eq!((forgotten.logs, forgotten.folded), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payload_that_was_erased_is_forgotten_while_the_runner_writes() {
    let world = World::new();
    let log = world.open(LogKind::Box, USER).await;
    chatter(&world, log, "a1", 30).await;
    world.settle().await;
    let store: Arc<dyn Store> = world.store.clone();
    let tail = store.tail(log).unwrap().pos;
    let all: Vec<u64> = (1..=tail).collect();
    store.erase(log, &all).await.unwrap();
    // Events go on coming while it is forgotten: the runner and the forgetting move the same checkpoints.
    let forgetting = forget(&store, &world.views, USER);
    let writing = async {
        for index in 0..200 {
            world
                .write_agent(log, "a1", prompt(&format!("fresh {index}")))
                .await;
        }
    };
    let (forgotten, ()) = tokio::join!(forgetting, writing);
    forgotten.unwrap();
    assert!(world.settle().await.is_equal());
    assert_eq!(found_in(&world.path()), Vec::<String>::new());
    let fresh = world
        .views
        .transcript(log, "a1", None, 1_000)
        .await
        .unwrap()
        .items;
    let fresh = fresh.iter().filter(|item| item.text.starts_with("fresh"));
    assert_eq!(fresh.count(), 200);
}
