//! Full disks, full queues, failed writes.

use std::sync::Arc;

use cocoonbox_events::{AppendError, Appended, Expect, Store};
use rusqlite::Connection;

use super::{open, place};
use crate::support::{append, committed, expecting, opened, verified, within};

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
            Ok(Appended::Committed(range, _)) => acked = range.last,
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

#[tokio::test]
async fn a_queue_full_of_bytes_refuses_at_once() {
    let p = place();
    let store = Arc::new(open(&p.path));
    let log = opened(&*store).await;
    let raw = Connection::open(&p.path).unwrap();
    raw.execute_batch("BEGIN IMMEDIATE").unwrap();
    let large = "x".repeat(250 * 1024);
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..90 {
        let (store, large) = (store.clone(), append(&[("agent/a", large.as_str()); 4]));
        tasks.spawn(async move { store.append(log, large).await });
    }
    let mut raw = Some(raw);
    let mut acked = 0;
    while let Some(task) = tasks.join_next().await {
        match task.unwrap() {
            Ok(_) => acked += 1,
            Err(AppendError::Overloaded) => {}
            Err(other) => panic!("{other:?}"),
        }
        if let Some(raw) = raw.take() {
            assert_eq!(acked, 0);
            raw.execute_batch("ROLLBACK").unwrap();
        }
    }
    assert!((60..90).contains(&acked), "{acked}");
    assert_eq!(verified(&*store, log).await.len(), acked * 4);
    // What was answered gave its room back.
    committed(store.append(log, append(&[("agent/a", &large)])).await);
}

#[tokio::test]
async fn a_tail_that_went_back_stops_the_writer() {
    let p = place();
    let store = open(&p.path);
    let log = opened(&store).await;
    committed(
        store
            .append(log, append(&[("agent/a", "1"), ("agent/a", "2")]))
            .await,
    );
    let raw = Connection::open(&p.path).unwrap();
    let trigger: String = raw
        .query_row(
            "SELECT sql FROM sqlite_schema WHERE name = 'event_is_kept'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    raw.execute_batch(&format!(
        "DROP TRIGGER event_is_kept; DELETE FROM event WHERE seq = 2; {trigger}; BEGIN IMMEDIATE"
    ))
    .unwrap();
    // The failed write makes the writer read the file anew.
    let lost = within(store.append(log, append(&[("agent/a", "3")]))).await;
    assert!(matches!(lost, Err(AppendError::Unknown)), "{lost:?}");
    raw.execute_batch("ROLLBACK").unwrap();
    // Position 2 was given out with another event: it is not given out again.
    let refused = store.append(log, append(&[("agent/a", "3")])).await;
    assert!(matches!(refused, Err(AppendError::Stopped)), "{refused:?}");
    assert_eq!(store.read(log, 0, 9).await.unwrap().events.len(), 1);
}
