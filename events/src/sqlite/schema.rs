//! The file: its tables, its pragmas, and the checks before it is trusted.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{Connection, ErrorCode, OpenFlags, config::DbConfig};

use super::OpenError;

/// "cocn": says whose file this is, to us and to `file(1)`.
const APPLICATION_ID: i64 = 0x636f_636e;
/// Raised with every change of the tables that an older build would not understand.
pub(super) const FORMAT: i64 = 2;
/// Only the command line and the replay tool ever wait: there is one writer, and it never holds long.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
const MODE: u32 = 0o600;
/// A child of this process that is on its way into its program holds our locks, those that were just let go
/// of too, for some milliseconds.
const LOCK_TRIES: u32 = 50;
const LOCK_STEP: Duration = Duration::from_millis(5);

const TABLES: &str = "
CREATE TABLE log (
  log_no INTEGER PRIMARY KEY,
  log_id BLOB NOT NULL UNIQUE,
  kind INTEGER NOT NULL,
  owner TEXT NOT NULL,
  parent_log BLOB, parent_pos INTEGER, parent_chain BLOB,
  key_check BLOB,
  format INTEGER NOT NULL,
  created_us INTEGER NOT NULL,
  moved_to BLOB
) STRICT;
CREATE TABLE stream (
  stream_id INTEGER PRIMARY KEY,
  log_no INTEGER NOT NULL REFERENCES log,
  name TEXT NOT NULL,
  head_seq INTEGER NOT NULL,
  head_pos INTEGER NOT NULL,
  UNIQUE (log_no, name)
) STRICT;
CREATE TABLE event (
  event_no INTEGER PRIMARY KEY,
  stream_id INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  version INTEGER NOT NULL,
  recorded_us INTEGER NOT NULL,
  header BLOB NOT NULL,
  body BLOB,
  payload_hash BLOB NOT NULL,
  chain BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX event_stream ON event (stream_id, seq);
CREATE TABLE command (
  log_no INTEGER NOT NULL,
  command_id BLOB NOT NULL,
  digest BLOB,
  first_pos INTEGER NOT NULL,
  last_pos INTEGER NOT NULL,
  recorded_us INTEGER NOT NULL,
  PRIMARY KEY (log_no, command_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE checkpoint (
  log_no INTEGER NOT NULL REFERENCES log,
  size INTEGER NOT NULL,
  chain BLOB NOT NULL,
  note TEXT NOT NULL,
  PRIMARY KEY (log_no, size)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER event_is_kept BEFORE DELETE ON event BEGIN
  SELECT RAISE(ABORT, 'an event is never deleted');
END;
CREATE TRIGGER event_is_final BEFORE UPDATE ON event WHEN NOT (
  new.body IS NULL
  AND new.event_no IS old.event_no AND new.stream_id IS old.stream_id AND new.seq IS old.seq
  AND new.kind IS old.kind AND new.version IS old.version
  AND new.recorded_us IS old.recorded_us AND new.header IS old.header
  AND new.payload_hash IS old.payload_hash AND new.chain IS old.chain
) BEGIN
  SELECT RAISE(ABORT, 'an event is never changed, only its body erased');
END;
";

/// Brings format 1 up: it had neither rewinds nor checkpoints.
const FROM_FORMAT_1: &str = "
ALTER TABLE log ADD COLUMN moved_to BLOB;
CREATE TABLE checkpoint (
  log_no INTEGER NOT NULL REFERENCES log,
  size INTEGER NOT NULL,
  chain BLOB NOT NULL,
  note TEXT NOT NULL,
  PRIMARY KEY (log_no, size)
) STRICT, WITHOUT ROWID;
";

/// What `sqlite_schema` must name; anything less is a file that was half made or meddled with.
const OBJECTS: &[&str] = &[
    "log",
    "stream",
    "event",
    "event_stream",
    "command",
    "checkpoint",
    "event_is_kept",
    "event_is_final",
];

/// `(name, value that is set, value that must be read back)` on the write connection.
const PRAGMAS: &[(&str, &str, &str)] = &[
    // Readers never block the writer.
    ("journal_mode", "WAL", "wal"),
    // An acked event is on disk. NORMAL would lose the tail and hand its positions out again.
    ("synchronous", "FULL", "2"),
    // 32 MB instead of 4: fewer stalls.
    ("wal_autocheckpoint", "4000", "4000"),
    // Gives the disk back after a spike; the default is never.
    ("journal_size_limit", "67108864", "67108864"),
    ("cache_size", "-32768", "-32768"),
    // Measured without gain, and an I/O error in a map is a signal.
    ("mmap_size", "0", "0"),
    ("foreign_keys", "ON", "1"),
    ("trusted_schema", "OFF", "0"),
    // An erased payload is overwritten, not just unlinked.
    ("secure_delete", "ON", "1"),
];

/// Held for as long as the write connection: two writers would hand out positions twice.
#[derive(Debug)]
pub(super) struct WriterLock {
    _file: File,
}

impl WriterLock {
    /// Takes the lock of the database at `path`, which is the lock of the file `<path>.lock`.
    pub(super) fn take(path: &Path) -> Result<Self, OpenError> {
        let mut name = path.as_os_str().to_owned();
        name.push(".lock");
        let io = |source| OpenError::io(PathBuf::from(&name), source);
        let file = OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(false)
            .mode(MODE)
            .open(&name)
            .map_err(io)?;
        let mut left = LOCK_TRIES;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self { _file: file }),
                Err(std::fs::TryLockError::WouldBlock) if left > 0 => {
                    left -= 1;
                    std::thread::sleep(LOCK_STEP);
                }
                Err(std::fs::TryLockError::WouldBlock) => {
                    let path = path.to_owned();
                    return Err(OpenError::Locked { path });
                }
                Err(std::fs::TryLockError::Error(source)) => return Err(io(source)),
            }
        }
    }
}

/// Opens the write connection, making the file when there is none.
pub(super) fn open_writer(path: &Path) -> Result<Connection, OpenError> {
    make_file(path).map_err(|source| OpenError::io(path.to_owned(), source))?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags).map_err(|e| refuse(path, e))?;
    conn.busy_timeout(BUSY_TIMEOUT)
        .map_err(|e| refuse(path, e))?;
    // Before anything is written: is it ours at all?
    let found = check_ours(path, &conn, true)?;
    let fresh = found == Found::Fresh;
    if fresh {
        conn.pragma_update(None, "page_size", 8192)
            .map_err(|e| refuse(path, e))?;
    }
    set_pragmas(path, &conn)?;
    if fresh {
        make_tables(&conn).map_err(|e| refuse(path, e))?;
        tracing::info!(path = %path.display(), "log database created");
    }
    if found == Found::Older {
        raise(&conn).map_err(|e| refuse(path, e))?;
        tracing::info!(path = %path.display(), format = FORMAT, "log database brought up");
    }
    check_objects(path, &conn)?;
    Ok(conn)
}

