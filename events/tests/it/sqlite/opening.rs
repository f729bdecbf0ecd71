//! Opening and closing the file.

use std::{os::unix::fs::PermissionsExt, sync::Arc};

use cocoonbox_events::{
    AppendError, Checkpoint, Expect, NewLog, NoKeys, Parent, SqliteStore, Store, Tail,
    sqlite::OpenError,
};
use rusqlite::Connection;

use super::{open, place, try_open, without_trigger};
use crate::support::{
    append, committed, expecting, new_log, opened, read_all, replayed, verified, within,
};

#[tokio::test]
async fn reopening_keeps_branches_and_checkpoints() {
    let p = place();
    let store = open(&p.path);
    let log = opened(&store).await;
    for text in ["1", "2"] {
        committed(store.append(log, append(&[("agent/a", text)])).await);
    }
    let parent = Some(Parent {
        log,
        pos: 1,
        chain: store.chain_at(log, 1).await.unwrap(),
    });
    let branch = NewLog {
        parent,
        ..new_log()
    };
    store.rewind(branch.clone()).await.unwrap();
    let Tail {
        pos: size, chain, ..
    } = store.tail(log).unwrap();
    let note = "note".to_owned();
    let checkpoint = Checkpoint { size, chain, note };
    store
        .keep_checkpoint(log, checkpoint.clone())
        .await
        .unwrap();
    drop(store);

    let store = open(&p.path);
    assert_eq!(store.checkpoints(log, 0, 9).await.unwrap(), [checkpoint]);
    assert_eq!(store.info(log).unwrap().moved_to, Some(branch.id));
    let next = expecting(
        append(&[("agent/a", "x")]),
        &[("agent/a", Expect::Exactly(1))],
    );
    assert_eq!(committed(store.append(branch.id, next).await).first, 2);
    drop(store);
    let store = open(&p.path);
    let seen = read_all(&store, branch.id, 0).await;
    assert_eq!((seen.len(), seen[1].seq, seen[1].log), (2, 2, branch.id));
    let moved = store.append(log, append(&[("agent/a", "3")])).await;
    assert!(matches!(moved, Err(AppendError::Moved { to, .. }) if to == branch.id));
}

#[tokio::test]
async fn a_file_of_the_first_format_is_brought_up() {
    let p = place();
    let store = open(&p.path);
    let log = opened(&store).await;
    committed(store.append(log, append(&[("agent/a", "1")])).await);
    drop(store);
    let first =
        "DROP TABLE checkpoint; ALTER TABLE log DROP COLUMN moved_to; PRAGMA user_version = 1;";
    Connection::open(&p.path)
        .unwrap()
        .execute_batch(first)
        .unwrap();

    let reader = SqliteStore::open_read_only(&p.path, Arc::new(NoKeys));
    assert!(matches!(reader, Err(OpenError::OlderFormat { .. })));
    let store = open(&p.path);
    committed(store.append(log, append(&[("agent/a", "2")])).await);
    assert_eq!(verified(&store, log).await.len(), 2);
    assert!(store.checkpoints(log, 0, 9).await.unwrap().is_empty());
    SqliteStore::open_read_only(&p.path, Arc::new(NoKeys)).unwrap();
}

#[tokio::test]
async fn reopening_keeps_everything() {
    let p = place();
    let store = open(&p.path);
    let (a, empty) = (new_log(), new_log());
    store.open(empty.clone()).await.unwrap();
    store.open(a.clone()).await.unwrap();
    let once = append(&[("agent/a", "1"), ("agent/b", "2")]);
    let range = committed(store.append(a.id, once.clone()).await);
    store.erase(a.id, &[2]).await.unwrap();
    let parent = Some(Parent {
        log: a.id,
        pos: 1,
        chain: store.chain_at(a.id, 1).await.unwrap(),
    });
    let branch = NewLog {
        parent,
        ..new_log()
    };
    store.open(branch.clone()).await.unwrap();
    let events = verified(&store, a.id).await;
    let infos: Vec<_> = store
        .logs()
        .iter()
        .map(|i| (i.id, i.kind, i.tail))
        .collect();
    drop(store);

    let store = open(&p.path);
    let again: Vec<_> = store
        .logs()
        .iter()
        .map(|i| (i.id, i.kind, i.tail))
        .collect();
    assert_eq!(again, infos);
    assert_eq!(verified(&store, a.id).await, events);
    assert_eq!(replayed(store.append(a.id, once).await), range);
    for new in [a.clone(), empty, branch] {
        store.open(new).await.unwrap();
    }
    let next = expecting(
        append(&[("agent/a", "3")]),
        &[("agent/a", Expect::Exactly(1))],
    );
    assert_eq!(committed(store.append(a.id, next).await).first, 3);
    // A stream that is met for the first time after opening.
    committed(store.append(a.id, append(&[("agent/c", "4")])).await);
    assert_eq!(verified(&store, a.id).await.len(), 4);
}

