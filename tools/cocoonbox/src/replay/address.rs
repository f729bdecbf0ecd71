//! Stores that an address names.

use std::{path::Path, sync::Arc};

use cocoonbox_events::{Keyring, NoKeys, SystemClock, SystemIds};
use cocoonbox_events_postgres::{Database, OpenError, Options, PgKeys, PgStore, keys::PgKeysError};
use cocoonbox_installation::{Address, address::Postgres};
use cocoonbox_replay::{Origin, Source};

use crate::{context::Context, exit::Exit, failure::Failure};

/// Pages are read one after the other.
const READERS: u32 = 2;

/// Opens what an address names, for reading. The address may hold a password: it is never shown.
pub(super) async fn open(
    ctx: &Context,
    address: &str,
    key_dir: Option<&Path>,
) -> Result<Source, Failure> {
    let data = ctx.data_dir();
    let address = Address::parse(address, &data).map_err(|error| {
        let failure = Failure::local("the store's address", &error);
        Failure {
            exit: Exit::Usage,
            ..failure
        }
    })?;
    match address {
        Address::Folder(folder) => super::logs::open_data(&folder, key_dir).await,
        Address::Postgres(postgres) => database(&postgres, key_dir.unwrap_or(&data)).await,
    }
}

/// Where there is no master key, what is sealed reads as erased.
async fn database(postgres: &Postgres, key_dir: &Path) -> Result<Source, Failure> {
    let failed = |error: &dyn std::error::Error| {
        Failure::local(format!("opening {postgres}"), error)
            .advise("it needs a role that may read the tables, and `master.key` in --key-dir")
    };
    let mut options = Options::new(postgres.expose());
    options.notify = postgres.notifies;
    (options.writers, options.readers) = (1, READERS);
    options.read_only = true;
    let database = Database::connect(&options).await;
    let database = database.map_err(|error| {
        let failure = failed(&error);
        match error {
            OpenError::NotMigrated { .. } => failure.advise(
                "start an api of this version once: it brings the tables up to date, reading does not",
            ),
            OpenError::NewerTables { .. } => {
                failure.advise("read it with the program of the api that migrated it")
            }
            _ => failure,
        }
    })?;
    let keys: Arc<dyn Keyring> = match PgKeys::open_read_only(&database, key_dir).await {
        Ok(keys) => Arc::new(keys),
        Err(PgKeysError::MasterMissing { .. }) => Arc::new(NoKeys),
        Err(error) => return Err(failed(&error)),
    };
    let store = PgStore::open(&database, keys, Arc::new(SystemClock), Arc::new(SystemIds)).await;
    Ok(Source {
        store: Arc::new(store.map_err(|error| failed(&error))?),
        origin: Origin::Postgres,
        redacted: false,
    })
}
