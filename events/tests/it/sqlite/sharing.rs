//! Many logs in a file, many readers beside the writer.

use std::sync::Arc;

use cocoonbox_events::{AppendError, KeyStore, NoKeys, SqliteStore, Store};

use super::{open, place, try_open};
use crate::support::{append, committed, new_log, opened, stream, text_of, verified, within};

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
    // One doorbell rings after the other.
    within(any.changed()).await.unwrap();

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
