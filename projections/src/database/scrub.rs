//! Leaving nothing of deleted rows in the file.

use std::time::Duration;

use rusqlite::{Connection, ErrorCode};

/// Readers hold a snapshot for milliseconds; a comparison of a large view for seconds.
const ATTEMPTS: u32 = 60;
const PAUSE: Duration = Duration::from_millis(100);

/// Writes the file anew without what was deleted, and empties its write-ahead log. Blocks.
///
/// `secure_delete` zeroes cells when they are deleted, but rows that were moved between pages before may
/// have left copies in the gaps of those pages; only writing every page anew is sure of them.
pub(crate) fn scrub(connection: &Connection) -> Result<(), rusqlite::Error> {
    patiently(|| connection.execute_batch("VACUUM"))?;
    patiently(|| {
        let busy: i64 =
            connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
        if busy == 0 {
            Ok(())
        } else {
            Err(rusqlite::Error::SqliteFailure(
                rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY),
                Some("the write-ahead log is being read".to_owned()),
            ))
        }
    })
}

fn patiently(
    mut attempt: impl FnMut() -> Result<(), rusqlite::Error>,
) -> Result<(), rusqlite::Error> {
    let mut left = ATTEMPTS;
    loop {
        match attempt() {
            Err(error) if left > 0 && is_busy(&error) => {
                left -= 1;
                std::thread::sleep(PAUSE);
            }
            outcome => return outcome,
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
    )
}
