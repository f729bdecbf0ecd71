//! The vault: hashes of device tokens. Secrets are never in a log, sealed or not. Those of shares lie there too
//! (`shares/secrets.rs`), and are never taken for tokens: they begin otherwise, and other keys hash them.
//!
//! A row here is not yet a right: the account log says whether a token was issued and not revoked.
//! So a crash between the vault's write and the log's leaves a row that opens nothing.

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use cocoonbox_installation::{KeptToken, Tokens, TokensError};
use zeroize::Zeroizing;

pub use cocoonbox_installation::TokenOwner;

/// So that a leaked token is recognised for what it is by people and by scanners.
const PREFIX: &str = "cbx_";
const TOKEN_BYTES: usize = 32;

/// Draws tokens and keeps their hashes.
pub struct Vault {
    tokens: Arc<dyn Tokens>,
    key: Zeroizing<[u8; 32]>,
}

/// A token as its owner holds it.
pub struct Token(Zeroizing<String>);

#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    #[error(transparent)]
    Tokens(#[from] TokensError),
    #[error("the system's random source does not answer")]
    NoRandomness,
}

impl Vault {
    /// `key` keys the hashes, so that they alone tell nothing about a token.
    pub fn new(tokens: Arc<dyn Tokens>, key: Zeroizing<[u8; 32]>) -> Self {
        Self { tokens, key }
    }

    /// Draws a token and keeps its hash.
    pub async fn issue(&self, token_id: &str, user_id: &str) -> Result<Token, VaultError> {
        let mut bytes = Zeroizing::new([0; TOKEN_BYTES]);
        getrandom::fill(bytes.as_mut_slice()).map_err(|_| VaultError::NoRandomness)?;
        let token = Token(Zeroizing::new(format!(
            "{PREFIX}{}",
            BASE64.encode(bytes.as_slice())
        )));
        let kept = KeptToken {
            hash: self.hash(&token.0),
            sealed: None,
            owner: TokenOwner {
                token_id: token_id.to_owned(),
                user_id: user_id.to_owned(),
            },
        };
        self.tokens.put(&kept).await?;
        Ok(token)
    }

    /// Finds whose token this is.
    pub async fn owner(&self, token: &str) -> Result<Option<TokenOwner>, VaultError> {
        if !token.starts_with(PREFIX) || token.len() > 100 {
            return Ok(None);
        }
        Ok(self.tokens.find(&self.hash(token)).await?)
    }

    /// Forgets a token. The log has been told before.
    pub async fn forget(&self, token_id: &str) -> Result<(), VaultError> {
        Ok(self.tokens.forget(token_id).await?)
    }

    /// Forgets every token of a user. The log has been told before.
    pub async fn forget_user(&self, user_id: &str) -> Result<(), VaultError> {
        Ok(self.tokens.forget_user(user_id).await?)
    }

    fn hash(&self, token: &str) -> Vec<u8> {
        blake3::keyed_hash(&self.key, token.as_bytes())
            .as_bytes()
            .to_vec()
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
    use cocoonbox_installation::tokens::SqliteTokens;

    use super::*;

    #[tokio::test]
    async fn keeps_hashes_only_and_finds_owners() {
        let dir = tempfile::tempdir().unwrap();
        let tokens = SqliteTokens::open(&dir.path().join("vault.db")).unwrap();
        let vault = Vault::new(Arc::new(tokens), Zeroizing::new([1; 32]));
        let token = vault.issue("t1", "u1").await.unwrap().reveal();
        let owner = TokenOwner {
            token_id: "t1".into(),
            user_id: "u1".into(),
        };
        assert_eq!(vault.owner(&token).await.unwrap(), Some(owner));
        assert_eq!(vault.owner("cbx_no").await.unwrap(), None);
        assert_eq!(vault.owner(&"x".repeat(1_000_000)).await.unwrap(), None);
        for file in std::fs::read_dir(dir.path()).unwrap() {
            let bytes = std::fs::read(file.unwrap().path()).unwrap();
            assert!(!bytes.windows(token.len()).any(|w| w == token.as_bytes()));
        }
        vault.forget("t1").await.unwrap();
        assert_eq!(vault.owner(&token).await.unwrap(), None);
    }
}
