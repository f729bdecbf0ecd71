//! Power gone: a child process appends and is killed in the middle, again and again.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
};

use cocoonbox_events::{
    LogId, LogKind, NewLog, NoKeys, SqliteStore, Store, SystemClock, SystemIds,
};
use tempfile::TempDir;
use uuid::Uuid;

use crate::support::{append, text_of, verified};

const DB: &str = "COCOONBOX_TEST_CRASH_DB";
const KILLS: u64 = 12;
const PRODUCERS: u64 = 8;

pub(crate) fn log() -> NewLog {
    let id = LogId(Uuid::from_u128(1));
    NewLog {
        id,
        kind: LogKind::Box,
        owner: String::new(),
        parent: None,
    }
}

fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(
        path,
        Arc::new(NoKeys),
        Arc::new(SystemClock),
        Arc::new(SystemIds),
    )
    .unwrap()
}

/// The child's side; passes at once when it is not the child.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Some(path) = std::env::var_os(DB) else {
        return;
    };
    let store = Arc::new(open(Path::new(&path)));
    store.open(log()).await.unwrap();
    let producers = (0..PRODUCERS).map(|producer| {
        let store = store.clone();
        tokio::spawn(async move {
            let name = format!("agent/{producer}");
            loop {
                let text = Uuid::now_v7().to_string();
                let twice = append(&[(&name, &text), ("agent/all", &text)]);
                let Ok(appended) = store.append(log().id, twice).await else {
                    return;
                };
                let line = format!("acked {} {text}\n", appended.range().first);
                std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
            }
        })
    });
    for producer in producers.collect::<Vec<_>>() {
        producer.await.unwrap();
    }
}

pub(crate) fn spawn(path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::child", "--nocapture", "--test-threads=1"])
        .env(DB, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_acked_event_survives_kills() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("log.db");
    let mut acked: BTreeMap<u64, String> = BTreeMap::new();
    for round in 0..KILLS {
        let mut child = spawn(&path);
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // Another moment each time; after the kill, what is still in the pipe was acked too.
        let enough = 1 + round * 37 % 150;
        let mut seen = 0;
        for line in lines {
            let Ok(line) = line else { break };
            let Some(rest) = line.split("acked ").nth(1) else {
                continue;
            };
            // The last line may be cut off in the middle.
            let Some((pos, text)) = rest.split_once(' ').filter(|(_, text)| text.len() == 36)
            else {
                continue;
            };
            let before = acked.insert(pos.parse().unwrap(), text.to_owned());
            assert_eq!(before, None, "position {pos} was given out twice");
            seen += 1;
            if seen == enough {
                child.kill().unwrap();
            }
        }
        assert!(seen >= enough, "the child of round {round} died by itself");
        child.wait().unwrap();

        let store = open(&path);
        let events = verified(&store, log().id).await;
        for (pos, text) in &acked {
            let index = usize::try_from(*pos).unwrap() - 1;
            assert_eq!(text_of(&events[index]).as_ref(), Some(text), "at {pos}");
            assert_eq!(
                text_of(&events[index + 1]).as_ref(),
                Some(text),
                "half an append at {pos}"
            );
        }
        assert_eq!(events.len() % 2, 0, "half an append");
    }
}
