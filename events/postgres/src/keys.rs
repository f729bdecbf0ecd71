//! Owners' keys in the database, sealed under a `master.key` that every replica has a copy of.
//!
//! The keyring is asked without waiting, so keys that were used are kept open in memory. Every second
//! the database is asked which were destroyed; a key that another replica destroyed stops working here
//! within [`REFRESH_EVERY`] and a round trip, and within [`TRUST_MAX`] at the latest: when the database
//! does not answer for so long, nothing that is kept is used.

mod desk;
mod sealed;
mod signing;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use cocoonbox_events::{
    Keyring, LogId, LogKey, Sealing,
    keys::{KeyStoreError, Master},
};
use sqlx::{PgConnection, Row};
use zeroize::Zeroizing;

use self::desk::Desk;
use crate::{database::Database, error::DatabaseError};

/// Time between two questions for destroyed keys.
pub const REFRESH_EVERY: Duration = Duration::from_secs(1);
/// How long keys are used after the last answer to such a question.
pub const TRUST_MAX: Duration = Duration::from_secs(5);
/// Owners whose keys are kept open. Past it the cache starts afresh.
const OPEN_MAX: usize = 16_384;

/// Keys of all owners and signing keys, for every replica.
pub struct PgKeys {
    master: Arc<Master>,
    is_read_only: bool,
    cache: Arc<Cache>,
    desk: Desk,
}

#[derive(Clone)]
enum Owner {
    Key(Arc<Zeroizing<[u8; 32]>>),
    Destroyed,
    Absent,
}

struct Cache {
    open: Mutex<Open>,
}

struct Open {
    owners: HashMap<String, Owner>,
    refreshed: Instant,
}

#[derive(Debug, thiserror::Error)]
pub enum PgKeysError {
    #[error("the master key")]
    Master(#[from] KeyStoreError),
    /// A new master key for old keys would make every log unreadable without a word.
    #[error("the database has keys, but `{dir}` has no `master.key`; copy it from where it is")]
    MasterMissing { dir: PathBuf },
    #[error("the keys were opened for reading only")]
    ReadOnly,
    #[error("the system's random source does not answer")]
    NoRandomness,
    #[error("the keys' thread does not start")]
    Thread(#[source] std::io::Error),
    #[error("the database did not answer in time")]
    Silent,
    #[error("the keys in the database")]
    Database(#[from] DatabaseError),
}

impl From<sqlx::Error> for PgKeysError {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error.into())
    }
}

impl PgKeys {
    /// Opens the keys with the `master.key` in `dir`, making one when neither is there.
    pub async fn open(database: &Database, dir: impl AsRef<Path>) -> Result<Self, PgKeysError> {
        Self::with(database, dir.as_ref(), false).await
    }

    /// Opens the keys for reading. Makes nothing: an owner without a key reads as [`Sealing::Lost`].
    pub async fn open_read_only(
        database: &Database,
        dir: impl AsRef<Path>,
    ) -> Result<Self, PgKeysError> {
        Self::with(database, dir.as_ref(), true).await
    }

    async fn with(
        database: &Database,
        dir: &Path,
        is_read_only: bool,
    ) -> Result<Self, PgKeysError> {
        let select = "SELECT check_value FROM cocoonbox.master";
        let mut kept: Option<Vec<u8>> = sqlx::query_scalar(select)
            .fetch_optional(&database.control)
            .await?;
        let dir_buf = || dir.to_owned();
        let master = match Master::read(dir)? {
            Some(master) => master,
            None if kept.is_some() || is_read_only => {
                return Err(PgKeysError::MasterMissing { dir: dir_buf() });
            }
            None => Master::make(dir)?,
        };
        if kept.is_none() && !is_read_only {
            sqlx::query(
                "INSERT INTO cocoonbox.master (check_value) VALUES ($1) ON CONFLICT DO NOTHING",
            )
            .bind(&master.check_value()[..])
            .execute(&database.control)
            .await?;
            // Another replica may have been first, with another key.
            kept = sqlx::query_scalar(select)
                .fetch_optional(&database.control)
                .await?;
        }
        if kept.is_some_and(|kept| kept != master.check_value()) {
            return Err(KeyStoreError::WrongMaster.into());
        }
        let cache = Arc::new(Cache {
            open: Mutex::new(Open {
                owners: HashMap::new(),
                refreshed: Instant::now(),
            }),
        });
        let desk = Desk::start(database.connect.clone(), cache.clone());
        Ok(Self {
            master: Arc::new(master),
            is_read_only,
            cache,
            desk: desk.map_err(PgKeysError::Thread)?,
        })
    }

    /// Derives a key for one purpose from the master key. The same purpose gives the same key for as
    /// long as the master key lives.
    pub fn derive(&self, purpose: &str) -> Zeroizing<[u8; 32]> {
        self.master.derive(&format!("derived/{purpose}"))
    }

