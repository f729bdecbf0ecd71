//! Keys as they lie: sealed under the master key. What moves an installation carries them over unopened.

use cocoonbox_events::keys::{SealedOwner, SealedSigner};
use sqlx::{Row, postgres::PgRow};

use super::{PgKeys, PgKeysError};

impl PgKeys {
    /// Returns the owners behind `after` in byte order, at most `limit`. The first of all may be the one
    /// without a name: the owner of the system log.
    pub async fn sealed_owners(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<SealedOwner>, PgKeysError> {
        let (after, limit) = (
            after.map(str::to_owned),
            i64::try_from(limit).unwrap_or(i64::MAX),
        );
        self.desk
            .ask(move |conn| {
                Box::pin(async move {
                    // Byte order, whatever the database's own is.
                    let rows = sqlx::query(
                        "SELECT owner, sealed FROM cocoonbox.owner_key
                     WHERE $1::text IS NULL OR owner COLLATE \"C\" > $1 ORDER BY owner COLLATE \"C\" LIMIT $2",
                    )
                    .bind(after)
                    .bind(limit)
                    .fetch_all(conn)
                    .await?;
                    let read = |row: &PgRow| {
                        Ok(SealedOwner {
                            owner: row.try_get(0)?,
                            sealed: row.try_get(1)?,
                        })
                    };
                    rows.iter().map(read).collect()
                })
            })
            .await
    }

    /// Keeps an owner's key as it lies elsewhere. `false` if the owner has another one here. A
    /// destroyed key destroys the one that is here.
    pub async fn put_sealed_owner(&self, key: &SealedOwner) -> Result<bool, PgKeysError> {
        let Some(sealed) = key.sealed.clone() else {
            return self.destroy(&key.owner).await.map(|()| true);
        };
        if self.is_read_only {
            return Err(PgKeysError::ReadOnly);
        }
        let owner = key.owner.clone();
        self.desk
            .ask(move |conn| {
                Box::pin(async move {
                    sqlx::query(
                        "INSERT INTO cocoonbox.owner_key (owner, sealed) VALUES ($1, $2)
                         ON CONFLICT DO NOTHING",
                    )
                    .bind(&owner)
                    .bind(&sealed)
                    .execute(&mut *conn)
                    .await?;
                    let select = "SELECT sealed FROM cocoonbox.owner_key WHERE owner = $1";
                    let kept: Option<Vec<u8>> = sqlx::query_scalar(select)
                        .bind(&owner)
                        .fetch_one(conn)
                        .await?;
                    Ok(kept.as_ref() == Some(&sealed))
                })
            })
            .await
    }

    /// Returns every signing key, oldest first.
    pub async fn sealed_signers(&self) -> Result<Vec<SealedSigner>, PgKeysError> {
        self.desk
            .ask(|conn| {
                Box::pin(async move {
                    let select = "SELECT name, public_key, sealed, issued_us, retired_us
                              FROM cocoonbox.signing_key ORDER BY key_no";
                    let rows = sqlx::query(select).fetch_all(conn).await?;
                    let read = |row: &PgRow| {
                        Ok(SealedSigner {
                            name: row.try_get(0)?,
                            public_key: row.try_get(1)?,
                            sealed: row.try_get(2)?,
                            issued_us: row.try_get(3)?,
                            retired_us: row.try_get(4)?,
                        })
                    };
                    rows.iter().map(read).collect()
                })
            })
            .await
    }

    /// Keeps a signing key as it lies elsewhere; the order of calls is the order of age. A retired one
    /// retires the one that is here.
    pub async fn put_sealed_signer(&self, key: &SealedSigner) -> Result<(), PgKeysError> {
        if self.is_read_only {
            return Err(PgKeysError::ReadOnly);
        }
        let key = key.clone();
        self.desk
            .ask(move |conn| {
                Box::pin(async move {
                    sqlx::query(
                        "INSERT INTO cocoonbox.signing_key AS k
                           (name, public_key, sealed, issued_us, retired_us)
                         VALUES ($1, $2, $3, $4, $5)
                         ON CONFLICT (public_key) DO UPDATE
                           SET sealed = NULL, retired_us = excluded.retired_us
                           WHERE excluded.sealed IS NULL AND k.sealed IS NOT NULL",
                    )
                    .bind(key.name)
                    .bind(key.public_key)
                    .bind(key.sealed)
                    .bind(key.issued_us)
                    .bind(key.retired_us)
                    .execute(conn)
                    .await?;
                    Ok(())
                })
            })
            .await
    }
}
