//! An installation, opened.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use cocoonbox_events::{
    Clock, Ids, SigningKeys, SqliteStore, Store, keys::KeyStoreError,
    sqlite::OpenError as SqliteError,
};
use cocoonbox_events_postgres::{Database, OpenError as DatabaseError, PgStore, keys::PgKeysError};

use crate::{Address, Keys, Leases, Pulse, Tokens, TokensError, database, folder};

/// Everything that outlives a process and is not a box.
pub struct Installation {
    pub store: Arc<dyn Store>,
    pub keys: Arc<dyn Keys>,
    /// The keys that sign checkpoints.
    pub signing: Arc<dyn SigningKeys>,
    pub tokens: Arc<dyn Tokens>,
    pub leases: Arc<dyn Leases>,
    pub(crate) opened: Opened,
}

/// What is to be closed.
pub(crate) enum Opened {
    Folder(Arc<SqliteStore>),
    Database {
        store: Arc<PgStore>,
        database: Box<Database>,
    },
}

/// What an installation is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Use,
    /// To be written by [`crate::copy`] only, which also writes logs whose owner's key was destroyed.
    Copy,
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("making `{path}`")]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("there is no installation in `{folder}`")]
    Absent { folder: PathBuf },
    #[error("opening the keys")]
    Keys(#[source] KeyStoreError),
    #[error("opening the log")]
    Log(#[source] SqliteError),
    #[error(transparent)]
    Tokens(#[from] TokensError),
    #[error("the store `{address}`")]
    Database {
        address: String,
        #[source]
        source: DatabaseError,
    },
    /// All processes of an installation have the same master key.
    #[error("the keys of the database and `{}`", data.join("master.key").display())]
    DatabaseKeys {
        data: PathBuf,
        #[source]
        source: PgKeysError,
    },
}

impl OpenError {
    /// What to do about it, where that is known.
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Self::Database { source, .. } => match source {
                DatabaseError::Connect(_) => {
                    Some("is the server up, and are host, role, password and database right?")
                }
                DatabaseError::NotMigrated { .. } => Some(
                    "start once with COCOONBOX_STORE_OWNER=postgres://OWNER:PASSWORD@HOST/DATABASE, \
                     the role that owns the tables",
                ),
                DatabaseError::NewerTables { .. } => {
                    Some("a newer build has migrated the tables; use that build")
                }
                _ => None,
            },
            Self::DatabaseKeys { .. } => Some(
                "copy `master.key` from the data folder of the process that has used this database first",
            ),
            Self::Log(SqliteError::Locked { .. }) => {
                Some("`cocoonbox down` stops the api that has it open")
            }
            _ => None,
        }
    }
}

impl Installation {
    /// Opens it for writing, making what is absent. Waits some seconds for a process before us that
    /// still has the folder. `data` is where the master key of a database lies.
    pub async fn open(
        address: &Address,
        data: &Path,
        purpose: Purpose,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
    ) -> Result<Self, OpenError> {
        match address {
            Address::Folder(folder) => folder::open(folder, purpose, clock, ids).await,
            Address::Postgres(postgres) => {
                database::open(postgres, data, purpose, clock, ids).await
            }
        }
    }

    /// Looks at how well the store does.
    pub fn pulse(&self) -> Pulse {
        match &self.opened {
            Opened::Folder(_) => Pulse::default(),
            Opened::Database { store, .. } => Pulse(Some(store.clone())),
        }
    }

    /// Finishes what was begun and closes.
    pub async fn close(&self) {
        match &self.opened {
            Opened::Folder(store) => store.close().await,
            Opened::Database { store, database } => {
                store.close().await;
                database.close().await;
            }
        }
    }
}

impl fmt::Debug for Installation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Installation").finish_non_exhaustive()
    }
}
