//! Keys that checkpoints are signed with, in the key store.

use cocoonbox_events::{
    ChainHash, KeyStore, LogId, SigningKeys,
    checkpoint::{KeyName, Note, Statement},
    keys::{SigningError, signing::IssuedKey},
};
use tempfile::TempDir;
use uuid::Uuid;

fn name(text: &str) -> KeyName {
    KeyName::new(text).unwrap()
}

fn signed(keys: &KeyStore) -> Note {
    let statement = Statement {
        host: name("logs.example"),
        log: LogId(Uuid::from_u128(7)),
        size: 3,
        chain: ChainHash([1; 32]),
    };
    statement.sign(&keys.signers().unwrap())
}

#[test]
fn a_rotated_key_signs_until_it_is_retired_and_is_known_for_ever() {
    let dir = TempDir::new().unwrap();
    let keys = KeyStore::open(dir.path()).unwrap();
    assert!(keys.current().unwrap().is_none());
    let first = keys.rotate(&name("a"), 10).unwrap();
    let of_first = signed(&keys);
    let second = keys.rotate(&name("b"), 20).unwrap();
    assert_ne!(first.public(), second.public());
    let of_both = signed(&keys);
    assert_eq!(of_both.signers([&first]).unwrap(), [&first]);
    assert_eq!(of_both.signers([&second]).unwrap(), [&second]);
    keys.retire(&first, 30).unwrap();
    keys.retire(&first, 40).unwrap();
    let of_second = signed(&keys);
    assert!(of_second.signers([&first]).is_err());

    drop(keys);
    for keys in [
        KeyStore::open(dir.path()).unwrap(),
        KeyStore::open_read_only(dir.path()).unwrap(),
    ] {
        assert_eq!(signed(&keys), of_second);
        let known = keys.all().unwrap();
        let issued = |key: &_, issued_us, retired_us| IssuedKey {
            key: Clone::clone(key),
            issued_us,
            retired_us,
        };
        let expected = [issued(&first, 10, Some(30)), issued(&second, 20, None)];
        assert_eq!(known, expected);
        let trusted: Vec<_> = known.iter().map(|known| &known.key).collect();
        assert!(of_first.signers(trusted).is_ok(), "what it signed is good");
    }
    let raw = rusqlite::Connection::open(dir.path().join("keys.db")).unwrap();
    let secrets: i64 = raw
        .query_row("SELECT count(sealed) FROM signing_key", [], |row| {
            row.get(0)
        })
        .unwrap();
    assert_eq!(secrets, 1, "a retired key cannot sign any more");
}

#[test]
fn readers_make_no_keys() {
    let dir = TempDir::new().unwrap();
    drop(KeyStore::open(dir.path()).unwrap());
    let reader = KeyStore::open_read_only(dir.path()).unwrap();
    let refused = reader.rotate(&name("a"), 0);
    assert!(matches!(refused, Err(SigningError::ReadOnly)));
}

#[test]
fn keys_of_a_build_that_signed_nothing_are_read() {
    let dir = TempDir::new().unwrap();
    drop(KeyStore::open(dir.path()).unwrap());
    let raw = rusqlite::Connection::open(dir.path().join("keys.db")).unwrap();
    raw.execute_batch("DROP TABLE signing_key").unwrap();
    let reader = KeyStore::open_read_only(dir.path()).unwrap();
    assert!(reader.all().unwrap().is_empty());
    assert!(reader.signers().unwrap().is_empty());
    let keys = KeyStore::open(dir.path()).unwrap();
    keys.rotate(&name("a"), 0).unwrap();
    assert_eq!(reader.all().unwrap().len(), 1);
}

#[test]
fn a_key_opens_for_its_own_public_half_only() {
    let dir = TempDir::new().unwrap();
    let keys = KeyStore::open(dir.path()).unwrap();
    keys.rotate(&name("a"), 0).unwrap();
    keys.rotate(&name("b"), 0).unwrap();
    let raw = rusqlite::Connection::open(dir.path().join("keys.db")).unwrap();
    raw.execute_batch(
        "UPDATE signing_key SET sealed = (SELECT sealed FROM signing_key WHERE name = 'a')",
    )
    .unwrap();
    assert!(matches!(keys.signers(), Err(SigningError::Damaged)));
}
