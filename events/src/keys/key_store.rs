//! Owners' keys in a folder: `master.key` and `keys.db`.

use std::{
    collections::HashMap,
    fmt,
    fs::OpenOptions,
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rusqlite::{Connection, OpenFlags, OptionalExtension};
use zeroize::Zeroizing;

use super::{Keyring, LogKey, Sealing, master::Master};
use crate::id::LogId;

const FILE: &str = "keys.db";
/// "coky"
const APPLICATION_ID: i64 = 0x636f_6b79;
const FORMAT: i64 = 1;
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Owners whose keys are kept open in memory. Past it the cache starts afresh.
const OPEN_MAX: usize = 16_384;

/// Keys of all owners, sealed under the master key.
///
/// A destroyed key leaves a tombstone, so that it is never made again: what it sealed stays unreadable
/// instead of being mixed with what a second key seals.
pub struct KeyStore {
    master: Master,
    is_read_only: bool,
    inner: Mutex<Inner>,
}

struct Inner {
    conn: Connection,
    open: HashMap<String, Owner>,
}

#[derive(Clone)]
enum Owner {
    Key(Arc<Zeroizing<[u8; 32]>>),
    Destroyed,
    Absent,
}

#[derive(Debug, thiserror::Error)]
pub enum KeyStoreError {
    #[error("file `{path}`")]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("`{path}` has mode {mode:o}; only its owner may read it (chmod 600)")]
    Exposed { path: PathBuf, mode: u32 },
    #[error("`{path}` has {bytes} bytes, a master key has 32")]
    Malformed { path: PathBuf, bytes: u64 },
    #[error("`{dir}` has `keys.db` but no `master.key`; put the key back")]
    MasterMissing { dir: PathBuf },
    #[error("`{dir}` has no `master.key`")]
    Absent { dir: PathBuf },
    #[error("the keys were sealed under another master key, or are damaged")]
    WrongMaster,
    #[error("`{path}` is not a key database that this build knows")]
    NotOurs { path: PathBuf },
    #[error("the keys were opened for reading only")]
    ReadOnly,
    #[error("the system's random source does not answer")]
    NoRandomness,
    #[error("key database")]
    Sqlite(#[from] rusqlite::Error),
}

impl KeyStore {
    /// Opens the keys in `dir`, making the master key and the database when neither is there.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self, KeyStoreError> {
        let dir = dir.as_ref();
        let path = dir.join(FILE);
        let master = match Master::read(dir)? {
            Some(master) => master,
            // A new master key for old keys would make every log unreadable without a word.
            None if path.exists() => {
                return Err(KeyStoreError::MasterMissing {
                    dir: dir.to_owned(),
                });
            }
            None => Master::make(dir)?,
        };
        make_file(&path).map_err(|source| KeyStoreError::Io {
            path: path.clone(),
            source,
        })?;
        let conn = Connection::open_with_flags(
            &path,
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        )?;
        conn.busy_timeout(BUSY_TIMEOUT)?;
        // A rollback journal, not a write-ahead log: no copy of a destroyed key stays behind in one.
        conn.execute_batch(
            "PRAGMA journal_mode = DELETE; PRAGMA synchronous = EXTRA; PRAGMA secure_delete = ON;
             PRAGMA trusted_schema = OFF;",
        )?;
        make_tables(&conn, &master)?;
        super::signing::make_table(&conn)?;
        Self::with(conn, &path, master, false)
    }

    /// Opens the keys in `dir` for reading, while another process may use them. Makes nothing: an
    /// owner without a key reads as [`Sealing::Lost`].
    pub fn open_read_only(dir: impl AsRef<Path>) -> Result<Self, KeyStoreError> {
        let dir = dir.as_ref();
        let path = dir.join(FILE);
        let master = Master::read(dir)?.ok_or_else(|| KeyStoreError::Absent {
            dir: dir.to_owned(),
        })?;
        let conn = Connection::open_with_flags(
            &path,
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        )?;
        conn.busy_timeout(BUSY_TIMEOUT)?;
        Self::with(conn, &path, master, true)
    }

    fn with(
        conn: Connection,
        path: &Path,
        master: Master,
        is_read_only: bool,
    ) -> Result<Self, KeyStoreError> {
        let number = |sql: &str| conn.query_row(sql, [], |row| row.get::<_, i64>(0));
        let ours = number("PRAGMA application_id")? == APPLICATION_ID
            && number("PRAGMA user_version")? == FORMAT;
        if !ours {
            return Err(KeyStoreError::NotOurs {
                path: path.to_owned(),
            });
        }
        let check: Vec<u8> = conn.query_row("SELECT check_value FROM master", [], |r| r.get(0))?;
        if check != master.check_value() {
            return Err(KeyStoreError::WrongMaster);
        }
        let inner = Mutex::new(Inner {
            conn,
            open: HashMap::new(),
        });
        Ok(Self {
            master,
            is_read_only,
            inner,
        })
    }

    /// Derives a key for one purpose from the master key. The same purpose gives the same key for as
    /// long as the master key lives.
    pub fn derive(&self, purpose: &str) -> Zeroizing<[u8; 32]> {
        self.master.derive(&format!("derived/{purpose}"))
    }

    /// Destroys an owner's key for ever: their logs read as erased from here on. Fine if it is
    /// destroyed already, or was never made.
    pub fn destroy(&self, owner: &str) -> Result<(), KeyStoreError> {
        if self.is_read_only {
            return Err(KeyStoreError::ReadOnly);
        }
        let mut inner = self.lock();
        inner.conn.execute(
            "INSERT INTO owner_key (owner, sealed) VALUES (?1, NULL)
             ON CONFLICT DO UPDATE SET sealed = NULL",
            [owner],
        )?;
        inner.keep(owner, Owner::Destroyed);
        Ok(())
    }

    fn owner(&self, name: &str) -> Result<Owner, KeyStoreError> {
        let mut inner = self.lock();
        if let Some(owner) = inner.open.get(name) {
            return Ok(owner.clone());
        }
        let mut owner = self.read(&inner.conn, name)?;
        if matches!(owner, Owner::Absent) && !self.is_read_only {
            let mut key = Zeroizing::new([0; 32]);
            getrandom::fill(&mut *key).map_err(|_| KeyStoreError::NoRandomness)?;
            let sealed = self.master.seal(name, &key)?;
            inner.conn.execute(
                "INSERT INTO owner_key (owner, sealed) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
                (name, sealed),
            )?;
            // What is in the table counts: another process may have been first.
            owner = self.read(&inner.conn, name)?;
        }
        // Another process may make or destroy it; only the one that writes may remember.
        if !self.is_read_only {
            inner.keep(name, owner.clone());
        }
        Ok(owner)
    }

    fn read(&self, conn: &Connection, name: &str) -> Result<Owner, KeyStoreError> {
        let mut statement = conn.prepare_cached("SELECT sealed FROM owner_key WHERE owner = ?1")?;
        let row: Option<Option<Vec<u8>>> =
            statement.query_row([name], |row| row.get(0)).optional()?;
        Ok(match row {
            None => Owner::Absent,
            Some(None) => Owner::Destroyed,
            Some(Some(sealed)) => Owner::Key(Arc::new(self.master.open(name, &sealed)?)),
        })
    }

    pub(super) fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Lends the database, and the key that what lies in it is sealed under.
    pub(super) fn locked<T>(&self, f: impl FnOnce(&Connection, &Master) -> T) -> T {
        f(&self.lock().conn, &self.master)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Keyring for KeyStore {
    fn log_key(&self, log: LogId, owner: &str) -> Sealing {
        match self.owner(owner) {
            Ok(Owner::Key(key)) => Sealing::Key(LogKey::derive(&key, log)),
            Ok(Owner::Destroyed | Owner::Absent) => Sealing::Lost,
            Err(error) => {
                tracing::error!(%error, "an owner's key cannot be read");
                Sealing::Unavailable
            }
        }
    }
}

impl Inner {
    fn keep(&mut self, name: &str, owner: Owner) {
        if self.open.len() >= OPEN_MAX {
            self.open.clear();
        }
        self.open.insert(name.to_owned(), owner);
    }
}

impl fmt::Debug for KeyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyStore(***)")
    }
}

fn make_file(path: &Path) -> io::Result<()> {
    match OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
    {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

fn make_tables(conn: &Connection, master: &Master) -> rusqlite::Result<()> {
    let is_there: i64 = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |r| r.get(0))?;
    if is_there > 0 {
        return Ok(());
    }
    conn.execute_batch(&format!(
        "BEGIN IMMEDIATE;
         CREATE TABLE master (check_value BLOB NOT NULL) STRICT;
         CREATE TABLE owner_key (owner TEXT PRIMARY KEY, sealed BLOB) STRICT, WITHOUT ROWID;
         INSERT INTO master (check_value) VALUES (x'{}');
         PRAGMA application_id = {APPLICATION_ID};
         PRAGMA user_version = {FORMAT};
         COMMIT;",
        hex::encode(master.check_value())
    ))
}
