//! An installation in a PostgreSQL database, shared by any number of processes.

use std::{path::Path, sync::Arc};

use cocoonbox_events::{Clock, Ids, Keyring};
use cocoonbox_events_postgres::{Database, Options, PgKeys, PgStore};

use crate::{
    Installation, OpenError,
    address::Postgres,
    installation::{Opened, Purpose},
    keys::Copying,
    leases::PostgresLeases,
    tokens::PostgresTokens,
};

pub(crate) async fn open(
    address: &Postgres,
    data: &Path,
    purpose: Purpose,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
) -> Result<Installation, OpenError> {
    let failed = |source| OpenError::Database {
        address: address.to_string(),
        source,
    };
    let mut options = Options::new(address.expose());
    options.notify = address.notifies;
    options.owner_url = address.owner().cloned();
    let database = Database::connect(&options).await.map_err(failed)?;
    std::fs::create_dir_all(data).map_err(|source| OpenError::Io {
        path: data.into(),
        source,
    })?;
    let keys = PgKeys::open(&database, data).await;
    let keys = Arc::new(keys.map_err(|source| OpenError::DatabaseKeys {
        data: data.into(),
        source,
    })?);
    let ring: Arc<dyn Keyring> = match purpose {
        Purpose::Use => keys.clone(),
        Purpose::Copy => Arc::new(Copying(keys.clone())),
    };
    let store = PgStore::open(&database, ring, clock, ids).await;
    let store = Arc::new(store.map_err(failed)?);
    Ok(Installation {
        store: store.clone(),
        signing: keys.clone(),
        keys,
        tokens: Arc::new(PostgresTokens::new(&database)),
        leases: Arc::new(PostgresLeases::new(&database)),
        opened: Opened::Database {
            store,
            database: Box::new(database),
        },
    })
}
