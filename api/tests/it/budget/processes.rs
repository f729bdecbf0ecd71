//! Api processes, as far as budgets go.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use async_trait::async_trait;
use cocoonbox_api::{
    accounts::Accounts,
    budget::{Books, Prices},
    usage::Ledger,
    vault::Vault,
};
use cocoonbox_commands::budget::{Command, Key, Limit};
use cocoonbox_events::{
    Append, AppendError, Appended, Clock as _, Ids as _, LogId, LogKind, ManualClock, NewLog,
    Payload, Store, StreamName, SystemClock, SystemIds, wrapped::Wrapped,
};
use cocoonbox_installation::{Address, Installation, Purpose};
use cocoonbox_proto::log::v1::Actor;
use tempfile::TempDir;

/// 2026-11-30, 00:00 UTC.
const START_US: i64 = 1_795_996_800_000_000;

/// What processes on one host have in common.
pub(super) struct Shared {
    dir: TempDir,
    installation: Installation,
    clock: Arc<ManualClock>,
    /// So many appends find a full disk.
    pub(super) full: Arc<AtomicU64>,
}

#[derive(Clone)]
pub(super) struct Process {
    pub(super) books: Arc<Books>,
    pub(super) ledger: Arc<Ledger>,
    store: Arc<dyn Store>,
    clock: Arc<ManualClock>,
}

impl Shared {
    /// An installation in files, with the user ada.
    pub(super) async fn new() -> Self {
        let shared = Self::at("sqlite:", None).await;
        shared.process().make_ada().await;
        shared
    }

    pub(super) async fn at(url: &str, master_of: Option<&Self>) -> Self {
        let dir = TempDir::new().unwrap();
        if let Some(first) = master_of {
            let from = first.dir.path().join("master.key");
            std::fs::copy(from, dir.path().join("master.key")).unwrap();
        }
        let address = Address::parse(url, dir.path()).unwrap();
        let (clock, ids) = (Arc::new(SystemClock), Arc::new(SystemIds));
        let opening = Installation::open(&address, dir.path(), Purpose::Use, clock, ids);
        Self {
            installation: opening.await.unwrap(),
            dir,
            clock: Arc::new(ManualClock::at(START_US)),
            full: Arc::default(),
        }
    }

    /// Starts a process: it knows nothing but what is in the store.
    pub(super) fn process(&self) -> Process {
        let store: Arc<dyn Store> = Arc::new(Filling {
            inner: self.installation.store.clone(),
            full: self.full.clone(),
        });
        let key = self.installation.keys.derive("token hashes");
        let vault = Vault::new(self.installation.tokens.clone(), key);
        let ids = Arc::new(SystemIds);
        let accounts = Arc::new(Accounts::new(store.clone(), vault, ids.clone()));
        let prices = Prices::new(&std::collections::BTreeMap::new()).unwrap();
        let clock = self.clock.clone();
        let books = Books::new(accounts, store.clone(), ids, clock.clone(), prices);
        let books = Arc::new(books);
        Process {
            ledger: Arc::new(Ledger {
                books: books.clone(),
            }),
            books,
            store,
            clock,
        }
    }

    pub(super) fn clock_by(&self, us: i64) {
        self.clock.set(self.clock.now_us() + us);
    }
}

impl Process {
    pub(super) async fn make_ada(&self) {
        let new = NewLog {
            id: LogId(SystemIds.draw()),
            kind: LogKind::Account,
            owner: "ada".into(),
            parent: None,
        };
        self.store.open(new).await.unwrap();
    }

    pub(super) fn now_us(&self) -> i64 {
        self.clock.now_us()
    }

    pub(super) async fn set(&self, key: Key, limit: Limit) {
        let set = Command::Set { key, limit };
        self.books
            .execute("ada", &set, Actor::default())
            .await
            .unwrap();
    }

    pub(super) async fn read(&self, stream: &str) -> Vec<Payload> {
        let log = self.books.accounts.log_of("ada").unwrap();
        let stream = StreamName::new(stream).unwrap();
        let page = self
            .store
            .read_stream(log, &stream, 0, 1_000)
            .await
            .unwrap();
        let events = page.events.iter();
        events
            .map(|event| event.payload().unwrap().unwrap())
            .collect()
    }

    /// Returns the kinds of the budget stream's events.
    pub(super) async fn kinds(&self) -> Vec<&'static str> {
        let events = self.read("budget/ada").await;
        events.iter().map(|payload| payload.kind().name()).collect()
    }
}

/// A store on a disk that is full from time to time.
struct Filling {
    inner: Arc<dyn Store>,
    full: Arc<AtomicU64>,
}

#[async_trait]
impl Wrapped for Filling {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn append(&self, log: LogId, append: Append) -> Result<Appended, AppendError> {
        let left = self.full.load(Ordering::SeqCst);
        if left > 0 {
            self.full.store(left - 1, Ordering::SeqCst);
            return Err(AppendError::DiskFull);
        }
        self.inner.append(log, append).await
    }
}
