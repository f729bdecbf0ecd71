//! Stores to test, and short ways to say what is appended.

use std::{sync::Arc, time::Duration};

use cocoonbox_events::{
    AgentEvent, Append, AppendError, Appended, CommandId, Expect, KeyStore, LogId, LogKind,
    ManualClock, MemoryStore, NewEvent, NewLog, NoKeys, Payload, Recorded, SqliteStore, Store,
    StreamName, SystemIds, chain::Verifier, store::Range,
};
use cocoonbox_proto::log::v1::{Actor, AgentRenamed};
use tempfile::TempDir;
use uuid::Uuid;

/// Nothing in these tests takes this long unless it hangs.
pub(crate) const DEADLINE: Duration = Duration::from_mins(1);

pub(crate) struct Fixture {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) _dir: Option<TempDir>,
}

/// The stores that the conformance suite runs against.
macro_rules! each_store {
    ($suite:ident: $($tests:tt)*) => {
        $suite!(@store memory: $($tests)*);
        $suite!(@store sqlite: $($tests)*);
        $suite!(@store sealed: $($tests)*);
    };
}
pub(crate) use each_store;

pub(crate) fn memory() -> Fixture {
    let clock = Arc::new(ManualClock::at(1_000));
    let store = Arc::new(MemoryStore::new(clock.clone(), Arc::new(SystemIds)));
    Fixture {
        store,
        clock,
        _dir: None,
    }
}

pub(crate) fn sqlite() -> Fixture {
    let clock = Arc::new(ManualClock::at(1_000));
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("log.db");
    let store = SqliteStore::open(path, Arc::new(NoKeys), clock.clone(), Arc::new(SystemIds));
    Fixture {
        store: Arc::new(store.unwrap()),
        clock,
        _dir: Some(dir),
    }
}

pub(crate) fn sealed() -> Fixture {
    let clock = Arc::new(ManualClock::at(1_000));
    let dir = TempDir::new().unwrap();
    let keys = Arc::new(KeyStore::open(dir.path()).unwrap());
    let path = dir.path().join("log.db");
    let store = SqliteStore::open(path, keys, clock.clone(), Arc::new(SystemIds));
    Fixture {
        store: Arc::new(store.unwrap()),
        clock,
        _dir: Some(dir),
    }
}

pub(crate) fn new_log() -> NewLog {
    let id = LogId(Uuid::now_v7());
    NewLog {
        id,
        kind: LogKind::Box,
        owner: "ada".into(),
        parent: None,
    }
}

pub(crate) async fn opened(store: &dyn Store) -> LogId {
    store.open(new_log()).await.unwrap().log
}

pub(crate) fn stream(name: &str) -> StreamName {
    StreamName::new(name).unwrap()
}

pub(crate) fn said(text: &str) -> Payload {
    AgentEvent::Renamed(AgentRenamed { name: text.into() }).into()
}

pub(crate) fn text_of(event: &Recorded) -> Option<String> {
    match event.payload().unwrap()? {
        Payload::Agent(AgentEvent::Renamed(renamed)) => Some(renamed.name),
        other => panic!("another event: {other:?}"),
    }
}

pub(crate) fn command() -> CommandId {
    CommandId(Uuid::now_v7())
}

/// One append of `(stream, text)`s.
pub(crate) fn append(events: &[(&str, &str)]) -> Append {
    Append {
        command: command(),
        digest: [1; 32],
        expect: Vec::new(),
        events: events
            .iter()
            .map(|(name, text)| NewEvent {
                stream: stream(name),
                payload: said(text),
            })
            .collect(),
        actor: Actor::default(),
        cause: None,
    }
}

pub(crate) fn expecting(mut append: Append, expect: &[(&str, Expect)]) -> Append {
    append.expect = expect
        .iter()
        .map(|(name, expect)| (stream(name), *expect))
        .collect();
    append
}

pub(crate) fn committed(answer: Result<Appended, AppendError>) -> Range {
    match answer.unwrap() {
        Appended::Committed(range, _) => range,
        Appended::Replayed(range) => panic!("replayed {range:?}"),
    }
}

pub(crate) fn replayed(answer: Result<Appended, AppendError>) -> Range {
    match answer.unwrap() {
        Appended::Replayed(range) => range,
        Appended::Committed(range, _) => panic!("committed {range:?}"),
    }
}

/// Reads everything behind `after`.
pub(crate) async fn read_all(store: &dyn Store, log: LogId, after: u64) -> Vec<Recorded> {
    let mut events: Vec<Recorded> = Vec::new();
    loop {
        let after = events.last().map_or(after, |event| event.pos);
        let page = store.read(log, after, usize::MAX).await.unwrap();
        if page.events.is_empty() {
            return events;
        }
        events.extend(page.events);
    }
}

/// Reads the whole log and checks what must be so of any log.
pub(crate) async fn verified(store: &dyn Store, log: LogId) -> Vec<Recorded> {
    let events = read_all(store, log, 0).await;
    let genesis = store.chain_at(log, 0).await.unwrap();
    let mut verifier = Verifier::after(0, genesis);
    let mut heads = std::collections::HashMap::new();
    for event in &events {
        verifier.check(event).unwrap();
        let head = heads.entry(event.stream.clone()).or_insert(0);
        *head += 1;
        assert_eq!(event.seq, *head, "stream {} has a gap", event.stream);
        assert_eq!(event.log, log);
    }
    let tail = store.tail(log).unwrap();
    assert_eq!((tail.pos, tail.chain), (verifier.pos(), verifier.chain()));
    events
}

pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future)
        .await
        .expect("it hangs")
}