/// Opens a connection that can only read. Works while another process writes, and on a copy in a
/// folder that cannot be written to.
pub(super) fn open_reader(path: &Path) -> Result<Connection, OpenError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = |conn: Connection| {
        conn.busy_timeout(BUSY_TIMEOUT)?;
        keep_plans(&conn)?;
        conn.pragma_update(None, "trusted_schema", "OFF")?;
        conn.pragma_update(None, "query_only", "ON")?;
        // The first read; without write access to the folder it is what cannot open the index file.
        conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| {
            row.get::<_, i64>(0)
        })?;
        Ok(conn)
    };
    let conn = match Connection::open_with_flags(path, flags).and_then(open) {
        Ok(conn) => conn,
        Err(error) if is_unopenable(&error) && path.exists() => {
            if std::fs::metadata(wal(path)).is_ok_and(|wal| wal.len() > 0) {
                return Err(OpenError::WalUnreadable {
                    path: path.to_owned(),
                });
            }
            let uri = format!("file:{}?immutable=1", percent_encode(path));
            Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI)
                .and_then(open)
                .map_err(|e| refuse(path, e))?
        }
        Err(error) => return Err(refuse(path, error)),
    };
    if check_ours(path, &conn, false)? == Found::Older {
        return Err(OpenError::OlderFormat {
            path: path.to_owned(),
            known: FORMAT,
        });
    }
    check_objects(path, &conn)?;
    Ok(conn)
}

/// Puts on disk what can be read, before anybody is told of it: a process that was killed, or whose
/// sync failed, leaves commits in the write-ahead log that only the page cache has. Copying them into
/// the file writes them afresh, which a repeated sync would not. `false`: somebody is in the way.
pub(super) fn settle(conn: &Connection) -> rusqlite::Result<bool> {
    let (busy, frames, moved) = conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
        Ok((
            row.get::<_, i64>(0)?,
            row.get::<_, i64>(1)?,
            row.get::<_, i64>(2)?,
        ))
    })?;
    Ok(busy == 0 && frames == moved)
}

/// Settles a file that is opened for the first time. Neither a reader that pins the write-ahead log
/// nor a full disk keeps it closed: syncing is enough for what no sync has failed on in this process.
pub(super) fn settle_first(path: &Path, conn: &Connection) -> Result<(), OpenError> {
    match settle(conn) {
        Ok(true) => return Ok(()),
        Ok(false) => {}
        Err(error) if is_full(&error) => {}
        Err(error) => return Err(refuse(path, error)),
    }
    let wal = wal(path);
    tracing::warn!("write-ahead log not moved into the file at start");
    match File::open(&wal).and_then(|file| file.sync_all()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(OpenError::io(wal, error)),
        _ => Ok(()),
    }
}

fn wal(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

/// Whether a failed write says that there is no room.
pub(super) fn is_full(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DiskFull)
}

fn is_unopenable(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly)
    )
}

fn percent_encode(path: &Path) -> String {
    use std::{fmt::Write, os::unix::ffi::OsStrExt};
    let mut text = String::new();
    for byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/._-".contains(byte) {
            text.push(char::from(*byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(text, "%{byte:02x}");
        }
    }
    text
}

