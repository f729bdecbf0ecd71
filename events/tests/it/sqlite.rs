//! What only the SQLite store does.

use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use cocoonbox_events::{
    AppendError, Appended, Expect, KeyStore, Keyring, LogId, LogKey, LogKind, NewLog, NoKeys,
    ReadError, Sealing, SqliteStore, Store, SystemClock, SystemIds, sqlite::OpenError,
};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::support::{
    append, committed, expecting, new_log, opened, replayed, stream, text_of, verified, within,
};

struct Place {
    dir: TempDir,
    path: PathBuf,
}

fn place() -> Place {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("log.db");
    Place { dir, path }
}

fn try_open(path: &Path, keys: Arc<dyn Keyring>) -> Result<SqliteStore, OpenError> {
    SqliteStore::open(path, keys, Arc::new(SystemClock), Arc::new(SystemIds))
}

fn open(path: &Path) -> SqliteStore {
    try_open(path, Arc::new(NoKeys)).unwrap()
}

/// Every byte of the database and its companions.
fn bytes_on_disk(dir: &Path) -> Vec<u8> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with("log.db")
        {
            all.extend(std::fs::read(path).unwrap());
        }
    }
    all
}

/// Does what the trigger is there to refuse.
fn without_trigger(path: &Path, sql: &str) {
    let raw = Connection::open(path).unwrap();
    let trigger: String = raw
        .query_row(
            "SELECT sql FROM sqlite_schema WHERE name = 'event_is_final'",
            [],
            |r| r.get(0),
        )
        .unwrap();
    raw.execute_batch(&format!("DROP TRIGGER event_is_final; {sql}; {trigger}"))
        .unwrap();
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|window| window == text.as_bytes())
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
    let parent = Some((a.id, 1, store.chain_at(a.id, 1).await.unwrap()));
    let branch = NewLog {
        parent,
        kind: LogKind::Account,
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
    raw("PRAGMA user_version = 2");
    assert!(matches!(
        refuse(),
        OpenError::NewerFormat {
            found: 2,
            known: 1,
            ..
        }
    ));
    raw("PRAGMA user_version = 1; DROP TRIGGER event_is_final");
    assert!(matches!(refuse(), OpenError::Corrupt { .. }));
    let read_only = SqliteStore::open_read_only(&p.path, Arc::new(NoKeys));
    assert!(matches!(read_only, Err(OpenError::Corrupt { .. })));
    let absent = SqliteStore::open_read_only(p.dir.path().join("none.db"), Arc::new(NoKeys));
    assert!(matches!(absent, Err(OpenError::Sqlite { .. })));
}

