//! An installation in a folder: `log.db`, `keys.db`, `vault.db`, `master.key`.

use std::{
    fs::{OpenOptions, Permissions},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
    sync::Arc,
    time::Duration,
};

use cocoonbox_events::{
    Clock, Ids, KeyStore, Keyring, SqliteStore, sqlite::OpenError as SqliteError,
};

use crate::{
    Installation, OpenError,
    installation::{Opened, Purpose},
    keys::Copying,
    leases::EmbeddedLeases,
    tokens::SqliteTokens,
};

const LOG: &str = "log.db";
const VAULT: &str = "vault.db";
/// The process before us may need a moment to end. One that was killed may have children on their way into
/// a program, which hold its locks until they are there.
const LOCK_WAIT: Duration = Duration::from_secs(10);
const LOCK_STEP: Duration = Duration::from_millis(20);

pub(crate) async fn open(
    folder: &Path,
    purpose: Purpose,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
) -> Result<Installation, OpenError> {
    let failed = |source| OpenError::Io {
        path: folder.into(),
        source,
    };
    std::fs::create_dir_all(folder).map_err(failed)?;
    private_file(&folder.join(VAULT))?;
    let keys = Arc::new(KeyStore::open(folder).map_err(OpenError::Keys)?);
    let ring: Arc<dyn Keyring> = match purpose {
        Purpose::Use => keys.clone(),
        Purpose::Copy => Arc::new(Copying(keys.clone())),
    };
    let open = || {
        let (ring, clock, ids) = (ring.clone(), clock.clone(), ids.clone());
        SqliteStore::open(folder.join(LOG), ring, clock, ids)
    };
    let store = Arc::new(unlocked(open).await.map_err(OpenError::Log)?);
    let tokens = SqliteTokens::open(&folder.join(VAULT))?;
    Ok(Installation {
        store: store.clone(),
        signing: keys.clone(),
        keys,
        tokens: Arc::new(tokens),
        leases: Arc::new(EmbeddedLeases::default()),
        opened: Opened::Folder(store),
    })
}

/// Opens the log once nobody else has it open.
async fn unlocked(
    open: impl Fn() -> Result<SqliteStore, SqliteError>,
) -> Result<SqliteStore, SqliteError> {
    let deadline = tokio::time::Instant::now() + LOCK_WAIT;
    loop {
        match open() {
            Err(SqliteError::Locked { .. }) if tokio::time::Instant::now() < deadline => {
                tokio::time::sleep(LOCK_STEP).await;
            }
            outcome => return outcome,
        }
    }
}

/// Makes a file that only we may read, if it is absent. SQLite gives its side files the same mode.
fn private_file(path: &Path) -> Result<(), OpenError> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
        .and_then(|file| file.set_permissions(Permissions::from_mode(0o600)))
        .map_err(|source| OpenError::Io {
            path: path.into(),
            source,
        })
}
