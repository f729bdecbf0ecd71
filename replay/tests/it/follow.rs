//! Following a file that another process writes.

use std::sync::Arc;

use cocoonbox_events::{
    Append, BoxEvent, CommandId, Ids, LogId, LogKind, NewEvent, NewLog, NoKeys, SqliteStore, Store,
    SystemClock, SystemIds,
};
use cocoonbox_proto::log::v1::{Actor, BoxRenamed};
use cocoonbox_replay::{Filter, Follow};
use tempfile::TempDir;

use crate::world::{account, box_log, stream};

fn writer(folder: &TempDir) -> SqliteStore {
    let path = folder.path().join("log.db");
    let (clock, ids) = (Arc::new(SystemClock), Arc::new(SystemIds));
    SqliteStore::open(path, Arc::new(NoKeys), clock, ids).unwrap()
}

fn reader(folder: &TempDir) -> Arc<dyn Store> {
    let path = folder.path().join("log.db");
    Arc::new(SqliteStore::open_read_only(path, Arc::new(NoKeys)).unwrap())
}

async fn open(store: &SqliteStore, id: LogId) {
    let new = NewLog {
        id,
        kind: LogKind::Account,
        owner: "u1".into(),
        parent: None,
    };
    store.open(new).await.unwrap();
}

async fn write(store: &SqliteStore, log: LogId, name: &str) {
    let renamed = BoxRenamed { name: name.into() };
    let append = Append {
        command: CommandId(SystemIds.draw()),
        digest: [0; 32],
        expect: Vec::new(),
        events: vec![NewEvent {
            stream: stream("box/b1"),
            payload: BoxEvent::Renamed(renamed).into(),
        }],
        actor: Actor::default(),
        cause: None,
    };
    store.append(log, append).await.unwrap();
}

async fn next(follow: &mut Follow) -> Vec<(LogId, u64)> {
    let batch = follow.next().await.unwrap();
    batch
        .lines
        .iter()
        .map(|line| (batch.log, line.pos))
        .collect()
}

#[tokio::test]
async fn events_come_as_they_are_written_and_after_a_restart_of_the_writer() {
    let folder = tempfile::tempdir().unwrap();
    let store = writer(&folder);
    open(&store, account()).await;
    write(&store, account(), "before").await;
    let reading = reader(&folder);
    let mut follow = Follow::from_now(&reading, None, Filter::default()).unwrap();
    write(&store, account(), "one").await;
    assert_eq!(next(&mut follow).await, [(account(), 2)]);
    store.close().await;
    drop(store);

    let store = writer(&folder);
    write(&store, account(), "two").await;
    assert_eq!(next(&mut follow).await, [(account(), 3)]);
    // A log that is new is followed from its start.
    open(&store, box_log()).await;
    write(&store, box_log(), "three").await;
    assert_eq!(next(&mut follow).await, [(box_log(), 1)]);
}

#[tokio::test]
async fn from_a_position_and_through_a_filter() {
    let folder = tempfile::tempdir().unwrap();
    let store = writer(&folder);
    open(&store, account()).await;
    for name in ["a", "b", "c"] {
        write(&store, account(), name).await;
    }
    let reading = reader(&folder);
    let mut follow = Follow::from_position(&reading, account(), 1, Filter::default()).unwrap();
    assert_eq!(next(&mut follow).await, [(account(), 2), (account(), 3)]);
    let filter = Filter {
        text: Some("wanted".into()),
        ..Filter::default()
    };
    let mut follow = Follow::from_position(&reading, account(), 0, filter).unwrap();
    assert_eq!(follow.poll().await.unwrap(), None);
    write(&store, account(), "unwanted things").await;
    assert_eq!(next(&mut follow).await, [(account(), 4)]);
    let gone = Follow::from_position(&reading, box_log(), 0, Filter::default());
    assert!(gone.is_err());
}

#[tokio::test]
async fn a_rewind_is_followed_into_the_branch() {
    let folder = tempfile::tempdir().unwrap();
    let store = writer(&folder);
    open(&store, account()).await;
    write(&store, account(), "a").await;
    let reading = reader(&folder);
    let mut follow = Follow::from_position(&reading, account(), 0, Filter::default()).unwrap();
    assert_eq!(next(&mut follow).await, [(account(), 1)]);
    let chain = store.chain_at(account(), 1).await.unwrap();
    let new = NewLog {
        id: box_log(),
        kind: LogKind::Account,
        owner: "u1".into(),
        parent: Some(cocoonbox_events::Parent {
            log: account(),
            pos: 1,
            chain,
        }),
    };
    store.rewind(new).await.unwrap();
    write(&store, box_log(), "b").await;
    assert_eq!(next(&mut follow).await, [(box_log(), 2)]);
}