    /// Destroys an owner's key for ever: their logs read as erased from here on, on the other replicas
    /// within seconds. Fine if it is destroyed already, or was never made.
    pub async fn destroy(&self, owner: &str) -> Result<(), PgKeysError> {
        if self.is_read_only {
            return Err(PgKeysError::ReadOnly);
        }
        let (owner, cache) = (owner.to_owned(), self.cache.clone());
        self.desk
            .ask(move |conn| {
                Box::pin(async move {
                    destroy(conn, &owner).await?;
                    cache.keep(&owner, Owner::Destroyed);
                    Ok(())
                })
            })
            .await
    }

    fn owner(&self, name: &str) -> Result<Owner, PgKeysError> {
        let (owner, master) = (name.to_owned(), self.master.clone());
        let (cache, is_read_only) = (self.cache.clone(), self.is_read_only);
        self.desk.ask_and_wait(move |conn| {
            Box::pin(async move {
                let mut found = read(conn, &owner, &master).await?;
                if matches!(found, Owner::Absent) && !is_read_only {
                    make(conn, &owner, &master).await?;
                    // What is in the table counts: another replica may have been first.
                    found = read(conn, &owner, &master).await?;
                }
                // Absent may be over in a moment.
                if !matches!(found, Owner::Absent) {
                    cache.keep(&owner, found.clone());
                }
                Ok(found)
            })
        })
    }
}

impl Keyring for PgKeys {
    fn log_key(&self, log: LogId, owner: &str) -> Sealing {
        if let Some(sealing) = self.log_key_at_hand(log, owner) {
            return sealing;
        }
        // The connection may be one of before a restart; it shows only when it is used.
        let owner = self.owner(owner).or_else(|error| match error {
            PgKeysError::Database(lost) if lost.is_lost() => self.owner(owner),
            error => Err(error),
        });
        match owner {
            Ok(owner) => owner.sealing(log),
            Err(error) => {
                tracing::error!(%error, "an owner's key cannot be read");
                Sealing::Unavailable
            }
        }
    }

    fn log_key_at_hand(&self, log: LogId, owner: &str) -> Option<Sealing> {
        self.cache.get(owner).map(|owner| owner.sealing(log))
    }
}

impl Owner {
    fn sealing(&self, log: LogId) -> Sealing {
        match self {
            Self::Key(key) => Sealing::Key(LogKey::derive(key, log)),
            Self::Destroyed | Self::Absent => Sealing::Lost,
        }
    }
}

impl Cache {
    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is kept of an owner, as long as it may be trusted.
    fn get(&self, owner: &str) -> Option<Owner> {
        let open = self.lock();
        let is_trusted = open.refreshed.elapsed() < TRUST_MAX;
        open.owners.get(owner).filter(|_| is_trusted).cloned()
    }

    fn keep(&self, name: &str, owner: Owner) {
        let mut open = self.lock();
        if open.owners.len() >= OPEN_MAX {
            open.owners.clear();
        }
        open.owners.insert(name.to_owned(), owner);
    }

    /// Takes in which owners' keys were destroyed as of `asked`.
    fn refresh(&self, destroyed: Vec<String>, asked: Instant) {
        let mut open = self.lock();
        for name in destroyed {
            if let Some(owner) = open.owners.get_mut(&name) {
                *owner = Owner::Destroyed;
            }
        }
        open.refreshed = asked;
    }
}

async fn destroy(conn: &mut PgConnection, owner: &str) -> Result<(), sqlx::Error> {
    sqlx::query(
        "INSERT INTO cocoonbox.owner_key AS k (owner, sealed, destroyed_at)
         VALUES ($1, NULL, clock_timestamp())
         ON CONFLICT (owner) DO UPDATE SET sealed = NULL, destroyed_at = clock_timestamp()
           WHERE k.sealed IS NOT NULL",
    )
    .bind(owner)
    .execute(conn)
    .await
    .map(drop)
}

async fn read(conn: &mut PgConnection, owner: &str, master: &Master) -> Result<Owner, PgKeysError> {
    let row = sqlx::query("SELECT sealed FROM cocoonbox.owner_key WHERE owner = $1")
        .bind(owner)
        .fetch_optional(conn)
        .await?;
    let Some(row) = row else {
        return Ok(Owner::Absent);
    };
    let sealed: Option<&[u8]> = row.try_get(0)?;
    Ok(match sealed {
        None => Owner::Destroyed,
        Some(sealed) => Owner::Key(Arc::new(master.open(owner, sealed)?)),
    })
}

async fn make(conn: &mut PgConnection, owner: &str, master: &Master) -> Result<(), PgKeysError> {
    let mut key = Zeroizing::new([0; 32]);
    getrandom::fill(&mut *key).map_err(|_| PgKeysError::NoRandomness)?;
    let sealed = master.seal(owner, &key)?;
    sqlx::query(
        "INSERT INTO cocoonbox.owner_key (owner, sealed) VALUES ($1, $2) ON CONFLICT DO NOTHING",
    )
    .bind(owner)
    .bind(sealed)
    .execute(conn)
    .await?;
    Ok(())
}

impl std::fmt::Debug for PgKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PgKeys(***)")
    }
}
