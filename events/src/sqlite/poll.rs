//! Doorbells for a file that another process writes.

use std::{
    path::PathBuf,
    sync::{Arc, mpsc},
    time::Duration,
};

use super::{OpenError, batch::State, directory::Directory, rows::RowError, schema};

/// A look costs 5 microseconds; a person does not notice the delay.
const POLL: Duration = Duration::from_millis(50);

/// Looks for changes until it is dropped.
pub(super) struct Poll {
    _stop: mpsc::Sender<()>,
}

impl Poll {
    /// Reads the directory and starts the thread that keeps it up to date.
    pub(super) fn start(path: PathBuf, directory: Arc<Directory>) -> Result<Self, OpenError> {
        let conn = schema::open_reader(&path)?;
        let version = |conn: &rusqlite::Connection| {
            conn.query_row("PRAGMA data_version", [], |row| row.get::<_, i64>(0))
        };
        // Before the directory: a change in between is then seen by the next look.
        let mut seen = version(&conn).map_err(|source| schema::refuse(&path, source))?;
        State::read(&conn, &directory).map_err(|error| OpenError::row(&path, error))?;
        let (stop, stopped) = mpsc::channel::<()>();
        std::thread::Builder::new()
            .name("log-poll".into())
            .spawn({
                let path = path.clone();
                move || {
                    let mut is_failing = false;
                    while stopped.recv_timeout(POLL) == Err(mpsc::RecvTimeoutError::Timeout) {
                        let looked = version(&conn).map_err(RowError::Sqlite).and_then(|now| {
                            if now != seen {
                                State::read(&conn, &directory)?;
                            }
                            Ok(now)
                        });
                        match looked {
                            Ok(now) => (seen, is_failing) = (now, false),
                            Err(error) if !is_failing => {
                                // Once, not twenty times a second.
                                is_failing = true;
                                tracing::warn!(path = %path.display(), ?error, "log not polled");
                            }
                            Err(_) => {}
                        }
                    }
                }
            })
            .map_err(|source| OpenError::Io { path, source })?;
        Ok(Self { _stop: stop })
    }
}
