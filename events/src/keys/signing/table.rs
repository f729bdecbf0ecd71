//! Signing keys in `keys.db`.

use rusqlite::{Connection, OptionalExtension, Row, params};
use zeroize::Zeroizing;

use super::{IssuedKey, SigningError, SigningKeys};
use crate::{
    checkpoint::{KeyName, Signer, VerifierKey},
    keys::{KeyStore, KeyStoreError},
};

/// `sealed` is the secret half; a retired key has none.
const TABLE: &str = "CREATE TABLE IF NOT EXISTS signing_key (
  key_no INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  public_key BLOB NOT NULL UNIQUE,
  sealed BLOB,
  issued_us INTEGER NOT NULL,
  retired_us INTEGER
) STRICT;";

/// Makes the table where an older build has left none.
pub(in crate::keys) fn make_table(conn: &Connection) -> rusqlite::Result<()> {
    conn.execute_batch(TABLE)
}

impl SigningKeys for KeyStore {
    fn signers(&self) -> Result<Vec<Signer>, SigningError> {
        self.locked(|conn, master| -> Result<_, SigningError> {
            if !is_there(conn)? {
                return Ok(Vec::new());
            }
            let mut statement = conn.prepare_cached(
                "SELECT name, public_key, sealed FROM signing_key WHERE sealed IS NOT NULL
                 ORDER BY key_no DESC",
            )?;
            let mut rows = statement.query([])?;
            let mut signers = Vec::new();
            while let Some(row) = rows.next()? {
                let key = verifier(row)?;
                let sealed: Vec<u8> = row.get(2)?;
                let seed = master.open(&purpose(key.public()), &sealed)?;
                let signer = Signer::new(key.name().clone(), &seed);
                if signer.verifier() != key {
                    return Err(SigningError::Damaged);
                }
                signers.push(signer);
            }
            Ok(signers)
        })
    }

    fn all(&self) -> Result<Vec<IssuedKey>, SigningError> {
        self.locked(|conn, _| {
            if !is_there(conn)? {
                return Ok(Vec::new());
            }
            let mut statement = conn.prepare_cached(
                "SELECT name, public_key, issued_us, retired_us FROM signing_key ORDER BY key_no",
            )?;
            let mut rows = statement.query([])?;
            let mut keys = Vec::new();
            while let Some(row) = rows.next()? {
                keys.push(IssuedKey {
                    key: verifier(row)?,
                    issued_us: row.get(2)?,
                    retired_us: row.get(3)?,
                });
            }
            Ok(keys)
        })
    }

    fn rotate(&self, name: &KeyName, now_us: i64) -> Result<VerifierKey, SigningError> {
        if self.is_read_only() {
            return Err(SigningError::ReadOnly);
        }
        let mut seed = Zeroizing::new([0; 32]);
        getrandom::fill(&mut *seed).map_err(|_| SigningError::NoRandomness)?;
        let key = Signer::new(name.clone(), &seed).verifier();
        self.locked(|conn, master| {
            let sealed = master.seal(&purpose(key.public()), &seed)?;
            conn.prepare_cached(
                "INSERT INTO signing_key (name, public_key, sealed, issued_us)
                 VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute(params![name.as_str(), key.public(), sealed, now_us])?;
            Ok::<_, SigningError>(())
        })?;
        Ok(key)
    }

    fn retire(&self, key: &VerifierKey, now_us: i64) -> Result<(), SigningError> {
        if self.is_read_only() {
            return Err(SigningError::ReadOnly);
        }
        self.locked(|conn, _| {
            conn.prepare_cached(
                "UPDATE signing_key SET sealed = NULL, retired_us = ?2
                 WHERE public_key = ?1 AND sealed IS NOT NULL",
            )?
            .execute(params![key.public(), now_us])?;
            Ok::<_, SigningError>(())
        })
    }
}

/// What a seed is sealed for: it opens for its own public half only.
fn purpose(public: &[u8; 32]) -> String {
    format!("signing key {}", hex::encode(public))
}

/// A reader may look at keys of an older build, which have no such table.
fn is_there(conn: &Connection) -> rusqlite::Result<bool> {
    let found = conn
        .query_row(
            "SELECT 1 FROM sqlite_schema WHERE name = 'signing_key'",
            [],
            |_| Ok(()),
        )
        .optional()?;
    Ok(found.is_some())
}

fn verifier(row: &Row<'_>) -> Result<VerifierKey, SigningError> {
    let name: String = row.get(0)?;
    let public: Vec<u8> = row.get(1)?;
    let name = KeyName::new(name).map_err(|_| SigningError::Damaged)?;
    VerifierKey::new(name, &public).ok_or(SigningError::Damaged)
}

impl From<rusqlite::Error> for SigningError {
    fn from(source: rusqlite::Error) -> Self {
        Self::Io(Box::new(source))
    }
}

impl From<KeyStoreError> for SigningError {
    fn from(error: KeyStoreError) -> Self {
        match error {
            KeyStoreError::WrongMaster => Self::Damaged,
            KeyStoreError::NoRandomness => Self::NoRandomness,
            KeyStoreError::ReadOnly => Self::ReadOnly,
            other => Self::Io(Box::new(other)),
        }
    }
}
