//! Token hashes in the database.

use async_trait::async_trait;
use cocoonbox_events_postgres as postgres;

use super::{KeptToken, TokenOwner, Tokens, TokensError};

/// One table for all processes.
pub struct PostgresTokens(postgres::Vault);

impl PostgresTokens {
    pub fn new(database: &postgres::Database) -> Self {
        Self(postgres::Vault::new(database))
    }
}

#[async_trait]
impl Tokens for PostgresTokens {
    async fn put(&self, token: &KeptToken) -> Result<(), TokensError> {
        let KeptToken {
            hash,
            owner,
            sealed,
        } = token;
        let hash = hash32(hash).ok_or(TokensError::BadHash)?;
        let issued = self
            .0
            .issue(hash, &owner.token_id, &owner.user_id, sealed.as_deref());
        Ok(issued.await?)
    }

    async fn find(&self, hash: &[u8]) -> Result<Option<TokenOwner>, TokensError> {
        let hash = hash32(hash).ok_or(TokensError::BadHash)?;
        Ok(self.0.owner(hash).await?.map(Into::into))
    }

    async fn kept(&self, token_id: &str) -> Result<Option<KeptToken>, TokensError> {
        Ok(self.0.kept(token_id).await?.map(Into::into))
    }

    async fn forget(&self, token_id: &str) -> Result<(), TokensError> {
        Ok(self.0.forget(token_id).await?)
    }

    async fn forget_user(&self, user_id: &str) -> Result<(), TokensError> {
        Ok(self.0.forget_user(user_id).await?)
    }

    async fn list(&self, after: &str, limit: usize) -> Result<Vec<KeptToken>, TokensError> {
        let tokens = self.0.list(after, limit).await?.into_iter();
        Ok(tokens.map(Into::into).collect())
    }
}

impl From<postgres::TokenOwner> for TokenOwner {
    fn from(owner: postgres::TokenOwner) -> Self {
        Self {
            token_id: owner.token_id,
            user_id: owner.user_id,
        }
    }
}

impl From<postgres::Kept> for KeptToken {
    fn from(kept: postgres::Kept) -> Self {
        Self {
            hash: kept.hash,
            owner: kept.owner.into(),
            sealed: kept.sealed,
        }
    }
}

fn hash32(hash: &[u8]) -> Option<&[u8; 32]> {
    hash.try_into().ok()
}
