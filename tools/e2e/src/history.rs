//! The logs of an installation, read from its files and checked link by link.

use std::{collections::HashMap, path::Path, sync::Arc};

use cocoonbox_events::{
    BoxEvent, ChainHash, KeyStore, Keyring, LogId, LogInfo, LogKind, Payload, Recorded,
    SqliteStore, Store, chain::Verifier, limits::PAGE_EVENTS_MAX,
};
use cocoonbox_projections::{Views, rebuild_and_compare};

/// A verified copy of everything that was logged.
#[derive(Debug)]
pub struct History {
    pub logs: HashMap<LogId, Log>,
}

/// One log from its first event to its last.
#[derive(Debug)]
pub struct Log {
    pub info: LogInfo,
    pub events: Vec<Recorded>,
}

impl History {
    /// Reads and verifies all logs in a data folder, also while the api runs.
    pub async fn verified(data: &Path) -> Self {
        let store = open(data);
        let history = Self::of(&store).await;
        store.close().await;
        history
    }

    /// Reads and verifies all logs of a store.
    pub async fn of(store: &dyn Store) -> Self {
        let mut logs = HashMap::new();
        for info in store.logs() {
            let mut verifier = Verifier::after(0, ChainHash::genesis(info.id, None));
            let mut events: Vec<Recorded> = Vec::new();
            loop {
                let page = store.read(info.id, verifier.pos(), PAGE_EVENTS_MAX).await;
                let page = page.unwrap_or_else(|error| panic!("log {}: {error}", info.id));
                if page.events.is_empty() {
                    break;
                }
                for event in page.events {
                    let checked = verifier.check(&event);
                    checked.unwrap_or_else(|error| panic!("log {} is broken: {error}", info.id));
                    events.push(event);
                }
            }
            logs.insert(info.id, Log { info, events });
        }
        let history = Self { logs };
        history.check_streams();
        history
    }

    /// The account log of a user.
    pub fn account(&self, user_id: &str) -> &Log {
        let mut logs = self.logs.values();
        let account = |log: &&Log| log.info.kind == LogKind::Account && log.info.owner == user_id;
        logs.find(account)
            .unwrap_or_else(|| panic!("user {user_id} has no account log"))
    }

    /// Checks that every anchor in a user's account log is on the chain of the box log that it names, and
    /// returns how many there are.
    pub fn check_anchors(&self, user_id: &str) -> usize {
        let mut found = 0;
        for event in &self.account(user_id).events {
            if let Some(BoxEvent::LogAnchored(anchor)) = box_event(event) {
                let id = LogId::from_slice(&anchor.box_log).expect("an anchor names a log");
                let log = self.logs.get(&id).unwrap_or_else(|| panic!("no log {id}"));
                let at = log.events.iter().find(|event| event.pos == anchor.pos);
                let at = at.unwrap_or_else(|| panic!("log {id} has no position {}", anchor.pos));
                assert_eq!(
                    at.chain.0.as_slice(),
                    anchor.chain,
                    "anchor at {id}.{}",
                    anchor.pos
                );
                found += 1;
            }
        }
        found
    }

    /// Checks that sequence numbers are gapless in every stream.
    fn check_streams(&self) {
        for log in self.logs.values() {
            let mut heads: HashMap<&str, u64> = HashMap::new();
            for event in &log.events {
                let head = heads.entry(event.stream.as_str()).or_default();
                *head += 1;
                assert_eq!(
                    event.seq, *head,
                    "stream {} of log {}",
                    event.stream, log.info.id
                );
            }
        }
    }
}

/// Reads an event of a box's stream in an account log.
pub fn box_event(event: &Recorded) -> Option<BoxEvent> {
    BoxEvent::pick(payload(event)?)
}

/// Decodes an event; `None` if its payload was erased.
pub fn payload(event: &Recorded) -> Option<Payload> {
    let body = event.body.as_ref()?;
    let kind = event.kind;
    let payload = Payload::decode(event.kind, event.version, &body.payload);
    Some(payload.unwrap_or_else(|error| panic!("event of kind {kind}: {error}")))
}

/// Folds every view again and panics where one differs from the live one. The api must not run.
pub async fn check_views(data: &Path) {
    let store = open(data);
    check_views_of(&store, data).await;
    store.close().await;
}

/// As [`check_views`], for logs that are elsewhere.
pub async fn check_views_of(store: &dyn Store, data: &Path) {
    let views = Views::open_read_only(&data.join("views.db")).expect("the views can be opened");
    let report = rebuild_and_compare(store, &views)
        .await
        .expect("the views can be compared");
    assert!(
        report.is_equal(),
        "views differ from their logs: {:#?}",
        report.differences
    );
    assert!(
        report.projections.iter().any(|part| part.events > 0),
        "nothing compared: {report:?}"
    );
}

fn open(data: &Path) -> SqliteStore {
    let keys = KeyStore::open_read_only(data).expect("the keys can be opened");
    let keys: Arc<dyn Keyring> = Arc::new(keys);
    SqliteStore::open_read_only(data.join("log.db"), keys).expect("the log can be opened")
}
