//! `views.db`: the rows of every view and how far each projection is in each log.
//!
//! The file is disposable. A file of another format or a damaged one is replaced; a file that
//! disappears under a running process is noticed and built again.

mod checkpoint;
mod edition;
mod scrub;
mod stop;

pub use checkpoint::Checkpoint;
pub(crate) use checkpoint::Moved;
pub use edition::{Edition, EditionId};
pub(crate) use edition::{State, sweep};
pub(crate) use scrub::scrub;
pub use stop::Stop;

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rusqlite::{Connection, ErrorCode, OpenFlags, config::DbConfig};

/// `CBVW`: whose file it is.
const APPLICATION_ID: i32 = 0x4342_5657;
/// Rises with the tables here or with the codec of rows.
const FORMAT: i32 = 3;
/// Readers at one time; more wait. Reads take well under a millisecond and there are few cores.
const READERS: usize = 4;
/// For the replay tool, which may read at the same time.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) const SCHEMA: &str = "
CREATE TABLE edition (
  edition INTEGER PRIMARY KEY AUTOINCREMENT, projection TEXT NOT NULL, version INTEGER NOT NULL,
  state INTEGER NOT NULL, compare INTEGER NOT NULL) STRICT;
CREATE INDEX edition_projection ON edition (projection, state);
CREATE TABLE row (
  edition INTEGER NOT NULL, view TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL,
  PRIMARY KEY (edition, view, key)) WITHOUT ROWID, STRICT;
CREATE TABLE checkpoint (
  edition INTEGER NOT NULL, log BLOB NOT NULL, pos INTEGER NOT NULL, chain BLOB NOT NULL,
  erased_to INTEGER NOT NULL, epoch INTEGER NOT NULL,
  PRIMARY KEY (edition, log)) WITHOUT ROWID, STRICT;
CREATE TABLE stopped (
  edition INTEGER NOT NULL, log BLOB NOT NULL, pos INTEGER NOT NULL, kind INTEGER NOT NULL,
  kind_version INTEGER NOT NULL, error TEXT NOT NULL,
  PRIMARY KEY (edition, log)) WITHOUT ROWID, STRICT;
CREATE TABLE forgotten (owner TEXT PRIMARY KEY) WITHOUT ROWID, STRICT;
";

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("`{path}` belongs to something else")]
    NotViews { path: PathBuf },
    /// Written by another build; that build, or an api of this one, can make it right.
    #[error("`{path}` has format {format}, and this build reads {FORMAT}")]
    Format { path: PathBuf, format: i32 },
    #[error("`{path}` cannot be replaced")]
    Replace {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("`{path}` cannot be opened")]
    Open {
        path: PathBuf,
        #[source]
        source: rusqlite::Error,
    },
    #[error("pragma `{name}` of `{path}` is `{found}`, expected `{expected}`")]
    Pragma {
        path: PathBuf,
        name: &'static str,
        found: String,
        expected: String,
    },
}

/// The open file: one connection that writes, a few that read.
pub(crate) struct Database {
    path: PathBuf,
    /// Device and inode of the file that is open.
    identity: Option<(u64, u64)>,
    writer: Mutex<Connection>,
    readers: Mutex<Vec<Connection>>,
    returned: Condvar,
}

impl Database {
    /// Opens the file, making it if it is absent, of another format or damaged.
    pub(crate) fn open(path: &Path) -> Result<Self, OpenError> {
        match Self::open_once(path) {
            Err(OpenError::Open { source, .. }) if is_damage(&source) => {
                tracing::warn!(path = %path.display(), "views are damaged and are built again");
                remove(path)?;
                Self::open_once(path)
            }
            other => other,
        }
    }

    fn open_once(path: &Path) -> Result<Self, OpenError> {
        if !path.exists() {
            // A write-ahead log without its file would be played into the one that is made here.
            remove(path)?;
        }
        let error = |source| OpenError::Open {
            path: path.to_owned(),
            source,
        };
        let mut writer = Connection::open(path).map_err(error)?;
        let found: i32 = pragma(&writer, "application_id").map_err(error)?;
        let format: i32 = pragma(&writer, "user_version").map_err(error)?;
        let tables: i64 = writer
            .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
            .map_err(error)?;
        let is_empty = tables == 0 && found == 0;
        if !is_empty && found != APPLICATION_ID {
            return Err(OpenError::NotViews {
                path: path.to_owned(),
            });
        }
        if !is_empty && format != FORMAT {
            tracing::info!(path = %path.display(), format, "views of another format are built again");
            drop(writer);
            remove(path)?;
            return Self::open_once(path);
        }
        set_up(&writer, path)?;
        if is_empty {
            let tx = writer.transaction().map_err(error)?;
            tx.execute_batch(SCHEMA).map_err(error)?;
            tx.pragma_update(None, "application_id", APPLICATION_ID)
                .map_err(error)?;
            tx.pragma_update(None, "user_version", FORMAT)
                .map_err(error)?;
            tx.commit().map_err(error)?;
        }
        Self::with_readers(path, writer)
    }