/// Creates the file with its mode before `SQLite` does it with the umask's. Its companions inherit it.
fn make_file(path: &Path) -> io::Result<()> {
    match OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(MODE)
        .open(path)
    {
        Ok(file) => {
            file.sync_all()?;
            let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
            File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let mut permissions = std::fs::metadata(path)?.permissions();
            if permissions.mode() & 0o077 != 0 {
                permissions.set_mode(MODE);
                std::fs::set_permissions(path, permissions)?;
            }
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// What a file is to us.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    /// Empty, still to be made.
    Fresh,
    /// Of a format that this build brings up.
    Older,
    Current,
}

/// Checks whose file this is.
fn check_ours(path: &Path, conn: &Connection, may_be_fresh: bool) -> Result<Found, OpenError> {
    let number = |sql: &str| {
        conn.query_row(sql, [], |row| row.get::<_, i64>(0))
            .map_err(|e| refuse(path, e))
    };
    let application = number("PRAGMA application_id")?;
    let format = number("PRAGMA user_version")?;
    let objects = number("SELECT count(*) FROM sqlite_schema")?;
    if may_be_fresh && application == 0 && format == 0 && objects == 0 {
        return Ok(Found::Fresh);
    }
    if application != APPLICATION_ID {
        return Err(OpenError::NotOurs {
            path: path.to_owned(),
        });
    }
    if format > FORMAT {
        return Err(OpenError::NewerFormat {
            path: path.to_owned(),
            found: format,
            known: FORMAT,
        });
    }
    if format == 1 {
        return Ok(Found::Older);
    }
    if format != FORMAT {
        return Err(OpenError::Corrupt {
            path: path.to_owned(),
            what: format!("format {format} was never written"),
        });
    }
    Ok(Found::Current)
}

/// Keeps a statement's plan as it was prepared. Without it SQLite (from 3.47 on) looks at the number behind `LIMIT`, and
/// parses and plans every such statement again whenever another is bound: a third of what a reader cost.
fn keep_plans(conn: &Connection) -> rusqlite::Result<()> {
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)
        .map(drop)
}

fn set_pragmas(path: &Path, conn: &Connection) -> Result<(), OpenError> {
    keep_plans(conn).map_err(|e| refuse(path, e))?;
    for (name, value, _) in PRAGMAS {
        // Some of them answer with a row, some do not.
        let sql = format!("PRAGMA {name} = {value}");
        let mut statement = conn.prepare(&sql).map_err(|e| refuse(path, e))?;
        let mut rows = statement.query([]).map_err(|e| refuse(path, e))?;
        while rows.next().map_err(|e| refuse(path, e))?.is_some() {}
    }
    for (name, _, wanted) in PRAGMAS {
        let found = conn
            .pragma_query_value(None, name, |row| {
                use rusqlite::types::ValueRef;
                Ok(match row.get_ref(0)? {
                    ValueRef::Integer(number) => number.to_string(),
                    other => other.as_str().unwrap_or_default().to_owned(),
                })
            })
            .map_err(|e| refuse(path, e))?;
        if found != *wanted {
            return Err(OpenError::Pragma {
                name,
                found,
                wanted,
            });
        }
    }
    Ok(())
}

/// Makes everything in one transaction: a file is ours and whole, or still empty.
fn make_tables(conn: &Connection) -> rusqlite::Result<()> {
    conn.execute_batch(&format!(
        "BEGIN IMMEDIATE; {TABLES}
         PRAGMA application_id = {APPLICATION_ID};
         PRAGMA user_version = {FORMAT};
         COMMIT;"
    ))
}

/// Brings an older file up in one transaction.
fn raise(conn: &Connection) -> rusqlite::Result<()> {
    conn.execute_batch(&format!(
        "BEGIN IMMEDIATE; {FROM_FORMAT_1} PRAGMA user_version = {FORMAT}; COMMIT;"
    ))
}

fn check_objects(path: &Path, conn: &Connection) -> Result<(), OpenError> {
    let mut statement = conn
        .prepare("SELECT count(*) FROM sqlite_schema WHERE name = ?1")
        .map_err(|e| refuse(path, e))?;
    for name in OBJECTS {
        let found: i64 = statement
            .query_row([name], |row| row.get(0))
            .map_err(|e| refuse(path, e))?;
        if found != 1 {
            return Err(OpenError::Corrupt {
                path: path.to_owned(),
                what: format!("`{name}` is missing"),
            });
        }
    }
    Ok(())
}

pub(super) fn refuse(path: &Path, source: rusqlite::Error) -> OpenError {
    let path = path.to_owned();
    match source.sqlite_error_code() {
        Some(ErrorCode::ReadOnly) => OpenError::ReadOnly { path },
        Some(ErrorCode::NotADatabase) => OpenError::NotOurs { path },
        Some(ErrorCode::DatabaseCorrupt) => OpenError::Corrupt {
            path,
            what: source.to_string(),
        },
        _ => OpenError::Sqlite { path, source },
    }
}
