//! From files to a database and back.

use std::path::Path;

use cocoonbox_events::{
    CommandId, KeyStore, LogKind, SigningKeys as _, checkpoint::KeyName, limits::PAGE_EVENTS_MAX,
};
use cocoonbox_installation::{
    Installation, Purpose,
    copy::{Copied, CopyError, Progress, compare, copy},
};

use uuid::Uuid;

use crate::world::{checkpoint, database, folder, log, remember, token, write};

/// More than a page, so that paging is tested.
const MANY: usize = PAGE_EVENTS_MAX + 20;

/// Commands that led to nothing.
const FULFILLED: [CommandId; 3] = [
    CommandId(Uuid::from_u128(1)),
    CommandId(Uuid::from_u128(2)),
    CommandId(Uuid::from_u128(3)),
];

/// One of everything that can be in an installation.
async fn fill(one: &Installation, keys: &Path) {
    let system = log(one, LogKind::System, "", None, false).await;
    remember(one, system, FULFILLED[0]).await;
    write(one, system, 3, "system").await;
    let account = log(one, LogKind::Account, "ada", None, false).await;
    write(one, account, 7, "account").await;
    remember(one, account, FULFILLED[1]).await;
    write(one, account, MANY - 7, "account").await;
    remember(one, account, FULFILLED[2]).await;
    checkpoint(one, account, 2).await;
    checkpoint(one, account, 4).await;
    one.store.erase(account, &[3, 5]).await.unwrap();
    let box_log = log(one, LogKind::Box, "ada", None, false).await;
    write(one, box_log, 10, "box").await;
    let fork = log(one, LogKind::Box, "ada", Some((box_log, 4)), false).await;
    write(one, fork, 3, "fork").await;
    let next = log(one, LogKind::Box, "ada", Some((box_log, 6)), true).await;
    write(one, next, 2, "next").await;
    checkpoint(one, next, 7).await;
    let gone = log(one, LogKind::Account, "bob", None, false).await;
    write(one, gone, 4, "of a user who is deleted").await;
    one.keys.destroy("bob").await.unwrap();
    for (id, user) in [("t1", "ada"), ("t2", "ada"), ("t3", "bob")] {
        one.tokens.put(&token(id, user)).await.unwrap();
    }
    let store = KeyStore::open(keys).unwrap();
    let name = KeyName::new("cocoonbox.example").unwrap();
    let old = store.rotate(&name, 1).unwrap();
    store.rotate(&name, 2).unwrap();
    store.retire(&old, 3).unwrap();
}

async fn copied(from: &Installation, to: &Installation) -> Copied {
    let mut last = Progress::default();
    let copied = copy(from, to, |progress| last = progress).await.unwrap();
    assert_eq!((last.events_done, last.logs_done), (last.events, last.logs));
    copied
}

#[tokio::test(flavor = "multi_thread")]
async fn there_and_back_is_the_same_and_goes_on() {
    let first = tempfile::tempdir().unwrap();
    let source = folder(first.path(), Purpose::Use).await;
    fill(&source, first.path()).await;
    // Opened again: whoever copies begins with what is on disk.
    source.close().await;
    let source = folder(first.path(), Purpose::Use).await;

    let url = cocoonbox_postgres::shared().database().unwrap();
    let middle = database(&url, first.path(), Purpose::Copy).await;
    let there = copied(&source, &middle).await;
    let events = (3 + MANY + 10 + 3 + 2 + 4) as u64;
    assert_eq!((there.events, there.events_new), (events, events));
    assert_eq!((there.logs, there.checkpoints, there.tokens), (6, 3, 3));
    assert_eq!((there.owners, there.signing_keys), (3, 2));
    // What was erased meanwhile is erased there too, and nothing is written twice.
    let account = source
        .store
        .logs()
        .into_iter()
        .find(|log| log.owner == "ada")
        .unwrap()
        .id;
    source.store.erase(account, &[1]).await.unwrap();
    assert_eq!(copied(&source, &middle).await.events_new, 0);
    compare(&source, &middle, |_| {}).await.unwrap();
    middle.close().await;

    let last = tempfile::tempdir().unwrap();
    std::fs::copy(
        first.path().join("master.key"),
        last.path().join("master.key"),
    )
    .unwrap();
    let middle = database(&url, first.path(), Purpose::Use).await;
    let target = folder(last.path(), Purpose::Copy).await;
    copied(&middle, &target).await;
    target.close().await;
    let target = folder(last.path(), Purpose::Use).await;
    let same = compare(&source, &target, |_| {}).await.unwrap();
    assert_eq!(same.events, events);
    for log in source.store.logs() {
        for command in FULFILLED {
            let then = source.store.happened(log.id, command).await.unwrap();
            assert_eq!(target.store.happened(log.id, command).await.unwrap(), then);
            let is_known = FULFILLED.iter().position(|known| *known == command);
            let is_of_log = match log.kind {
                LogKind::System => is_known == Some(0),
                LogKind::Account => log.id == account && is_known > Some(0),
                LogKind::Box => false,
            };
            assert_eq!(then.is_some(), is_of_log, "{command} in {}", log.id);
        }
    }

    // Both go on from where they are, and then are two installations.
    write(&target, account, 1, "after").await;
    let refused = compare(&source, &target, |_| {}).await.unwrap_err();
    assert!(matches!(refused, CopyError::Differs { .. }), "{refused}");
    let refused = copy(&source, &target, |_| {}).await.unwrap_err();
    assert!(matches!(refused, CopyError::Ahead { .. }), "{refused}");
    assert_eq!(copied(&target, &source).await.events_new, 1);
    compare(&target, &source, |_| {}).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn something_else_is_refused() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let source = folder(one.path(), Purpose::Use).await;
    fill(&source, one.path()).await;
    std::fs::copy(
        one.path().join("master.key"),
        other.path().join("master.key"),
    )
    .unwrap();
    let target = folder(other.path(), Purpose::Copy).await;
    log(&target, LogKind::System, "", None, false).await;
    let refused = copy(&source, &target, |_| {}).await.unwrap_err();
    assert!(
        matches!(refused, CopyError::OtherInstallation { .. }),
        "{refused}"
    );

    // One that a log was left out of, or that has one event another way.
    let url = cocoonbox_postgres::shared().database().unwrap();
    let half = database(&url, one.path(), Purpose::Copy).await;
    copied(&source, &half).await;
    let account = source
        .store
        .logs()
        .into_iter()
        .find(|log| log.owner == "ada")
        .unwrap()
        .id;
    write(&half, account, 1, "there").await;
    write(&source, account, 1, "here").await;
    let refused = copy(&source, &half, |_| {}).await.unwrap_err();
    assert!(
        matches!(refused, CopyError::OtherHistory { .. }),
        "{refused}"
    );
}