    /// Opens a file that another process keeps. Nothing is made, replaced or written.
    pub(crate) fn open_read_only(path: &Path) -> Result<Self, OpenError> {
        let error = |source| OpenError::Open {
            path: path.to_owned(),
            source,
        };
        let writer =
            Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(error)?;
        writer
            .pragma_update(None, "query_only", true)
            .map_err(error)?;
        let found: i32 = pragma(&writer, "application_id").map_err(error)?;
        let format: i32 = pragma(&writer, "user_version").map_err(error)?;
        if found != APPLICATION_ID {
            return Err(OpenError::NotViews {
                path: path.to_owned(),
            });
        }
        if format != FORMAT {
            return Err(OpenError::Format {
                path: path.to_owned(),
                format,
            });
        }
        Self::with_readers(path, writer)
    }

    fn with_readers(path: &Path, writer: Connection) -> Result<Self, OpenError> {
        let error = |source| OpenError::Open {
            path: path.to_owned(),
            source,
        };
        let readers = (0..READERS)
            .map(|_| {
                let reader = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)
                    .map_err(error)?;
                set_up(&reader, path)?;
                reader
                    .pragma_update(None, "query_only", true)
                    .map_err(error)?;
                Ok(reader)
            })
            .collect::<Result<Vec<_>, OpenError>>()?;
        Ok(Self {
            path: path.to_owned(),
            identity: identity(path),
            writer: Mutex::new(writer),
            readers: Mutex::new(readers),
            returned: Condvar::new(),
        })
    }

    /// Whether another file, or none, lies where this one was opened.
    pub(crate) fn is_gone(&self) -> bool {
        identity(&self.path) != self.identity
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Runs `f` with the connection that writes. Blocks; not for async threads.
    pub(crate) fn write<T>(&self, f: impl FnOnce(&mut Connection) -> T) -> T {
        f(&mut lock(&self.writer))
    }

    /// Runs `f` in one read transaction. Blocks; not for async threads.
    pub(crate) fn read<T, E: From<rusqlite::Error>>(
        &self,
        f: impl FnOnce(&Connection) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut readers = lock(&self.readers);
        let reader = loop {
            match readers.pop() {
                Some(reader) => break reader,
                None => {
                    readers = self
                        .returned
                        .wait(readers)
                        .unwrap_or_else(PoisonError::into_inner);
                }
            }
        };
        drop(readers);
        let lent = Lent {
            database: self,
            reader: Some(reader),
        };
        let Some(reader) = &lent.reader else {
            unreachable!("it was put there")
        };
        let tx = reader.unchecked_transaction()?;
        f(&tx)
    }
}

/// Gives a reader back even if its user panics.
struct Lent<'a> {
    database: &'a Database,
    reader: Option<Connection>,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        if let Some(reader) = self.reader.take() {
            lock(&self.database.readers).push(reader);
            self.database.returned.notify_one();
        }
    }
}

/// A panic in one user of a lock says nothing about the connection: its transaction was rolled back.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn pragma<T: rusqlite::types::FromSql>(
    connection: &Connection,
    name: &str,
) -> Result<T, rusqlite::Error> {
    connection.pragma_query_value(None, name, |row| row.get(0))
}

/// Sets every pragma and reads it back.
fn set_up(connection: &Connection, path: &Path) -> Result<(), OpenError> {
    let error = |source| OpenError::Open {
        path: path.to_owned(),
        source,
    };
    connection.busy_timeout(BUSY_TIMEOUT).map_err(error)?;
    connection.set_prepared_statement_cache_capacity(32);
    // Otherwise statements with a bound `LIMIT` are parsed and planned at each use.
    let keeps_plans = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true);
    keeps_plans.map_err(error)?;
    // NORMAL: a view that loses its last second catches up from the log.
    // secure_delete: rows hold in the clear what the log holds sealed.
    let wanted: [(&'static str, &str, &str); 9] = [
        ("page_size", "4096", "4096"),
        ("journal_mode", "WAL", "wal"),
        ("synchronous", "NORMAL", "1"),
        ("wal_autocheckpoint", "4000", "4000"),
        ("journal_size_limit", "67108864", "67108864"),
        ("cache_size", "-65536", "-65536"),
        ("foreign_keys", "OFF", "0"),
        ("trusted_schema", "OFF", "0"),
        ("secure_delete", "ON", "1"),
    ];
    for (name, value, expected) in wanted {
        connection
            .execute_batch(&format!("PRAGMA {name} = {value}"))
            .map_err(error)?;
        let found: rusqlite::types::Value = pragma(connection, name).map_err(error)?;
        let found = match found {
            rusqlite::types::Value::Integer(number) => number.to_string(),
            rusqlite::types::Value::Text(text) => text,
            other => format!("{other:?}"),
        };
        if found != expected {
            let path = path.to_owned();
            return Err(OpenError::Pragma {
                path,
                name,
                found,
                expected: expected.to_owned(),
            });
        }
    }
    // The kernel may give less; reading works all the same.
    connection
        .execute_batch("PRAGMA mmap_size = 268435456")
        .map_err(error)
}

fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt)
    )
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path)
        .ok()
        .map(|found| (found.dev(), found.ino()))
}

fn remove(path: &Path) -> Result<(), OpenError> {
    for suffix in ["", "-wal", "-shm"] {
        let mut file = path.as_os_str().to_owned();
        file.push(suffix);
        match fs::remove_file(&file) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(OpenError::Replace {
                    path: file.into(),
                    source,
                });
            }
            _ => {}
        }
    }
    Ok(())
}
