//! Signing keys, as every replica sees them.

use cocoonbox_events::{
    SigningKeys,
    checkpoint::{KeyName, Signer, VerifierKey},
    keys::{IssuedKey, KeyStoreError, SigningError},
};
use sqlx::{Row, postgres::PgRow};
use zeroize::Zeroizing;

use super::{PgKeys, PgKeysError};

impl SigningKeys for PgKeys {
    fn signers(&self) -> Result<Vec<Signer>, SigningError> {
        let rows = self.desk.ask_and_wait(|conn| {
            Box::pin(async move {
                let select = "SELECT name, public_key, sealed FROM cocoonbox.signing_key
                              WHERE sealed IS NOT NULL ORDER BY key_no DESC";
                Ok(sqlx::query(select).fetch_all(conn).await?)
            })
        })?;
        let open = |row: &PgRow| {
            let key = verifier(row)?;
            let sealed: &[u8] = row.try_get(2).map_err(io)?;
            let seed = self.master.open(&purpose(key.public()), sealed)?;
            let signer = Signer::new(key.name().clone(), &seed);
            let is_it = signer.verifier() == key;
            is_it.then_some(signer).ok_or(SigningError::Damaged)
        };
        rows.iter().map(open).collect()
    }

    fn all(&self) -> Result<Vec<IssuedKey>, SigningError> {
        let rows = self.desk.ask_and_wait(|conn| {
            Box::pin(async move {
                let select = "SELECT name, public_key, issued_us, retired_us
                              FROM cocoonbox.signing_key ORDER BY key_no";
                Ok(sqlx::query(select).fetch_all(conn).await?)
            })
        })?;
        let read = |row: &PgRow| {
            Ok(IssuedKey {
                key: verifier(row)?,
                issued_us: row.try_get(2).map_err(io)?,
                retired_us: row.try_get(3).map_err(io)?,
            })
        };
        rows.iter().map(read).collect()
    }

    fn rotate(&self, name: &KeyName, now_us: i64) -> Result<VerifierKey, SigningError> {
        if self.is_read_only {
            return Err(SigningError::ReadOnly);
        }
        let mut seed = Zeroizing::new([0; 32]);
        getrandom::fill(&mut *seed).map_err(|_| SigningError::NoRandomness)?;
        let key = Signer::new(name.clone(), &seed).verifier();
        let sealed = self.master.seal(&purpose(key.public()), &seed)?;
        let (name, public) = (name.as_str().to_owned(), key.public().to_vec());
        self.desk.ask_and_wait(move |conn| {
            Box::pin(async move {
                sqlx::query(
                    "INSERT INTO cocoonbox.signing_key (name, public_key, sealed, issued_us)
                     VALUES ($1, $2, $3, $4)",
                )
                .bind(name)
                .bind(public)
                .bind(sealed)
                .bind(now_us)
                .execute(conn)
                .await?;
                Ok(())
            })
        })?;
        Ok(key)
    }

    fn retire(&self, key: &VerifierKey, now_us: i64) -> Result<(), SigningError> {
        if self.is_read_only {
            return Err(SigningError::ReadOnly);
        }
        let public = key.public().to_vec();
        self.desk.ask_and_wait(move |conn| {
            Box::pin(async move {
                sqlx::query(
                    "UPDATE cocoonbox.signing_key SET sealed = NULL, retired_us = $2
                     WHERE public_key = $1 AND sealed IS NOT NULL",
                )
                .bind(public)
                .bind(now_us)
                .execute(conn)
                .await?;
                Ok(())
            })
        })?;
        Ok(())
    }
}

/// What a seed is sealed for, here as in a folder: it opens for its own public half only.
fn purpose(public: &[u8; 32]) -> String {
    format!("signing key {}", hex::encode(public))
}

fn verifier(row: &PgRow) -> Result<VerifierKey, SigningError> {
    let name: String = row.try_get(0).map_err(io)?;
    let public: &[u8] = row.try_get(1).map_err(io)?;
    let name = KeyName::new(name).map_err(|_| SigningError::Damaged)?;
    VerifierKey::new(name, public).ok_or(SigningError::Damaged)
}

fn io(error: sqlx::Error) -> SigningError {
    SigningError::Io(Box::new(error))
}

impl From<PgKeysError> for SigningError {
    fn from(error: PgKeysError) -> Self {
        match error {
            PgKeysError::Master(KeyStoreError::WrongMaster) => Self::Damaged,
            PgKeysError::ReadOnly => Self::ReadOnly,
            PgKeysError::NoRandomness => Self::NoRandomness,
            other => Self::Io(Box::new(other)),
        }
    }
}
