//! Keys that all replicas share.

use std::{path::Path, sync::Arc, time::Instant};

use cocoonbox_events::{
    AppendError, Keyring, LogId, Sealing, SigningKeys, Store, SystemClock,
    checkpoint::{KeyName, Signer},
    keys::KeyStoreError,
};
use cocoonbox_events_postgres::{Database, PgKeys, PgKeysError, keys::TRUST_MAX};
use tempfile::TempDir;
use uuid::Uuid;

use crate::support::{
    append, committed, fresh, new_log, options, store, stream, text_of, verified, within,
};

const LOG: LogId = LogId(Uuid::from_u128(7));

async fn keys(url: &str, dir: &Path) -> PgKeys {
    let database = Database::connect(&options(url)).await.unwrap();
    PgKeys::open(&database, dir).await.unwrap()
}

fn check(keys: &dyn Keyring, owner: &str) -> Option<[u8; 8]> {
    match keys.log_key(LOG, owner) {
        Sealing::Key(key) => Some(key.check()),
        Sealing::Lost => None,
        other => panic!("{other:?}"),
    }
}

/// The folder of another replica, to which an operator has copied the master key.
fn copied(dir: &TempDir) -> TempDir {
    let copy = TempDir::new().unwrap();
    let from = dir.path().join("master.key");
    std::fs::copy(from, copy.path().join("master.key")).unwrap();
    copy
}

#[tokio::test]
async fn replicas_have_the_same_keys() {
    let (url, dir) = (fresh(), TempDir::new().unwrap());
    let one = keys(&url, dir.path()).await;
    let two = keys(&url, copied(&dir).path()).await;
    let ada = check(&one, "ada").unwrap();
    assert_eq!(check(&two, "ada"), Some(ada));
    assert_ne!(check(&two, "eve"), Some(ada));
    assert_eq!(*one.derive("tokens"), *two.derive("tokens"));
    assert_ne!(*one.derive("tokens"), *two.derive("views"));
    // Kept: nothing has to be asked.
    assert!(one.log_key_at_hand(LOG, "ada").is_some());
    assert!(one.log_key_at_hand(LOG, "nobody").is_none());
}

#[tokio::test]
async fn rivals_make_one_key() {
    let (url, dir) = (fresh(), TempDir::new().unwrap());
    let one = Arc::new(keys(&url, dir.path()).await);
    let two = Arc::new(keys(&url, dir.path()).await);
    for n in 0..20 {
        let ask = |keys: &Arc<PgKeys>| {
            let keys = keys.clone();
            tokio::task::spawn_blocking(move || check(&*keys, &format!("owner {n}")))
        };
        let (left, right) = tokio::join!(ask(&one), ask(&two));
        let (left, right) = (left.unwrap(), right.unwrap());
        assert_eq!(left, right);
        assert!(left.is_some());
    }
}

#[tokio::test]
async fn a_destroyed_key_stops_working_everywhere() {
    let (url, dir) = (fresh(), TempDir::new().unwrap());
    let one = Arc::new(keys(&url, dir.path()).await);
    let two = Arc::new(keys(&url, dir.path()).await);
    let here = store(&url, one.clone(), Arc::new(SystemClock)).await;
    let there = store(&url, two.clone(), Arc::new(SystemClock)).await;
    let log = new_log();
    here.open(log.clone()).await.unwrap();
    committed(here.append(log.id, append(&[("agent/a", "words")])).await);
    let name = stream("agent/a");
    let read = there.read_stream(log.id, &name, 0, 9).await.unwrap();
    assert_eq!(text_of(&read.events[0]), Some("words".into()));

    let destroyed = Instant::now();
    one.destroy("ada").await.unwrap();
    assert_eq!(check(&*one, "ada"), None);
    assert_eq!(verified(&here, log.id).await[0].body, None);
    within(async {
        loop {
            let read = there.read_stream(log.id, &name, 0, 9).await.unwrap();
            if read.events[0].body.is_none() {
                break;
            }
            assert!(destroyed.elapsed() < TRUST_MAX, "used for too long");
        }
    })
    .await;
    let refused = there.append(log.id, append(&[("agent/a", "x")])).await;
    assert!(matches!(refused, Err(AppendError::NoKey)), "{refused:?}");
    // A tombstone: it is never made again.
    one.destroy("ada").await.unwrap();
    one.destroy("never made").await.unwrap();
    let third = keys(&url, dir.path()).await;
    assert_eq!(
        (check(&third, "ada"), check(&third, "never made")),
        (None, None)
    );
    let sql = "SELECT count(*) FROM cocoonbox.owner_key WHERE sealed IS NOT NULL";
    let left = cocoonbox_postgres::shared().run_sql(&url, sql).unwrap();
    assert_eq!(left.trim(), "0");
    let revived = "UPDATE cocoonbox.owner_key SET sealed = 'x' WHERE owner = 'ada'";
    assert!(cocoonbox_postgres::shared().run_sql(&url, revived).is_err());
}

