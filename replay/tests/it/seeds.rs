//! What the fuzzers of exports and replicas begin with are whole ones of the recorded world.
//!
//! `COCOONBOX_WRITE_SEEDS=1` writes them anew, when their form has changed.

use std::{fs, path::PathBuf, sync::Arc};

use cocoonbox_events::{
    LogKind, ManualClock, MemoryStore, NewLog, Recorded, Store, SystemIds, limits::PAGE_EVENTS_MAX,
};
use cocoonbox_proto::log::v1::RecordedBatch;
use cocoonbox_replay::export::{decode_line, encode_line};
use prost::Message as _;

use crate::{
    exported::Exported,
    world::{World, box_log},
};

/// Events of the batch: enough that streams go on, few enough that each byte is tried.
const BATCH: usize = 6;

fn seeds(target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../tools/fuzz/seeds/{target}"))
}

fn read(target: &str) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(seeds(target)).unwrap();
    let seeds: Vec<_> = entries
        .map(|entry| fs::read(entry.unwrap().path()).unwrap())
        .collect();
    assert!(!seeds.is_empty(), "{target} has no seeds");
    seeds
}

async fn write() {
    let world = World::whole().await;
    let text = Exported::of_world(&world).await.text();
    // One line of each kind: each field that an event of it has is a byte to be changed.
    for (number, line) in text
        .lines()
        .enumerate()
        .filter(|(number, _)| number % 4 == 0)
    {
        fs::create_dir_all(seeds("export")).unwrap();
        fs::write(seeds("export").join(format!("line-{number}")), line).unwrap();
    }
    let page = world.store.read(box_log(), 0, PAGE_EVENTS_MAX).await;
    let events = page.unwrap().events;
    for count in [1, BATCH] {
        let batch = RecordedBatch {
            log_id: box_log().as_bytes().to_vec(),
            events: events[..count].iter().map(Recorded::to_wire).collect(),
        };
        fs::create_dir_all(seeds("replica")).unwrap();
        let path = seeds("replica").join(format!("first-{count}"));
        fs::write(path, batch.encode_to_vec()).unwrap();
    }
}

#[tokio::test]
async fn fuzzers_begin_with_what_is_whole() {
    if std::env::var_os("COCOONBOX_WRITE_SEEDS").is_some() {
        write().await;
    }
    for line in read("export") {
        let whole = decode_line(&line).unwrap();
        assert_eq!(encode_line(&whole, false).unwrap(), line);
    }
    let mut most = 0;
    for bytes in read("replica") {
        let batch = RecordedBatch::decode(bytes.as_slice()).unwrap();
        let events = batch.events.into_iter();
        let events = events.map(|event| Recorded::from_wire(box_log(), event).unwrap());
        let events: Vec<_> = events.collect();
        let store = MemoryStore::new(Arc::new(ManualClock::at(0)), Arc::new(SystemIds));
        let new = NewLog {
            id: box_log(),
            kind: LogKind::Box,
            owner: "u1".into(),
            parent: None,
        };
        store.open(new).await.unwrap();
        let tail = store.replicate(box_log(), events.clone()).await.unwrap();
        assert_eq!(tail.pos, events.len() as u64);
        most = most.max(events.len());
    }
    assert_eq!(most, BATCH);
}
