//! Exports in a store again.

use std::sync::Arc;

use cocoonbox_events::{
    KeyStore, LogEvent, LogKind, NewLog, Parent, SqliteStore, Store, SystemClock, SystemIds,
};
use cocoonbox_proto::log::v1::{LogErasureDone, LogErasureRequested};
use cocoonbox_replay::{
    By, LogDiff, diff_stores,
    export::ExportLine,
    import::{ImportError, check, import},
    verify_all,
};
use tempfile::TempDir;

use crate::{
    exported::Exported,
    world::{World, box_log, log},
};

fn sealed(folder: &TempDir) -> SqliteStore {
    let keys = Arc::new(KeyStore::open(folder.path()).unwrap());
    let (clock, ids) = (Arc::new(SystemClock), Arc::new(SystemIds));
    SqliteStore::open(folder.path().join("log.db"), keys, clock, ids).unwrap()
}

/// Erases a payload of the box log as the product does: the events around it say so.
async fn erase(world: &mut World, pos: u64) {
    let positions = vec![pos];
    let requested = LogErasureRequested {
        positions: positions.clone(),
        reason: "asked".into(),
        husks: Vec::new(),
    };
    let event = LogEvent::ErasureRequested(requested);
    world.forge(box_log(), "log/erasure", event).await;
    world.store.erase(box_log(), &positions).await.unwrap();
    let event = LogEvent::ErasureDone(LogErasureDone { positions });
    world.forge(box_log(), "log/erasure", event).await;
}

#[tokio::test]
async fn positions_hashes_branches_and_erasures_come_over() {
    let mut world = World::whole().await;
    erase(&mut world, 3).await;
    let at = world.store.tail(box_log()).unwrap().pos - 1;
    let chain = world.store.chain_at(box_log(), at).await.unwrap();
    let parent = Parent {
        log: box_log(),
        pos: at,
        chain,
    };
    let new = NewLog {
        id: log(5),
        kind: LogKind::Box,
        owner: "u1".into(),
        parent: Some(parent),
    };
    world.rewind_box(new).await;
    let exported = Exported::of_world(&world).await;
    let store = exported.store().await;
    check(&store, &mut |_| {}).await.unwrap();

    let folder = tempfile::tempdir().unwrap();
    let target = sealed(&folder);
    let done = import(&store, &target, &mut |_| {}).await.unwrap();
    assert_eq!(done.logs, 4);
    // Once more changes nothing.
    assert_eq!(
        import(&store, &target, &mut |_| {}).await.unwrap().events,
        0
    );
    let target: Arc<dyn Store> = Arc::new(target);
    assert_eq!(target.info(box_log()).unwrap().moved_to, Some(log(5)));
    let found = diff_stores(&world.store, &target, By::Bytes, &mut |_| {})
        .await
        .unwrap();
    assert!(found.iter().all(LogDiff::is_same), "{found:?}");
    let found = diff_stores(&world.store, &target, By::Meaning, &mut |_| {})
        .await
        .unwrap();
    assert!(found.iter().all(LogDiff::is_same), "{found:?}");
    let erased = target.read(box_log(), 2, 1).await.unwrap();
    assert_eq!(erased.events[0].body, None);
    let report = verify_all(&target).await.unwrap();
    assert!(report.is_good(), "{report:?}");
}

#[tokio::test]
async fn what_does_not_verify_is_refused() {
    let exported = Exported::of_world(&World::whole().await).await;
    let mut lines = exported.lines();
    for line in &mut lines {
        if let ExportLine::Event(event) = line
            && (event.log, event.pos) == (box_log(), 4)
        {
            event.body.as_mut().unwrap().salt[3] ^= 1;
        }
    }
    let store = Exported::from_lines(&lines, false);
    let store = store.store().await;
    let refused = check(&store, &mut |_| {}).await;
    assert!(
        matches!(refused, Err(ImportError::Broken { log, pos: 4, .. }) if log == box_log()),
        "{refused:?}"
    );
}
