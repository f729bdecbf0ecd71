//! A dump tells nothing of what was erased, nor of whoever's key was destroyed.

use std::sync::Arc;

use base64::prelude::{BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD, Engine as _};
use cocoonbox_events::{Append, Keyring, LogId, LogKind, NewLog, NoKeys, Store, SystemClock};
use cocoonbox_events_postgres::{Database, PgKeys};
use tempfile::TempDir;

use crate::support::{append, committed, fresh, new_log, options, store, text_of, verified};

const PLANTED: [&str; 3] = ["zebra-whispered", "zebra-in-a-stream", "zebra-said-last"];
const KEPT: &str = "okapi-stays";
/// Longer than what PostgreSQL keeps in a row: it lies in a table of its own.
const LONG: usize = 20_000;

/// The ways in which a text may be found in a dump.
fn forms(text: &[u8]) -> Vec<String> {
    let mut forms = vec![
        String::from_utf8_lossy(text).into_owned(),
        hex::encode(text),
        hex::encode_upper(text),
    ];
    for engine in [BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD] {
        // Where the text begins in a group of three is not known: what all neighbours leave the same.
        for before in 0..3 {
            let shifted = [&[0; 2][..before], text].concat();
            let whole = shifted.len() / 3 * 3;
            let encoded = engine.encode(&shifted[..whole]);
            let same = (before * 4).div_ceil(3);
            forms.push(encoded[same..].to_owned());
        }
    }
    forms
}

fn finds(dump: &str, text: &[u8]) -> bool {
    forms(text).iter().any(|form| dump.contains(form))
}

async fn open(store: &dyn Store, owner: &str) -> LogId {
    let new = NewLog {
        kind: LogKind::Account,
        owner: owner.into(),
        ..new_log()
    };
    store.open(new).await.unwrap().log
}

/// Every planted text in a command of its own, with a digest that tells which it is.
fn commands() -> Vec<Append> {
    let numbered = (1..).zip(PLANTED);
    numbered
        .map(|(number, text)| {
            let long = format!("{text} {}", "x".repeat(LONG));
            let mut told = append(&[("agent/a", text), ("agent/a", &long)]);
            told.digest = digest(number);
            told
        })
        .collect()
}

fn digest(number: u8) -> [u8; 32] {
    [0xd0 + number; 32]
}

/// What a dump has to say, before and after the dead rows are swept.
async fn dumps(url: &str) -> [String; 2] {
    let url = url.to_owned();
    let dumping = move || {
        let cluster = cocoonbox_postgres::shared();
        let before = cluster.dump(&url).unwrap();
        cluster.run_sql(&url, "VACUUM").unwrap();
        [before, cluster.dump(&url).unwrap()]
    };
    tokio::task::spawn_blocking(dumping).await.unwrap()
}

#[test]
fn a_text_is_found_in_each_form() {
    let text = b"zebra-whispered";
    let around = [&b"ab"[..], text, b"cd"].concat();
    for cut in 0..3 {
        let around = &around[cut..];
        for encoded in [
            hex::encode(around),
            BASE64_STANDARD_NO_PAD.encode(around),
            BASE64_URL_SAFE_NO_PAD.encode(around),
        ] {
            assert!(finds(&encoded, text), "{encoded}");
            assert!(!finds(&encoded, b"zebra-printed"), "{encoded}");
        }
    }
}

/// Unsealed, so that what is planted lies open in the dump until it is erased.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_erased_is_in_no_dump() {
    let url = fresh();
    let store = store(&url, Arc::new(NoKeys), Arc::new(SystemClock)).await;
    let log = open(&store, "ada").await;
    let mut ranges = Vec::new();
    for told in commands() {
        ranges.push(committed(store.append(log, told).await));
    }
    let [dump, _] = dumps(&url).await;
    for (number, text) in (1..).zip(PLANTED) {
        assert!(finds(&dump, text.as_bytes()), "the test plants nothing");
        assert!(dump.contains(&hex::encode(digest(number))));
    }
    let erased: Vec<u64> = (ranges[0].first..=ranges[1].last).collect();
    store.erase(log, &erased).await.unwrap();
    for dump in dumps(&url).await {
        for (number, text) in (1..).zip(PLANTED) {
            let is_kept = number == 3;
            assert_eq!(finds(&dump, text.as_bytes()), is_kept, "{text}");
            assert_eq!(dump.contains(&hex::encode(digest(number))), is_kept);
        }
    }
    assert_eq!(verified(&store, log).await.len(), 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_destroyed_key_and_what_it_sealed_nothing_is_in_a_dump() {
    let (url, dir) = (fresh(), TempDir::new().unwrap());
    let database = Database::connect(&options(&url)).await.unwrap();
    let keys = Arc::new(PgKeys::open(&database, dir.path()).await.unwrap());
    let keyring: Arc<dyn Keyring> = keys.clone();
    let store = store(&url, keyring, Arc::new(SystemClock)).await;
    let (gone, stays) = (open(&store, "ada").await, open(&store, "bob").await);
    for told in commands() {
        committed(store.append(gone, told).await);
    }
    let (slip, kept) = (
        append(&[("agent/a", PLANTED[0])]),
        append(&[("agent/a", KEPT)]),
    );
    let slipped = committed(store.append(stays, slip).await);
    committed(store.append(stays, kept).await);
    let sealed = sealed_key(&url, "ada");
    let [dump, _] = dumps(&url).await;
    assert!(
        dump.contains(&sealed),
        "the key is not where it is looked for"
    );

    // As a deletion does it: the key first, then what is beside the payloads.
    keys.destroy("ada").await.unwrap();
    let all: Vec<u64> = (1..=store.tail(gone).unwrap().pos).collect();
    store.erase(gone, &all).await.unwrap();
    store.erase(stays, &[slipped.first]).await.unwrap();
    for dump in dumps(&url).await {
        for (number, text) in (1..).zip(PLANTED) {
            assert!(!finds(&dump, text.as_bytes()), "{text}");
            assert!(!dump.contains(&hex::encode(digest(number))), "{text}");
        }
        assert!(!dump.contains(&sealed), "the key can be had from a dump");
    }
    let texts = |events: Vec<_>| events.iter().map(text_of).collect::<Vec<_>>();
    assert_eq!(texts(verified(&store, gone).await), [const { None }; 6]);
    let left = [None, Some(KEPT.to_owned())];
    assert_eq!(texts(verified(&store, stays).await), left);
}

/// An owner's key as it lies in the database, in hex.
fn sealed_key(url: &str, owner: &str) -> String {
    let sql =
        format!("SELECT encode(sealed, 'hex') FROM cocoonbox.owner_key WHERE owner = '{owner}'");
    let sealed = cocoonbox_postgres::shared().run_sql(url, &sql).unwrap();
    assert!(sealed.trim().len() > 32, "{sealed}");
    sealed.trim().to_owned()
}
