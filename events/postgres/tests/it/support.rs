//! Databases to test on, and what the log's own tests use.

use std::sync::{Arc, OnceLock};

use cocoonbox_events::{Clock, KeyStore, Keyring, ManualClock, NoKeys, SystemIds};
use cocoonbox_events_postgres::{Database, Options, PgStore};
use tempfile::TempDir;
use tokio::{runtime::Handle, task::block_in_place};

#[path = "../../../tests/it/support.rs"]
#[expect(
    dead_code,
    unused_macros,
    unused_imports,
    reason = "the log's own stores are tested with the log"
)]
mod log;

pub(crate) use log::*;

/// The stores that the conformance suite runs against.
macro_rules! each_store {
    ($suite:ident: $($tests:tt)*) => {
        $suite!(@store postgres: $($tests)*);
        $suite!(@store postgres_sealed: $($tests)*);
    };
}
pub(crate) use each_store;

/// A database with tables and nothing in them.
pub(crate) fn fresh() -> String {
    static TEMPLATE: OnceLock<String> = OnceLock::new();
    let cluster = cocoonbox_postgres::shared();
    let template = TEMPLATE.get_or_init(|| {
        let url = cluster.database().unwrap();
        let migrated = url.clone();
        // Of its own, so that its connections are gone when it is copied.
        let migrating = std::thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            let roles = cocoonbox_events_postgres::Roles::default();
            let migrating = cocoonbox_events_postgres::migrate(&migrated, &roles);
            runtime.block_on(migrating).unwrap();
        });
        migrating.join().unwrap();
        url
    });
    cluster.copy_of(template).unwrap()
}

/// Few connections: many tests run at once on one server.
pub(crate) fn options(url: &str) -> Options {
    Options {
        writers: 2,
        readers: 2,
        ..Options::new(url)
    }
}

pub(crate) async fn store(url: &str, keys: Arc<dyn Keyring>, clock: Arc<dyn Clock>) -> PgStore {
    let database = Database::connect(&options(url)).await.unwrap();
    PgStore::open(&database, keys, clock, Arc::new(SystemIds))
        .await
        .unwrap()
}

/// A second replica, a third: as they come, unsealed, by the machine's clock.
pub(crate) async fn replica(url: &str) -> Arc<PgStore> {
    let clock = Arc::new(cocoonbox_events::SystemClock);
    Arc::new(store(url, Arc::new(NoKeys), clock).await)
}

fn fixture(keys: Arc<dyn Keyring>, dir: Option<TempDir>) -> Fixture {
    let clock = Arc::new(ManualClock::at(1_000));
    let opening = async {
        let url = fresh();
        store(&url, keys, clock.clone()).await
    };
    let store = block_in_place(|| Handle::current().block_on(opening));
    Fixture {
        store: Arc::new(store),
        clock,
        _dir: dir,
    }
}

pub(crate) fn postgres() -> Fixture {
    fixture(Arc::new(NoKeys), None)
}

pub(crate) fn postgres_sealed() -> Fixture {
    let dir = TempDir::new().unwrap();
    fixture(Arc::new(KeyStore::open(dir.path()).unwrap()), Some(dir))
}
