//! Token hashes in `vault.db`.

use std::{
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, params};

use super::{KeptToken, TokenOwner, Tokens, TokensError};

/// One file, one connection: a look-up takes microseconds, so it is done where it is asked for.
pub struct SqliteTokens {
    connection: Mutex<Connection>,
}

impl SqliteTokens {
    /// Opens the file, making it if absent.
    pub fn open(path: &Path) -> Result<Self, TokensError> {
        let connection = Connection::open(path).map_err(TokensError::Open)?;
        connection
            .execute_batch(
                "PRAGMA journal_mode = WAL;
                 PRAGMA synchronous = FULL;
                 PRAGMA busy_timeout = 5000;
                 PRAGMA secure_delete = ON;
                 CREATE TABLE IF NOT EXISTS token (
                   hash BLOB PRIMARY KEY, token_id TEXT NOT NULL UNIQUE, user_id TEXT NOT NULL,
                   sealed BLOB
                 ) WITHOUT ROWID, STRICT;",
            )
            .map_err(TokensError::Open)?;
        // A vault that is older than shares.
        let sealed = connection.prepare("SELECT sealed FROM token").map(drop);
        if sealed.is_err() {
            connection
                .execute_batch("ALTER TABLE token ADD COLUMN sealed BLOB")
                .map_err(TokensError::Open)?;
        }
        Ok(Self {
            connection: Mutex::new(connection),
        })
    }

    /// Opens a file that is there, for reading.
    pub fn open_read_only(path: &Path) -> Result<Self, TokensError> {
        let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)
            .map_err(TokensError::Open)?;
        Ok(Self {
            connection: Mutex::new(connection),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, sql: &str, of: &str) -> Result<(), TokensError> {
        let changed = self.lock().execute(sql, [of]);
        changed.map(|_| ()).map_err(TokensError::Sqlite)
    }
}

#[async_trait]
impl Tokens for SqliteTokens {
    async fn put(&self, token: &KeptToken) -> Result<(), TokensError> {
        self.lock()
            .execute(
                "INSERT OR REPLACE INTO token (hash, token_id, user_id, sealed)
                 VALUES (?1, ?2, ?3, ?4)",
                params![
                    token.hash,
                    token.owner.token_id,
                    token.owner.user_id,
                    token.sealed
                ],
            )
            .map(|_| ())
            .map_err(TokensError::Sqlite)
    }

    async fn find(&self, hash: &[u8]) -> Result<Option<TokenOwner>, TokensError> {
        self.lock()
            .query_row(
                "SELECT token_id, user_id, hash FROM token WHERE hash = ?1",
                [hash],
                owner,
            )
            .optional()
            .map_err(TokensError::Sqlite)
    }

    async fn kept(&self, token_id: &str) -> Result<Option<KeptToken>, TokensError> {
        self.lock()
            .query_row(
                "SELECT token_id, user_id, hash, sealed FROM token WHERE token_id = ?1",
                [token_id],
                kept,
            )
            .optional()
            .map_err(TokensError::Sqlite)
    }

    async fn forget(&self, token_id: &str) -> Result<(), TokensError> {
        self.change("DELETE FROM token WHERE token_id = ?1", token_id)
    }

    async fn forget_user(&self, user_id: &str) -> Result<(), TokensError> {
        self.change("DELETE FROM token WHERE user_id = ?1", user_id)
    }

    async fn list(&self, after: &str, limit: usize) -> Result<Vec<KeptToken>, TokensError> {
        let connection = self.lock();
        let mut statement = connection
            .prepare_cached(
                "SELECT token_id, user_id, hash, sealed FROM token WHERE token_id > ?1
                 ORDER BY token_id LIMIT ?2",
            )
            .map_err(TokensError::Sqlite)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = statement.query_map(params![after, limit], kept);
        rows.and_then(Iterator::collect)
            .map_err(TokensError::Sqlite)
    }
}

fn kept(row: &Row<'_>) -> rusqlite::Result<KeptToken> {
    Ok(KeptToken {
        hash: row.get(2)?,
        owner: owner(row)?,
        sealed: row.get(3)?,
    })
}

fn owner(row: &Row<'_>) -> rusqlite::Result<TokenOwner> {
    Ok(TokenOwner {
        token_id: row.get(0)?,
        user_id: row.get(1)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_vault_from_before_shares_is_taken_up() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("vault.db");
        let old = "CREATE TABLE token (
                     hash BLOB PRIMARY KEY, token_id TEXT NOT NULL UNIQUE, user_id TEXT NOT NULL
                   ) WITHOUT ROWID, STRICT;
                   INSERT INTO token VALUES (x'01', 't1', 'ada');";
        Connection::open(&path).unwrap().execute_batch(old).unwrap();
        for _ in 0..2 {
            let tokens = SqliteTokens::open(&path).unwrap();
            let kept = tokens.kept("t1").await.unwrap().unwrap();
            assert_eq!((kept.owner.user_id.as_str(), kept.sealed), ("ada", None));
        }
    }
}