#[tokio::test]
async fn another_master_key_is_refused() {
    let (url, dir) = (fresh(), TempDir::new().unwrap());
    drop(keys(&url, dir.path()).await);
    let database = Database::connect(&options(&url)).await.unwrap();
    let empty = TempDir::new().unwrap();
    let refused = PgKeys::open(&database, empty.path()).await;
    assert!(matches!(refused, Err(PgKeysError::MasterMissing { .. })));
    let elsewhere = TempDir::new().unwrap();
    drop(keys(&fresh(), elsewhere.path()).await);
    let refused = PgKeys::open(&database, elsewhere.path()).await;
    assert!(matches!(
        refused,
        Err(PgKeysError::Master(KeyStoreError::WrongMaster))
    ));
}

#[tokio::test]
async fn a_reader_makes_nothing() {
    let (url, dir) = (fresh(), TempDir::new().unwrap());
    let one = keys(&url, dir.path()).await;
    let ada = check(&one, "ada");
    let database = Database::connect(&options(&url)).await.unwrap();
    let reader = PgKeys::open_read_only(&database, dir.path()).await.unwrap();
    assert_eq!(check(&reader, "ada"), ada);
    assert_eq!(check(&reader, "eve"), None);
    assert!(matches!(
        reader.destroy("ada").await,
        Err(PgKeysError::ReadOnly)
    ));
    // Made by another since: seen at once.
    let eve = check(&one, "eve");
    assert_eq!(check(&reader, "eve"), eve);
}

#[tokio::test]
async fn signing_keys_are_shared_and_carried_over() {
    let (url, dir) = (fresh(), TempDir::new().unwrap());
    let one = keys(&url, dir.path()).await;
    let two = keys(&url, dir.path()).await;
    let name = KeyName::new("cocoonbox.example").unwrap();
    let old = one.rotate(&name, 1).unwrap();
    let new = two.rotate(&name, 2).unwrap();
    assert_eq!(two.current().unwrap().unwrap().verifier(), new);
    one.retire(&old, 3).unwrap();
    one.retire(&old, 4).unwrap();
    let signers: Vec<_> = two
        .signers()
        .unwrap()
        .iter()
        .map(Signer::verifier)
        .collect();
    assert_eq!(signers, [new]);
    let all = two.all().unwrap();
    assert_eq!(
        all.iter().map(|k| k.retired_us).collect::<Vec<_>>(),
        [Some(3), None]
    );

    let ada = check(&one, "ada");
    check(&one, "bob");
    one.destroy("bob").await.unwrap();
    let target = keys(&fresh(), copied(&dir).path()).await;
    for _ in 0..2 {
        for owner in one.sealed_owners(None, 9).await.unwrap() {
            assert!(target.put_sealed_owner(&owner).await.unwrap());
        }
        for signer in one.sealed_signers().await.unwrap() {
            target.put_sealed_signer(&signer).await.unwrap();
        }
    }
    assert_eq!((check(&target, "ada"), check(&target, "bob")), (ada, None));
    assert_eq!(target.all().unwrap(), all);
    assert_eq!(one.sealed_owners(Some("ada"), 9).await.unwrap().len(), 1);
}
