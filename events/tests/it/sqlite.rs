//! What only the SQLite store does.

mod disk;
mod failing;
mod opening;
mod sealing;
mod sharing;
mod sync;
mod torn;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use cocoonbox_events::{Keyring, NoKeys, SqliteStore, SystemClock, SystemIds, sqlite::OpenError};
use rusqlite::Connection;
use tempfile::TempDir;

struct Place {
    dir: TempDir,
    path: PathBuf,
}

fn place() -> Place {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("log.db");
    Place { dir, path }
}

fn try_open(path: &Path, keys: Arc<dyn Keyring>) -> Result<SqliteStore, OpenError> {
    SqliteStore::open(path, keys, Arc::new(SystemClock), Arc::new(SystemIds))
}

fn open(path: &Path) -> SqliteStore {
    try_open(path, Arc::new(NoKeys)).unwrap()
}

/// Every byte of the database and its companions.
fn bytes_on_disk(dir: &Path) -> Vec<u8> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with("log.db")
        {
            all.extend(std::fs::read(path).unwrap());
        }
    }
    all
}

/// Does what the trigger is there to refuse.
fn without_trigger(path: &Path, sql: &str) {
    let raw = Connection::open(path).unwrap();
    let trigger: String = raw
        .query_row(
            "SELECT sql FROM sqlite_schema WHERE name = 'event_is_final'",
            [],
            |r| r.get(0),
        )
        .unwrap();
    raw.execute_batch(&format!("DROP TRIGGER event_is_final; {sql}; {trigger}"))
        .unwrap();
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|window| window == text.as_bytes())
}
