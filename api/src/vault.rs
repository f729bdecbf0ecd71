//! The vault: hashes of device tokens. Secrets are never in a log, sealed or not.
//!
//! A row here is not yet a right: the account log says whether a token was issued and not revoked.
//! So a crash between the vault's write and the log's leaves a row that opens nothing.

use std::{path::Path, sync::Mutex};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use rusqlite::{Connection, OptionalExtension, params};
use zeroize::Zeroizing;

/// So that a leaked token is recognised for what it is by people and by scanners.
const PREFIX: &str = "cbx_";
const TOKEN_BYTES: usize = 32;

/// Keeps token hashes.
pub struct Vault {
    connection: Mutex<Connection>,
    key: Zeroizing<[u8; 32]>,
}

/// A token as its owner holds it.
pub struct Token(Zeroizing<String>);

/// Whose token it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenOwner {
    pub token_id: String,
    pub user_id: String,
}

#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    #[error("opening the vault")]
    Open(#[source] rusqlite::Error),
    #[error("using the vault")]
    Use(#[source] rusqlite::Error),
    #[error("the system's random source does not answer")]
    NoRandomness,
}

impl Vault {
    /// Opens the vault; `key` keys the hashes, so that the file alone tells nothing about a token.
    pub fn open(path: &Path, key: Zeroizing<[u8; 32]>) -> Result<Self, VaultError> {
        let connection = Connection::open(path).map_err(VaultError::Open)?;
        connection
            .execute_batch(
                "PRAGMA journal_mode = WAL;
                 PRAGMA synchronous = FULL;
                 PRAGMA busy_timeout = 5000;
                 CREATE TABLE IF NOT EXISTS token (
                   hash BLOB PRIMARY KEY, token_id TEXT NOT NULL UNIQUE, user_id TEXT NOT NULL
                 ) WITHOUT ROWID, STRICT;",
            )
            .map_err(VaultError::Open)?;
        Ok(Self {
            connection: Mutex::new(connection),
            key,
        })
    }

    /// Draws a token and keeps its hash.
    pub fn issue(&self, token_id: &str, user_id: &str) -> Result<Token, VaultError> {
        let mut bytes = Zeroizing::new([0; TOKEN_BYTES]);
        getrandom::fill(bytes.as_mut_slice()).map_err(|_| VaultError::NoRandomness)?;
        let token = Token(Zeroizing::new(format!(
            "{PREFIX}{}",
            BASE64.encode(bytes.as_slice())
        )));
        self.lock()
            .execute(
                "INSERT OR REPLACE INTO token (hash, token_id, user_id) VALUES (?1, ?2, ?3)",
                params![self.hash(&token.0), token_id, user_id],
            )
            .map_err(VaultError::Use)?;
        Ok(token)
    }

    /// Finds whose token this is. The look-up is by keyed hash of a 256-bit random value, so its
    /// timing tells nothing that helps to guess one.
    pub fn owner(&self, token: &str) -> Result<Option<TokenOwner>, VaultError> {
        if !token.starts_with(PREFIX) || token.len() > 100 {
            return Ok(None);
        }
        self.lock()
            .query_row(
                "SELECT token_id, user_id FROM token WHERE hash = ?1",
                params![self.hash(token)],
                |row| {
                    Ok(TokenOwner {
                        token_id: row.get(0)?,
                        user_id: row.get(1)?,
                    })
                },
            )
            .optional()
            .map_err(VaultError::Use)
    }

    /// Forgets a token. The log has been told before.
    pub fn forget(&self, token_id: &str) -> Result<(), VaultError> {
        self.lock()
            .execute("DELETE FROM token WHERE token_id = ?1", params![token_id])
            .map(|_| ())
            .map_err(VaultError::Use)
    }

    fn hash(&self, token: &str) -> Vec<u8> {
        blake3::keyed_hash(&self.key, token.as_bytes())
            .as_bytes()
            .to_vec()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Connection> {
        self.connection
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Token {
    /// Gives the token to its owner, once.
    pub fn reveal(&self) -> String {
        self.0.to_string()
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_hashes_only_and_finds_owners() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("vault.db");
        let vault = Vault::open(&path, Zeroizing::new([1; 32])).unwrap();
        let token = vault.issue("t1", "u1").unwrap().reveal();
        let owner = TokenOwner {
            token_id: "t1".into(),
            user_id: "u1".into(),
        };
        assert_eq!(vault.owner(&token).unwrap(), Some(owner));
        assert_eq!(vault.owner("cbx_no").unwrap(), None);
        assert_eq!(vault.owner(&"x".repeat(1_000_000)).unwrap(), None);
        for file in std::fs::read_dir(dir.path()).unwrap() {
            let bytes = std::fs::read(file.unwrap().path()).unwrap();
            assert!(!bytes.windows(token.len()).any(|w| w == token.as_bytes()));
        }
        vault.forget("t1").unwrap();
        assert_eq!(vault.owner(&token).unwrap(), None);
    }
}
