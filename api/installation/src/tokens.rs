//! Hashes of tokens and of shares' secrets: which one a hash is of, and whose it is.

mod postgres;
mod sqlite;

use async_trait::async_trait;

pub use postgres::PostgresTokens;
pub use sqlite::SqliteTokens;

/// Whose token it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenOwner {
    pub token_id: String,
    pub user_id: String,
}

/// A token as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptToken {
    /// Keyed hash of the token.
    pub hash: Vec<u8>,
    pub owner: TokenOwner,
    /// The secret itself, sealed with a key of its owner's, where they may see it again: a share's, never a token's.
    pub sealed: Option<Vec<u8>>,
}

/// Keeps token hashes. Whether a token is live is what the log says, not this.
#[async_trait]
pub trait Tokens: Send + Sync + 'static {
    /// Keeps a hash. One that was kept under the same token id before opens nothing any more.
    async fn put(&self, token: &KeptToken) -> Result<(), TokensError>;

    /// Finds whose token this is. The look-up is by keyed hash of a 256-bit random value, so its timing
    /// tells nothing that helps to guess one.
    async fn find(&self, hash: &[u8]) -> Result<Option<TokenOwner>, TokensError>;

    /// Returns what is kept under a token's id.
    async fn kept(&self, token_id: &str) -> Result<Option<KeptToken>, TokensError>;

    /// Forgets a token. Fine if it is not there.
    async fn forget(&self, token_id: &str) -> Result<(), TokensError>;

    /// Forgets all tokens of a user.
    async fn forget_user(&self, user_id: &str) -> Result<(), TokensError>;

    /// Returns the tokens whose id is behind `after`, by id, at most `limit`.
    async fn list(&self, after: &str, limit: usize) -> Result<Vec<KeptToken>, TokensError>;
}

#[derive(Debug, thiserror::Error)]
pub enum TokensError {
    #[error("opening the token vault")]
    Open(#[source] rusqlite::Error),
    #[error("using the token vault")]
    Sqlite(#[source] rusqlite::Error),
    #[error("using the token vault")]
    Postgres(#[from] cocoonbox_events_postgres::DatabaseError),
    #[error("a token's hash has not 32 bytes")]
    BadHash,
}
