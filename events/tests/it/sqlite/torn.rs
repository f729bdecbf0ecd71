//! A write-ahead log that lost its end, or was damaged in the middle: what is left is a beginning.

use std::{
    io::{BufRead, BufReader},
    path::Path,
};

use cocoonbox_events::{NewLog, OffsetKey, Parent, ReadError, Recorded, Store, store::Tail};
use tempfile::TempDir;

use super::open;
use crate::{
    crash,
    support::{append, committed, new_log, verified},
};

/// Of the database, and of a frame's header before each page of it.
const PAGE: u64 = 8192;
const FRAME: u64 = PAGE + 24;
const WAL_HEADER: u64 = 32;
/// Events that were moved into the file before.
const SETTLED: usize = 20;
const ACKED: usize = 24;

/// A database and its write-ahead log, as a writer left them that was killed.
fn killed(path: &Path) -> (Vec<u8>, Vec<u8>) {
    let mut child = crash::spawn(path);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut acked = 0;
    for line in lines.map_while(Result::ok) {
        acked += usize::from(line.contains("acked "));
        if acked == ACKED {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    let bytes = |suffix: &str| std::fs::read(format!("{}{suffix}", path.display())).unwrap();
    (bytes(""), bytes("-wal"))
}

/// Opens a database with this write-ahead log and returns what is there.
async fn left(db: &[u8], wal: &[u8]) -> (Tail, Vec<Recorded>) {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("log.db");
    std::fs::write(&path, db).unwrap();
    std::fs::write(dir.path().join("log.db-wal"), wal).unwrap();
    let store = open(&path);
    let log = crash::log().id;
    let events = verified(&store, log).await;
    (store.tail(log).unwrap(), events)
}

#[tokio::test]
async fn a_torn_write_ahead_log_opens_to_a_beginning() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("log.db");
    let store = open(&path);
    store.open(crash::log()).await.unwrap();
    for _ in 0..SETTLED {
        committed(
            store
                .append(crash::log().id, append(&[("agent/s", "x")]))
                .await,
        );
    }
    drop(store);
    let (db, wal) = killed(&path);
    let (_, whole) = left(&db, &wal).await;
    assert!(whole.len() >= SETTLED + 2 * ACKED);

    let size = wal.len() as u64;
    let frames = (size - WAL_HEADER) / FRAME;
    // About thirty places: in the header, at the edges of frames, in their headers and in their pages.
    let step = usize::try_from(frames / 6).unwrap().max(1);
    let edges = (0..frames).step_by(step).map(|n| WAL_HEADER + n * FRAME);
    let around = |at| [at, at + 1, at + 12, at + 24, at + 4_000].map(|at: u64| at.min(size - 1));
    let places: Vec<u64> = [0, 1, 16, 31]
        .into_iter()
        .chain(edges.flat_map(around))
        .collect();
    let mut longest = 0;
    let mut lengths = std::collections::BTreeSet::new();
    for at in &places {
        let at = usize::try_from(*at).unwrap();
        let (_, cut) = left(&db, &wal[..at]).await;
        assert!(whole.starts_with(&cut), "cut at {at}");
        assert!(cut.len() >= longest.max(SETTLED), "cut at {at}");
        longest = cut.len();
        let mut bad = wal.clone();
        bad[at] ^= 0x40;
        let (_, rest) = left(&db, &bad).await;
        assert!(whole.starts_with(&rest), "flipped at {at}");
        assert!(rest.len() >= SETTLED, "flipped at {at}");
        lengths.insert(rest.len());
    }
    assert!(lengths.len() > 3 && longest > SETTLED, "{lengths:?}");
}

#[tokio::test]
async fn keys_into_a_lost_tail_are_answered_loudly() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("log.db");
    let store = open(&path);
    store.open(crash::log()).await.unwrap();
    drop(store);
    let (db, wal) = killed(&path);
    let (_, whole) = left(&db, &wal).await;
    let seen = whole.last().unwrap().offset_key();
    std::fs::write(&path, &db).unwrap();
    std::fs::remove_file(dir.path().join("log.db-shm")).unwrap();
    std::fs::write(dir.path().join("log.db-wal"), &wal[..wal.len() / 2]).unwrap();

    let store = open(&path);
    let log = crash::log().id;
    let tail = store.tail(log).unwrap();
    assert!(tail.pos < seen.pos);
    let ahead = store.resume(log, &seen).await;
    assert!(
        matches!(ahead, Err(ReadError::AheadOfTail { pos, tail: t }) if pos == seen.pos && t == tail.pos),
        "{ahead:?}"
    );
    let kept = OffsetKey::new(log, tail.pos, tail.chain);
    assert_eq!(store.resume(log, &kept).await.unwrap(), tail.pos);

    let parent = Some(Parent {
        log,
        pos: tail.pos,
        chain: tail.chain,
    });
    let branch = NewLog {
        parent,
        owner: crash::log().owner,
        ..new_log()
    };
    store.rewind(branch.clone()).await.unwrap();
    for _ in 0..seen.pos {
        committed(store.append(branch.id, append(&[("agent/a", "on")])).await);
    }
    // Never a position of the branch that happens to have the same number.
    let moved = store.resume(branch.id, &seen).await;
    assert!(
        matches!(moved, Err(ReadError::Moved { to, common }) if to == branch.id && common == tail.pos),
        "{moved:?}"
    );
    assert_eq!(store.resume(branch.id, &kept).await.unwrap(), tail.pos);
}