#[tokio::test]
async fn closing_drains_and_checkpoints() {
    let p = place();
    let store = Arc::new(open(&p.path));
    let log = opened(&*store).await;
    let queued: Vec<_> = (0..200)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move { store.append(log, append(&[("agent/a", "x")])).await })
        })
        .collect();
    // On this thread's runtime the tasks have queued their appends before closing is even asked for.
    tokio::task::yield_now().await;
    within(store.close()).await;
    let mut acked = 0;
    for task in queued {
        acked += u64::from(task.await.unwrap().is_ok());
    }
    assert_eq!(verified(&*store, log).await.len() as u64, acked);
    let wal = std::fs::metadata(p.dir.path().join("log.db-wal")).map_or(0, |wal| wal.len());
    assert_eq!(wal, 0);
    let refused = store.append(log, append(&[("agent/a", "x")])).await;
    assert!(matches!(refused, Err(AppendError::Stopped)));
    // The lock is given back, though the old store is still there to read.
    let second = open(&p.path);
    assert_eq!(second.tail(log).unwrap().pos, acked);
    within(store.close()).await;
}

#[tokio::test]
async fn a_second_writer_is_refused() {
    let p = place();
    let first = open(&p.path);
    let refused = try_open(&p.path, Arc::new(NoKeys));
    assert!(matches!(refused, Err(OpenError::Locked { .. })));
    drop(first);
    drop(open(&p.path));
}

#[tokio::test]
async fn files_are_private() {
    let p = place();
    let store = open(&p.path);
    let log = opened(&store).await;
    committed(store.append(log, append(&[("agent/a", "x")])).await);
    for entry in std::fs::read_dir(p.dir.path()).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", entry.path().display());
    }
    drop(store);
    std::fs::set_permissions(&p.path, std::fs::Permissions::from_mode(0o644)).unwrap();
    drop(open(&p.path));
    assert_eq!(
        std::fs::metadata(&p.path).unwrap().permissions().mode() & 0o777,
        0o600
    );
}

#[tokio::test]
async fn other_files_are_refused() {
    let p = place();
    let refuse = || try_open(&p.path, Arc::new(NoKeys)).err().unwrap();

    std::fs::write(
        &p.path,
        "not a database, but long enough to have a header of one".repeat(99),
    )
    .unwrap();
    assert!(matches!(refuse(), OpenError::NotOurs { .. }));
    std::fs::remove_file(&p.path).unwrap();

    Connection::open(&p.path)
        .unwrap()
        .execute_batch("CREATE TABLE t (x)")
        .unwrap();
    assert!(matches!(refuse(), OpenError::NotOurs { .. }));
    std::fs::remove_file(&p.path).unwrap();

    drop(open(&p.path));
    let raw = |sql: &str| {
        let raw = Connection::open(&p.path).unwrap();
        raw.execute_batch(sql).unwrap();
    };
    raw("PRAGMA user_version = 3");
    assert!(matches!(
        refuse(),
        OpenError::NewerFormat {
            found: 3,
            known: 2,
            ..
        }
    ));
    raw("PRAGMA user_version = 2; DROP TRIGGER event_is_final");
    assert!(matches!(refuse(), OpenError::Corrupt { .. }));
    let read_only = SqliteStore::open_read_only(&p.path, Arc::new(NoKeys));
    assert!(matches!(read_only, Err(OpenError::Corrupt { .. })));
    let absent = SqliteStore::open_read_only(p.dir.path().join("none.db"), Arc::new(NoKeys));
    assert!(matches!(absent, Err(OpenError::Sqlite { .. })));
}

#[tokio::test]
async fn a_tampered_tail_is_refused_at_open() {
    let p = place();
    let store = open(&p.path);
    let log = opened(&store).await;
    committed(
        store
            .append(log, append(&[("agent/a", "1"), ("agent/a", "2")]))
            .await,
    );
    drop(store);
    without_trigger(&p.path, "UPDATE event SET kind = 102 WHERE seq = 2");
    let refused = try_open(&p.path, Arc::new(NoKeys)).err().unwrap();
    assert!(matches!(refused, OpenError::Corrupt { .. }), "{refused}");
}
