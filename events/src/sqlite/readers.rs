//! Readers: a few read-only connections, each lent to one closure at a time.
//!
//! No statement and no read transaction outlives its closure: one pinned reader keeps the write-ahead
//! log from being reset, and it grows without end.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::{rows::RowError, schema};
use crate::store::ReadError;

/// Pages read at the same time. More only wait for the same disk, and each holds a page in memory.
const READERS_MAX: usize = 4;

pub(super) struct Readers {
    path: PathBuf,
    idle: Mutex<Vec<Connection>>,
    permits: Arc<Semaphore>,
}

impl Readers {
    pub(super) fn new(path: PathBuf) -> Self {
        let permits = Arc::new(Semaphore::new(READERS_MAX));
        Self {
            path,
            idle: Mutex::default(),
            permits,
        }
    }

    /// Runs the closure on a thread that may block, with a connection of its own.
    pub(super) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&Connection) -> Result<T, ReadError> + Send + 'static,
    ) -> Result<T, ReadError> {
        let permit = self.permits.clone().acquire_owned().await.map_err(io)?;
        let readers = self.clone();
        let reading = tokio::task::spawn_blocking(move || {
            let conn = readers.take()?;
            let result = read(&conn);
            // A connection that gave an error may be what is wrong; the next reader opens another.
            if !matches!(result, Err(ReadError::Io(_))) {
                readers.idle().push(conn);
            }
            drop(permit);
            result
        });
        reading.await.map_err(io)?
    }

    fn take(&self) -> Result<Connection, ReadError> {
        let idle = self.idle().pop();
        idle.map_or_else(|| schema::open_reader(&self.path).map_err(io), Ok)
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn io(source: impl std::error::Error + Send + Sync + 'static) -> ReadError {
    ReadError::Io(Box::new(source))
}

pub(super) fn row_error(error: RowError) -> ReadError {
    match error {
        RowError::Sqlite(source) => io(source),
        RowError::Damaged { pos, what } => ReadError::Damaged { pos, what },
    }
}
