//! The vault: hashes of device tokens and of shares' secrets, for every replica. Secrets are never in a log, sealed or
//! not.

use sqlx::{Row, postgres::PgRow};

use crate::{database::Database, error::DatabaseError};

/// Keeps token hashes. Drawing a token and hashing it with a key is its caller's.
///
/// A row here is not yet a right: the account log says whether a token was issued and not revoked.
#[derive(Clone, Debug)]
pub struct Vault {
    database: Database,
}

/// Whose token it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenOwner {
    pub token_id: String,
    pub user_id: String,
}

/// A secret as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    pub owner: TokenOwner,
    pub hash: Vec<u8>,
    /// The secret itself, sealed by its caller, where its owner may see it again.
    pub sealed: Option<Vec<u8>>,
}

impl Vault {
    pub fn new(database: &Database) -> Self {
        Self {
            database: database.clone(),
        }
    }

    /// Keeps the hash of a token that was drawn. A token of the same id is replaced.
    pub async fn issue(
        &self,
        hash: &[u8; 32],
        token_id: &str,
        user_id: &str,
        sealed: Option<&[u8]>,
    ) -> Result<(), DatabaseError> {
        sqlx::query(
            "INSERT INTO cocoonbox.token (hash, token_id, user_id, sealed) VALUES ($1, $2, $3, $4)
             ON CONFLICT (token_id) DO UPDATE SET hash = $1, user_id = $3, sealed = $4",
        )
        .bind(&hash[..])
        .bind(token_id)
        .bind(user_id)
        .bind(sealed)
        .execute(&self.database.control)
        .await?;
        Ok(())
    }

    /// Finds whose token has this hash.
    pub async fn owner(&self, hash: &[u8; 32]) -> Result<Option<TokenOwner>, DatabaseError> {
        let row = sqlx::query("SELECT token_id, user_id FROM cocoonbox.token WHERE hash = $1")
            .bind(&hash[..])
            .fetch_optional(&self.database.control)
            .await?;
        let owner = row.map(|row| {
            Ok::<_, sqlx::Error>(TokenOwner {
                token_id: row.try_get(0)?,
                user_id: row.try_get(1)?,
            })
        });
        Ok(owner.transpose()?)
    }

    /// Returns what is kept under a token's id.
    pub async fn kept(&self, token_id: &str) -> Result<Option<Kept>, DatabaseError> {
        let row = sqlx::query(
            "SELECT token_id, user_id, hash, sealed FROM cocoonbox.token WHERE token_id = $1",
        )
        .bind(token_id)
        .fetch_optional(&self.database.control)
        .await?;
        Ok(row.as_ref().map(kept).transpose()?)
    }

    /// Forgets a token. The log has been told before.
    pub async fn forget(&self, token_id: &str) -> Result<(), DatabaseError> {
        sqlx::query("DELETE FROM cocoonbox.token WHERE token_id = $1")
            .bind(token_id)
            .execute(&self.database.control)
            .await?;
        Ok(())
    }

    /// Forgets every token of a user. The log has been told before.
    pub async fn forget_user(&self, user_id: &str) -> Result<(), DatabaseError> {
        sqlx::query("DELETE FROM cocoonbox.token WHERE user_id = $1")
            .bind(user_id)
            .execute(&self.database.control)
            .await?;
        Ok(())
    }

    /// Returns the tokens whose id is behind `after`, by id in byte order, at most `limit`.
    pub async fn list(&self, after: &str, limit: usize) -> Result<Vec<Kept>, DatabaseError> {
        let rows = sqlx::query(
            r#"SELECT token_id, user_id, hash, sealed FROM cocoonbox.token
               WHERE token_id COLLATE "C" > $1 ORDER BY token_id COLLATE "C" LIMIT $2"#,
        )
        .bind(after)
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .fetch_all(&self.database.control)
        .await?;
        Ok(rows.iter().map(kept).collect::<Result<_, _>>()?)
    }
}

fn kept(row: &PgRow) -> Result<Kept, sqlx::Error> {
    Ok(Kept {
        owner: TokenOwner {
            token_id: row.try_get(0)?,
            user_id: row.try_get(1)?,
        },
        hash: row.try_get(2)?,
        sealed: row.try_get(3)?,
    })
}
