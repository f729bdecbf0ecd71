//! Two branches of one log do not mix.

use cocoonbox_events::{AgentEvent, BoxEvent, LogId, LogKind, NewLog, OffsetKey, store::Parent};
use cocoonbox_projections::{AuditRow, ItemRow};
use cocoonbox_proto::log::v1::{
    AgentModelCalled, AgentOutputStreamed, BoxCreated, BoxRenamed, UsageModelCalled,
};
use uuid::Uuid;

use crate::world::{USER, World, prompt};

async fn branch(world: &World, of: LogId, pos: u64) -> NewLog {
    let info = world.store.info(of).unwrap();
    NewLog {
        id: LogId(Uuid::now_v7()),
        kind: info.kind,
        owner: info.owner,
        parent: Some(Parent {
            log: of,
            pos,
            chain: world.store.chain_at(of, pos).await.unwrap(),
        }),
    }
}

fn created(name: &str) -> BoxEvent {
    BoxEvent::Created(BoxCreated {
        name: name.to_owned(),
        ..BoxCreated::default()
    })
}

fn renamed(name: &str) -> BoxEvent {
    BoxEvent::Renamed(BoxRenamed {
        name: name.to_owned(),
    })
}

fn called() -> UsageModelCalled {
    UsageModelCalled {
        input_tokens: 1,
        status: 200,
        complete: true,
        ..UsageModelCalled::default()
    }
}

async fn texts(world: &World, log: LogId) -> Vec<String> {
    let items = world
        .views
        .transcript(log, "a1", None, 100)
        .await
        .unwrap()
        .items;
    items.into_iter().map(|item: ItemRow| item.text).collect()
}

