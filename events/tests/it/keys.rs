//! The key store.

use std::os::unix::fs::PermissionsExt;

use cocoonbox_events::{
    KeyStore, Keyring, LogId, LogKey, PayloadHash, Sealing, keys::KeyStoreError, record::Body, seal,
};
use tempfile::TempDir;
use uuid::Uuid;

fn log() -> LogId {
    LogId(Uuid::from_u128(7))
}

/// Keys do not show themselves: two are the same if one opens what the other sealed.
fn is_same(a: &Sealing, b: &Sealing) -> bool {
    let (Sealing::Key(a), Sealing::Key(b)) = (a, b) else {
        return false;
    };
    let body = Body {
        salt: [1; 16],
        payload: "words".into(),
    };
    let hash = PayloadHash::of(&body.salt, &body.payload);
    let sealed = seal::seal(Some(a), log(), &hash, &body).unwrap();
    seal::open(Some(b), log(), &hash, sealed).is_ok_and(|opened| opened == body)
}

#[test]
fn keys_are_made_once_and_kept() {
    let dir = TempDir::new().unwrap();
    let keys = KeyStore::open(dir.path()).unwrap();
    let ada = keys.log_key(log(), "ada");
    assert!(is_same(&ada, &keys.log_key(log(), "ada")));
    assert!(!is_same(&ada, &keys.log_key(log(), "eve")));
    assert!(!is_same(
        &ada,
        &keys.log_key(LogId(Uuid::from_u128(8)), "ada")
    ));
    drop(keys);
    let keys = KeyStore::open(dir.path()).unwrap();
    assert!(is_same(&ada, &keys.log_key(log(), "ada")));
    let reader = KeyStore::open_read_only(dir.path()).unwrap();
    assert!(is_same(&ada, &reader.log_key(log(), "ada")));
    // A reader makes none, and sees the one that is made beside it.
    assert!(matches!(reader.log_key(log(), "new"), Sealing::Lost));
    let new = keys.log_key(log(), "new");
    assert!(is_same(&new, &reader.log_key(log(), "new")));
}

#[test]
fn a_destroyed_key_is_never_made_again() {
    let dir = TempDir::new().unwrap();
    let keys = KeyStore::open(dir.path()).unwrap();
    assert!(matches!(keys.log_key(log(), "ada"), Sealing::Key(_)));
    keys.destroy("ada").unwrap();
    keys.destroy("ada").unwrap();
    keys.destroy("never made").unwrap();
    for name in ["ada", "never made"] {
        assert!(matches!(keys.log_key(log(), name), Sealing::Lost));
    }
    let reader = KeyStore::open_read_only(dir.path()).unwrap();
    assert!(matches!(reader.log_key(log(), "ada"), Sealing::Lost));
    assert!(matches!(
        reader.destroy("eve"),
        Err(KeyStoreError::ReadOnly)
    ));
    drop(keys);
    let keys = KeyStore::open(dir.path()).unwrap();
    assert!(matches!(keys.log_key(log(), "ada"), Sealing::Lost));
}

#[test]
fn derived_keys_are_stable_and_apart() {
    let dir = TempDir::new().unwrap();
    let keys = KeyStore::open(dir.path()).unwrap();
    let (token, edge) = (keys.derive("token hash"), keys.derive("edge signing"));
    assert_ne!(token, edge);
    drop(keys);
    assert_eq!(
        KeyStore::open_read_only(dir.path())
            .unwrap()
            .derive("token hash"),
        token
    );
    let other = TempDir::new().unwrap();
    assert_ne!(
        KeyStore::open(other.path()).unwrap().derive("token hash"),
        token
    );
}

#[test]
fn bad_folders_are_typed_errors() {
    let dir = TempDir::new().unwrap();
    let read = KeyStore::open_read_only(dir.path());
    assert!(matches!(read, Err(KeyStoreError::Absent { .. })));

    drop(KeyStore::open(dir.path()).unwrap());
    let master = dir.path().join("master.key");
    let refuse = || KeyStore::open(dir.path()).unwrap_err();
    let names: Vec<_> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert_eq!(names.len(), 2, "{names:?}");
    for name in names {
        let mode = std::fs::metadata(dir.path().join(name))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    let exposed = std::fs::Permissions::from_mode(0o640);
    std::fs::set_permissions(&master, exposed).unwrap();
    assert!(matches!(
        refuse(),
        KeyStoreError::Exposed { mode: 0o640, .. }
    ));
    std::fs::set_permissions(&master, std::fs::Permissions::from_mode(0o600)).unwrap();

    let key = std::fs::read(&master).unwrap();
    std::fs::write(&master, &key[..31]).unwrap();
    assert!(matches!(
        refuse(),
        KeyStoreError::Malformed { bytes: 31, .. }
    ));
    std::fs::write(&master, [0; 32]).unwrap();
    assert!(matches!(refuse(), KeyStoreError::WrongMaster));
    std::fs::remove_file(&master).unwrap();
    assert!(matches!(refuse(), KeyStoreError::MasterMissing { .. }));
}

#[test]
fn a_sealed_key_opens_for_its_owner_only() {
    let dir = TempDir::new().unwrap();
    let keys = KeyStore::open(dir.path()).unwrap();
    assert!(matches!(keys.log_key(log(), "ada"), Sealing::Key(_)));
    let raw = rusqlite::Connection::open(dir.path().join("keys.db")).unwrap();
    raw.execute_batch(
        "INSERT INTO owner_key SELECT 'eve', sealed FROM owner_key WHERE owner = 'ada'",
    )
    .unwrap();
    // Not `Lost`: that would let a reader go on as if the words had been erased.
    assert!(matches!(keys.log_key(log(), "eve"), Sealing::Unavailable));
}

#[test]
fn secrets_do_not_show() {
    let dir = TempDir::new().unwrap();
    let keys = KeyStore::open(dir.path()).unwrap();
    let key = LogKey::derive(&[42; 32], log());
    let shown = format!("{keys:?} {key:?} {:?}", keys.log_key(log(), "ada"));
    assert_eq!(shown, "KeyStore(***) LogKey(***) Key(LogKey(***))");
}
