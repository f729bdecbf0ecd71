//! What lies on disk, and who can read it.

use std::sync::Arc;

use cocoonbox_events::{
    AppendError, KeyStore, Keyring, LogId, LogKey, NewLog, NoKeys, ReadError, Sealing, Store,
};
use rusqlite::Connection;

use super::{bytes_on_disk, contains, open, place, try_open, without_trigger};
use crate::support::{append, committed, new_log, opened, text_of, verified};

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
async fn nothing_erased_is_left_in_the_write_ahead_log_or_the_commands() {
    let p = place();
    let store = open(&p.path);
    let log = opened(&store).await;
    let told = append(&[("agent/a", "a whispered secret"), ("agent/a", "stays")]);
    let (command, digest) = (told.command, told.digest);
    committed(store.append(log, told).await);
    let happened = store.happened(log, command).await.unwrap().unwrap();
    assert_eq!(happened.digest, Some(digest));
    store.erase(log, &[1]).await.unwrap();
    // While the store is open: an installation runs for months.
    assert_eq!(store.wal_bytes(), 0);
    let bytes = bytes_on_disk(p.dir.path());
    assert!(!contains(&bytes, "whispered"));
    assert!(contains(&bytes, "stays"));
    let happened = store.happened(log, command).await.unwrap().unwrap();
    assert_eq!(happened.digest, None);
    assert_eq!(happened.range.last, 2);
}