async fn audit(world: &World) -> Vec<(String, String, bool)> {
    let rows = world.views.audit(USER, None, 100).await.unwrap().items;
    let told = |row: AuditRow| (row.kind, row.summary, row.undone);
    rows.into_iter().map(told).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_goes_on_in_its_branch_and_audit_keeps_what_was_undone() {
    let world = World::new();
    let old = world.account().await;
    world.write_box(old, "b1", created("one")).await;
    world.write_usage(old, "2026-11-29", called()).await;
    world.clock.set(1_700_000_001_000_000);
    world.write_box(old, "b2", created("undone")).await;
    world.write_usage(old, "2026-11-29", called()).await;
    world.settle().await;
    assert_eq!(world.views.boxes(USER).await.unwrap().len(), 2);

    let new = branch(&world, old, 2).await;
    let id = new.id;
    let tail = world.store.rewind(new).await.unwrap();
    world.seen(&OffsetKey::new(id, tail.pos, tail.chain)).await;
    let boxes = world.views.boxes(USER).await.unwrap();
    assert_eq!(
        boxes.iter().map(|row| &*row.name).collect::<Vec<_>>(),
        ["one"]
    );
    assert_eq!(world.views.usage(USER).await.unwrap()[0].calls, 1);
    assert!(world.views.box_owner("b2").await.unwrap().is_none());

    world.clock.set(1_700_000_002_000_000);
    world.write_box(id, "b1", renamed("eins")).await;
    world.write_usage(id, "2026-11-29", called()).await;
    assert!(world.settle().await.is_equal());
    assert_eq!(world.views.boxes(USER).await.unwrap()[0].name, "eins");
    assert_eq!(world.views.usage(USER).await.unwrap()[0].calls, 2);
    let told = |kind: &str, summary: &str, undone| (kind.to_owned(), summary.to_owned(), undone);
    let used = " : 1 in, 0 out, status 200";
    assert_eq!(
        audit(&world).await,
        [
            told("box.created", "one", false),
            told("usage.model_called", used, false),
            told("box.created", "undone", true),
            told("usage.model_called", used, true),
            told("box.renamed", "eins", false),
            told("usage.model_called", used, false),
        ]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rewind_while_no_runner_runs_is_found_at_the_next_start() {
    let mut world = World::new();
    let old = world.account().await;
    for index in 0..1_500_u32 {
        world
            .write_box(old, "b1", renamed(&index.to_string()))
            .await;
    }
    assert!(world.settle().await.is_equal());
    world.stop().await;
    // Twice in a row: a branch of a branch, parting at the end of a page.
    let first = branch(&world, old, 1_000).await;
    world.store.rewind(first.clone()).await.unwrap();
    world.write_box(first.id, "b1", renamed("first")).await;
    let second = branch(&world, first.id, 1_000).await;
    world.store.rewind(second.clone()).await.unwrap();
    world.write_box(second.id, "b1", renamed("second")).await;
    world.write_box(second.id, "b2", created("two")).await;
    world.start();
    assert!(world.settle().await.is_equal());
    let boxes = world.views.boxes(USER).await.unwrap();
    assert_eq!(
        boxes.iter().map(|row| &*row.name).collect::<Vec<_>>(),
        ["second", "two"]
    );
    // Nothing is left to be done: no branch is folded again and again.
    let reached = world.views.reached(second.id);
    assert_eq!(reached, Some(1_002));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_box_log_that_moved_is_read_from_its_branch() {
    let world = World::new();
    let old = world.open(LogKind::Box, USER).await;
    world.write_agent(old, "a1", prompt("one")).await;
    let at = world.write_agent(old, "a1", prompt("two")).await;
    world.write_agent(old, "a1", prompt("undone")).await;
    assert!(world.settle().await.is_equal());
    assert_eq!(texts(&world, old).await, ["one", "two", "undone"]);

    let new = branch(&world, old, at.pos).await;
    let id = new.id;
    world.store.rewind(new).await.unwrap();
    let key = world.write_agent(id, "a1", prompt("other")).await;
    world.seen(&key).await;
    // Who asks by the log that the box began with gets the branch.
    assert_eq!(world.views.current(old), id);
    assert!(world.views.is_undone(old, 3) && !world.views.is_undone(old, 2));
    assert_eq!(texts(&world, old).await, ["one", "two", "other"]);
    assert_eq!(texts(&world, id).await, ["one", "two", "other"]);
    assert_eq!(world.views.agents(old).await.unwrap().len(), 1);
    assert!(world.settle().await.is_equal());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fork_and_its_parent_go_on_apart() {
    let world = World::new();
    let old = world.open(LogKind::Box, USER).await;
    let at = world.write_agent(old, "a1", prompt("both")).await;
    let new = branch(&world, old, at.pos).await;
    let id = new.id;
    world.store.open(new).await.unwrap();
    world.write_agent(old, "a1", prompt("parent")).await;
    world.write_agent(id, "a1", prompt("child")).await;
    assert!(world.settle().await.is_equal());
    assert_eq!(texts(&world, old).await, ["both", "parent"]);
    assert_eq!(texts(&world, id).await, ["both", "child"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_erased_in_one_branch_goes_from_all_that_have_it() {
    let world = World::new();
    let old = world.open(LogKind::Box, USER).await;
    world.write_agent(old, "a1", prompt("secret")).await;
    let call = AgentModelCalled {
        call_id: "c1".to_owned(),
        ..AgentModelCalled::default()
    };
    world
        .write_agent(old, "a1", AgentEvent::ModelCalled(call))
        .await;
    let chunk = AgentOutputStreamed {
        call_id: "c1".to_owned(),
        text: "half a reply".to_owned(),
        ..AgentOutputStreamed::default()
    };
    let at = world
        .write_agent(old, "a1", AgentEvent::OutputStreamed(chunk))
        .await;
    let fork = branch(&world, old, at.pos).await;
    let id = fork.id;
    world.store.open(fork).await.unwrap();
    world.write_agent(id, "a1", prompt("child")).await;
    world.settle().await;
    assert_eq!(texts(&world, id).await, ["secret", "half a reply", "child"]);

    // Said in the parent; the fork never hears of it.
    let key = world.erase(old, &[1, 3]).await;
    world.seen(&key).await;
    assert_eq!(texts(&world, id).await, ["", "child"]);
    assert!(world.settle().await.is_equal());

    // And the other way round: said in the fork of what it inherits.
    let at = world.write_agent(old, "a1", prompt("late")).await;
    let fork = branch(&world, old, at.pos).await;
    world.store.open(fork.clone()).await.unwrap();
    world.settle().await;
    world.store.erase(old, &[at.pos]).await.unwrap();
    let done = cocoonbox_proto::log::v1::LogErasureDone {
        positions: vec![at.pos],
    };
    let done = cocoonbox_events::LogEvent::ErasureDone(done);
    let key = world.write(fork.id, "log/erasure", done).await;
    world.seen(&key).await;
    assert_eq!(texts(&world, old).await, ["", ""]);
    assert_eq!(texts(&world, fork.id).await, ["", ""]);
    assert!(world.settle().await.is_equal());
}