#[tokio::test]
async fn rows_cannot_be_changed_by_sql() {
    let p = place();
    let store = open(&p.path);
    let log = opened(&store).await;
    committed(
        store
            .append(log, append(&[("agent/a", "1"), ("agent/a", "2")]))
            .await,
    );
    let raw = Connection::open(&p.path).unwrap();
    for sql in [
        "DELETE FROM event",
        "DELETE FROM event WHERE seq = 2",
        "UPDATE event SET body = x'00'",
        "UPDATE event SET body = NULL, kind = kind + 1",
        "UPDATE event SET header = x''",
        "UPDATE event SET chain = x'00', body = NULL",
        "UPDATE event SET seq = seq + 10, body = NULL",
        "UPDATE event SET event_no = event_no + 10, body = NULL",
        "UPDATE event SET recorded_us = 0, body = NULL",
        "UPDATE event SET payload_hash = x'00', body = NULL",
        "UPDATE event SET version = 2, body = NULL",
        "UPDATE event SET stream_id = 9, body = NULL",
    ] {
        let error = raw.execute_batch(sql).unwrap_err().to_string();
        assert!(error.starts_with("an event is never"), "{sql}: {error}");
    }
    raw.execute_batch("UPDATE event SET body = NULL WHERE seq = 1")
        .unwrap();
    let texts: Vec<_> = verified(&store, log).await.iter().map(text_of).collect();
    assert_eq!(texts, [None, Some("2".into())]);
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

#[tokio::test]
async fn erased_bytes_are_overwritten() {
    let p = place();
    let store = open(&p.path);
    let log = opened(&store).await;
    let long = format!("a long secret {}", "y".repeat(20_000));
    let texts = [
        ("agent/a", "a short secret"),
        ("agent/a", long.as_str()),
        ("agent/a", "stays"),
    ];
    committed(store.append(log, append(&texts)).await);
    assert!(contains(&bytes_on_disk(p.dir.path()), "a short secret"));
    store.erase(log, &[1, 2]).await.unwrap();
    store.close().await;
    let bytes = bytes_on_disk(p.dir.path());
    assert!(contains(&bytes, "stays"));
    assert!(!contains(&bytes, "a short secret"));
    assert!(!contains(&bytes, "a long secret"));
    assert!(!contains(&bytes, "yyyyyyyy"));
}

#[tokio::test]
async fn payloads_are_sealed_on_disk() {
    let p = place();
    let keys = Arc::new(KeyStore::open(p.dir.path()).unwrap());
    let store = try_open(&p.path, keys.clone()).unwrap();
    let log = opened(&store).await;
    committed(
        store
            .append(log, append(&[("agent/a", "the words nobody may read")]))
            .await,
    );
    let read = verified(&store, log).await;
    assert_eq!(text_of(&read[0]).unwrap(), "the words nobody may read");
    let bytes = bytes_on_disk(p.dir.path());
    assert!(contains(&bytes, "agent/a"));
    assert!(!contains(&bytes, "nobody may read"));
}

/// Answers with the same key for every log.
struct OneKey(u8);

impl Keyring for OneKey {
    fn log_key(&self, log: LogId, _: &str) -> Sealing {
        Sealing::Key(LogKey::derive(&[self.0; 32], log))
    }
}

struct NoAnswer;

impl Keyring for NoAnswer {
    fn log_key(&self, _: LogId, _: &str) -> Sealing {
        Sealing::Unavailable
    }
}

#[tokio::test]
async fn another_key_opens_nothing_and_seals_nothing() {
    let p = place();
    let store = try_open(&p.path, Arc::new(OneKey(1))).unwrap();
    let log = opened(&store).await;
    committed(store.append(log, append(&[("agent/a", "x")])).await);
    let events = verified(&store, log).await;
    drop(store);
    for keys in [Arc::new(OneKey(2)) as Arc<dyn Keyring>, Arc::new(NoKeys)] {
        let store = try_open(&p.path, keys).unwrap();
        assert_eq!(verified(&store, log).await[0].body, None);
        let refused = store.append(log, append(&[("agent/a", "y")])).await;
        assert!(matches!(refused, Err(AppendError::NoKey)));
        // An unsealed copy would lie beside sealed ones: refused as well.
        let refused = store.replicate(log, events.clone()).await;
        assert!(refused.is_err());
    }
    let store = try_open(&p.path, Arc::new(NoAnswer)).unwrap();
    assert!(matches!(store.read(log, 0, 9).await, Err(ReadError::Io(_))));
    assert!(matches!(
        store.open(new_log()).await,
        Err(AppendError::NoKey)
    ));
    drop(store);
    let store = try_open(&p.path, Arc::new(OneKey(1))).unwrap();
    assert_eq!(verified(&store, log).await, events);
}

#[tokio::test]
async fn a_destroyed_key_takes_one_owner_with_it() {
    let p = place();
    let keys = Arc::new(KeyStore::open(p.dir.path()).unwrap());
    let store = try_open(&p.path, keys.clone()).unwrap();
    let (ada, eve) = (
        new_log(),
        NewLog {
            owner: "eve".into(),
            ..new_log()
        },
    );
    for log in [&ada, &eve] {
        store.open(log.clone()).await.unwrap();
        committed(store.append(log.id, append(&[("agent/a", "x")])).await);
    }
    keys.destroy("ada").unwrap();
    assert_eq!(verified(&store, ada.id).await[0].body, None);
    let refused = store.append(ada.id, append(&[("agent/a", "y")])).await;
    assert!(matches!(refused, Err(AppendError::NoKey)));
    let refused = store.open(new_log()).await;
    assert!(matches!(refused, Err(AppendError::NoKey)));
    assert!(verified(&store, eve.id).await[0].body.is_some());
    committed(store.append(eve.id, append(&[("agent/a", "y")])).await);
}

#[tokio::test]
async fn a_damaged_body_is_not_an_erased_one() {
    let p = place();
    let store = try_open(&p.path, Arc::new(OneKey(1))).unwrap();
    let log = opened(&store).await;
    committed(
        store
            .append(log, append(&[("agent/a", "1"), ("agent/a", "2")]))
            .await,
    );
    // Another row's body: sealed with the right key, in the wrong place.
    without_trigger(
        &p.path,
        "UPDATE event SET body = (SELECT body FROM event WHERE seq = 1) WHERE seq = 2",
    );
    let read = store.read(log, 0, 9).await;
    assert!(matches!(
        read,
        Err(ReadError::Damaged {
            pos: 2,
            what: "body"
        })
    ));
    assert_eq!(store.read(log, 0, 1).await.unwrap().events.len(), 1);
}

#[tokio::test]
async fn a_full_disk_refuses_and_recovers() {
    let p = place();
    let store = Arc::new(open(&p.path));
    let log = opened(&*store).await;
    store.set_size_max(Some(400 * 1024)).await.unwrap();
    let text = "x".repeat(8 * 1024);
    let mut acked = 0;
    let refused = loop {
        match store.append(log, append(&[("agent/a", &text)])).await {
            Ok(Appended::Committed(range)) => acked = range.last,
            other => break other,
        }
    };
    assert!(matches!(refused, Err(AppendError::DiskFull)), "{refused:?}");
    assert!(acked > 10);
    // Nothing of it happened, a second try is refused too, and what there is can be read.
    assert_eq!(store.tail(log).unwrap().pos, acked);
    let again = append(&[("agent/b", &text), ("agent/b", &text), ("agent/b", &text)]);
    let refused = store.append(log, again.clone()).await;
    assert!(matches!(refused, Err(AppendError::DiskFull)), "{refused:?}");
    assert_eq!(verified(&*store, log).await.len() as u64, acked);

    store.set_size_max(None).await.unwrap();
    let again = expecting(again, &[("agent/b", Expect::Absent)]);
    assert_eq!(committed(store.append(log, again).await).first, acked + 1);
    assert_eq!(verified(&*store, log).await.len() as u64, acked + 3);
}

#[tokio::test]
async fn a_failed_write_is_unknown_and_the_next_goes_on() {
    let p = place();
    let store = Arc::new(open(&p.path));
    let log = opened(&*store).await;
    committed(store.append(log, append(&[("agent/a", "1")])).await);
    // Somebody who ignores the lock file holds the database's own lock past the busy time-out.
    let raw = Connection::open(&p.path).unwrap();
    raw.execute_batch("BEGIN IMMEDIATE").unwrap();
    let once = append(&[("agent/a", "2")]);
    let unknown = within(store.append(log, once.clone())).await;
    assert!(matches!(unknown, Err(AppendError::Unknown)), "{unknown:?}");
    raw.execute_batch("ROLLBACK").unwrap();
    assert_eq!(committed(store.append(log, once).await).first, 2);
    assert_eq!(verified(&*store, log).await.len(), 2);
}

#[tokio::test]
async fn a_full_queue_refuses_at_once() {
    let p = place();
    let store = Arc::new(open(&p.path));
    let log = opened(&*store).await;
    let raw = Connection::open(&p.path).unwrap();
    raw.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..5_000 {
        let store = store.clone();
        tasks.spawn(async move { store.append(log, append(&[("agent/a", "x")])).await });
    }
    let mut raw = Some(raw);
    let (mut acked, mut overloaded) = (0, 0);
    while let Some(task) = tasks.join_next().await {
        match task.unwrap() {
            Ok(_) => acked += 1,
            Err(AppendError::Overloaded) => overloaded += 1,
            Err(other) => panic!("{other:?}"),
        }
        // Only a full queue answers while the database is held.
        if let Some(raw) = raw.take() {
            assert_eq!((acked, overloaded), (0, 1));
            raw.execute_batch("ROLLBACK").unwrap();
        }
    }
    assert!(acked >= 4_096, "{acked}");
    assert!(overloaded > 0);
    assert_eq!(verified(&*store, log).await.len(), acked);
}

#[tokio::test]
async fn a_reader_beside_the_writer_follows() {
    let p = place();
    let keys = Arc::new(KeyStore::open(p.dir.path()).unwrap());
    let store = try_open(&p.path, keys).unwrap();
    let log = opened(&store).await;
    committed(store.append(log, append(&[("agent/a", "1")])).await);

    let keys = Arc::new(KeyStore::open_read_only(p.dir.path()).unwrap());
    let reader = SqliteStore::open_read_only(&p.path, keys).unwrap();
    let mut bell = reader.doorbell(log).unwrap();
    let mut any = reader.any_doorbell();
    assert_eq!(verified(&reader, log).await.len(), 1);
    bell.mark_unchanged();
    any.mark_unchanged();
    let range = committed(store.append(log, append(&[("agent/a", "2")])).await);
    within(bell.changed()).await.unwrap();
    assert_eq!(*bell.borrow(), 2);
    assert_eq!(reader.tail(log).unwrap(), store.tail(log).unwrap());
    let events = verified(&reader, log).await;
    assert_eq!(
        (text_of(&events[1]).unwrap(), events[1].chain),
        ("2".into(), range.chain)
    );
    assert!(any.has_changed().unwrap());

    // A log that is opened later appears too.
    let later = opened(&store).await;
    within(async {
        while reader.tail(later).is_err() {
            any.changed().await.unwrap();
        }
    })
    .await;
    let refused = reader.append(log, append(&[("agent/a", "3")])).await;
    assert!(matches!(refused, Err(AppendError::Stopped)));
    assert!(matches!(
        reader.erase(log, &[1]).await,
        Err(AppendError::Stopped)
    ));
    assert!(matches!(
        reader.open(new_log()).await,
        Err(AppendError::Stopped)
    ));
    assert!(reader.replicate(log, events).await.is_err());
    reader.close().await;
}

#[tokio::test]
async fn a_copied_file_can_be_read() {
    let p = place();
    let store = open(&p.path);
    let log = opened(&store).await;
    committed(store.append(log, append(&[("agent/a", "1")])).await);
    store.close().await;
    let copy = p.dir.path().join("a copy, 100%?.db");
    std::fs::copy(&p.path, &copy).unwrap();
    let reader = SqliteStore::open_read_only(&copy, Arc::new(NoKeys)).unwrap();
    assert_eq!(verified(&reader, log).await.len(), 1);
}

#[tokio::test]
async fn many_streams_and_logs_share_the_file() {
    let p = place();
    let store = Arc::new(open(&p.path));
    let mut logs = Vec::new();
    for _ in 0..20 {
        logs.push(opened(&*store).await);
    }
    let tasks: Vec<_> = (0..400)
        .map(|n| {
            let (store, log) = (store.clone(), logs[n % 20]);
            tokio::spawn(async move {
                let name = format!("agent/{}", n % 7);
                store
                    .append(log, append(&[(&name, "x"), ("agent/all", "y")]))
                    .await
                    .unwrap()
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    for log in &logs {
        assert_eq!(verified(&*store, *log).await.len(), 40);
        let all = store
            .read_stream(*log, &stream("agent/all"), 0, 99)
            .await
            .unwrap();
        assert_eq!(all.events.len(), 20);
    }
    drop(store);
    let store = open(&p.path);
    for log in logs {
        assert_eq!(verified(&store, log).await.len(), 40);
    }
}

#[tokio::test]
async fn rejections_in_a_batch_leave_the_rest() {
    let p = place();
    let store = Arc::new(open(&p.path));
    let log = opened(&*store).await;
    // While another connection holds the lock, all of these gather in one batch.
    let raw = Connection::open(&p.path).unwrap();
    raw.execute_batch("BEGIN IMMEDIATE").unwrap();
    let first = expecting(append(&[("agent/a", "1")]), &[("agent/a", Expect::Absent)]);
    let second = expecting(
        append(&[("agent/a", "2")]),
        &[("agent/a", Expect::Exactly(1))],
    );
    let late = expecting(
        append(&[("agent/a", "no")]),
        &[("agent/a", Expect::Exactly(1))],
    );
    let mut reused = append(&[("agent/a", "no")]);
    reused.command = first.command;
    reused.digest = [7; 32];
    let last = append(&[("agent/b", "3")]);
    // The first one is taken out of the queue alone; the others are one batch behind it.
    let work = [
        append(&[("agent/z", "0")]),
        first.clone(),
        second,
        late,
        first,
        reused,
        last,
    ];
    let tasks: Vec<_> = work
        .into_iter()
        .map(|work| {
            let store = store.clone();
            tokio::spawn(async move { store.append(log, work).await })
        })
        .collect();
    tokio::task::yield_now().await;
    raw.execute_batch("ROLLBACK").unwrap();
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.unwrap());
    }
    let positions: Vec<_> = answers
        .iter()
        .map(|a| a.as_ref().ok().map(|a| a.range().first))
        .collect();
    assert_eq!(
        positions,
        [Some(1), Some(2), Some(3), None, Some(2), None, Some(4)]
    );
    assert!(matches!(
        answers[3],
        Err(AppendError::Conflict { actual: 2, .. })
    ));
    assert!(matches!(answers[4], Ok(Appended::Replayed(_))));
    assert!(matches!(answers[5], Err(AppendError::CommandReused)));
    assert_eq!(verified(&*store, log).await.len(), 4);
}
