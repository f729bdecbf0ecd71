//! What opens shares: hashed to be found by, and sealed for the owner to see again.

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use chacha20poly1305::{
    KeyInit as _, XChaCha20Poly1305, XNonce,
    aead::{Aead as _, Payload},
};
use cocoonbox_events::keys::{NoKey, purpose_key};
use cocoonbox_installation::{KeptToken, Keys, TokenOwner, Tokens, TokensError};
use zeroize::Zeroizing;

/// So that a leaked secret is recognised for what it is, and never taken for a token.
const PREFIX: &str = "cbs_";
const SECRET_BYTES: usize = 32;
/// Longer than any secret, and not worth hashing.
const TEXT_BYTES_MAX: usize = 100;
const NONCE_BYTES: usize = 24;
/// Of the key that follows from the owner's: it goes with that one when they are deleted.
const PURPOSE: &str = "share secrets";

/// Keeps the secrets of shares in the vault.
pub struct Secrets {
    tokens: Arc<dyn Tokens>,
    key: Zeroizing<[u8; 32]>,
    keys: Arc<dyn Keys>,
}

/// What opens a share, in text form.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

/// The name of a secret: where what it opens is found. It says nothing of the secret itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SecretId {
    pub(super) box_id: String,
    pub(super) share_id: String,
    /// Tells the secrets of one share apart.
    pub(super) number: String,
}

#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    #[error(transparent)]
    Tokens(#[from] TokensError),
    #[error("the owner's key")]
    Key(#[from] NoKey),
    #[error("the system's random source does not answer")]
    NoRandomness,
    #[error("sealing a secret")]
    Seal,
    #[error("the sealed secret `{secret_id}` is damaged")]
    Damaged { secret_id: String },
}

impl Secrets {
    /// `key` keys the hashes, so that they alone tell nothing about a secret.
    pub fn new(tokens: Arc<dyn Tokens>, key: Zeroizing<[u8; 32]>, keys: Arc<dyn Keys>) -> Self {
        Self { tokens, key, keys }
    }

    /// Draws a secret and keeps it. One that is kept under this id already stays the one: a request that is repeated
    /// must not make the link useless that the first has answered.
    pub(super) async fn issue(
        &self,
        secret_id: &SecretId,
        user_id: &str,
    ) -> Result<Secret, SecretError> {
        let secret_id = secret_id.to_string();
        if let Some(secret) = self.reveal(&secret_id, user_id).await? {
            return Ok(secret);
        }
        let mut bytes = Zeroizing::new([0; SECRET_BYTES]);
        getrandom::fill(bytes.as_mut_slice()).map_err(|_| SecretError::NoRandomness)?;
        let text = format!("{PREFIX}{}", BASE64.encode(bytes.as_slice()));
        let secret = Secret(Zeroizing::new(text));
        let kept = KeptToken {
            hash: self.hash(&secret.0),
            sealed: Some(self.seal(&secret, &secret_id, user_id)?),
            owner: TokenOwner {
                token_id: secret_id,
                user_id: user_id.to_owned(),
            },
        };
        self.tokens.put(&kept).await?;
        Ok(secret)
    }

    /// Finds what a secret is called and whose it is. It is looked up by its keyed hash, as tokens are: how long that
    /// takes tells nothing of the secret.
    pub(super) async fn find(&self, text: &str) -> Result<Option<(SecretId, String)>, SecretError> {
        if !text.starts_with(PREFIX) || text.len() > TEXT_BYTES_MAX {
            return Ok(None);
        }
        let found = self.tokens.find(&self.hash(text)).await?;
        Ok(found.and_then(|owner| Some((SecretId::read(&owner.token_id)?, owner.user_id))))
    }

    /// Shows a secret to its owner. `None`: there is none.
    pub(super) async fn reveal(
        &self,
        secret_id: &str,
        user_id: &str,
    ) -> Result<Option<Secret>, SecretError> {
        let kept = self.tokens.kept(secret_id).await?;
        let sealed = kept.filter(|kept| kept.owner.user_id == user_id);
        let Some(sealed) = sealed.and_then(|kept| kept.sealed) else {
            return Ok(None);
        };
        let damaged = || SecretError::Damaged {
            secret_id: secret_id.to_owned(),
        };
        let (nonce, sealed) = sealed
            .split_first_chunk::<NONCE_BYTES>()
            .ok_or_else(damaged)?;
        let payload = Payload {
            msg: sealed,
            aad: secret_id.as_bytes(),
        };
        let opened = self
            .cipher(user_id)?
            .decrypt(&XNonce::from(*nonce), payload);
        let opened = opened.map_err(|_| damaged())?;
        let text = String::from_utf8(opened).map_err(|_| damaged())?;
        Ok(Some(Secret(Zeroizing::new(text))))
    }

    /// Forgets a secret. The log has been told before.
    pub(super) async fn forget(&self, secret_id: &str) -> Result<(), SecretError> {
        Ok(self.tokens.forget(secret_id).await?)
    }

    /// What is sealed is bound to its name, so that no row can be put in another's place.
    fn seal(
        &self,
        secret: &Secret,
        secret_id: &str,
        user_id: &str,
    ) -> Result<Vec<u8>, SecretError> {
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce).map_err(|_| SecretError::NoRandomness)?;
        let payload = Payload {
            msg: secret.0.as_bytes(),
            aad: secret_id.as_bytes(),
        };
        let sealed = self.cipher(user_id)?.encrypt(&XNonce::from(nonce), payload);
        let sealed = sealed.map_err(|_| SecretError::Seal)?;
        Ok([&nonce[..], &sealed].concat())
    }

    fn cipher(&self, user_id: &str) -> Result<XChaCha20Poly1305, NoKey> {
        let key = purpose_key(&*self.keys, user_id, PURPOSE)?;
        Ok(XChaCha20Poly1305::new((&*key).into()))
    }

    fn hash(&self, text: &str) -> Vec<u8> {
        let hash = blake3::keyed_hash(&self.key, text.as_bytes());
        hash.as_bytes().to_vec()
    }
}

impl Secret {
    /// Gives the secret to its owner.
    pub fn reveal(&self) -> String {
        self.0.to_string()
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(***)")
    }
}

impl SecretId {
    pub(super) fn read(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let mut part = || parts.next().filter(|part| !part.is_empty());
        let read = Self {
            box_id: part()?.to_owned(),
            share_id: part()?.to_owned(),
            number: part()?.to_owned(),
        };
        parts.next().is_none().then_some(read)
    }
}

impl std::fmt::Display for SecretId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.box_id, self.share_id, self.number)
    }
}

#[cfg(test)]
mod tests {
    use cocoonbox_events::KeyStore;
    use cocoonbox_installation::tokens::SqliteTokens;

    use super::*;

    fn secrets(dir: &std::path::Path) -> (Secrets, Arc<SqliteTokens>) {
        let tokens = Arc::new(SqliteTokens::open(&dir.join("vault.db")).unwrap());
        let keys = Arc::new(KeyStore::open(dir).unwrap());
        let key = Zeroizing::new([1; 32]);
        (Secrets::new(tokens.clone(), key, keys), tokens)
    }

    fn id(number: &str) -> SecretId {
        SecretId::read(&format!("b1.s1.{number}")).unwrap()
    }

    #[tokio::test]
    async fn only_the_owner_sees_a_secret_again_and_none_lies_open() {
        let dir = tempfile::tempdir().unwrap();
        let (secrets, _) = secrets(dir.path());
        let secret = secrets.issue(&id("1"), "ada").await.unwrap();
        assert_eq!(format!("{secret:?}"), "Secret(***)");
        let text = secret.reveal();
        let found = secrets.find(&text).await.unwrap();
        assert_eq!(found, Some((id("1"), "ada".to_owned())));
        assert_eq!(secrets.find("cbs_no").await.unwrap(), None);
        assert_eq!(
            secrets.find(&text.replace("cbs_", "cbx_")).await.unwrap(),
            None
        );
        // The same id once more is the same secret.
        assert_eq!(secrets.issue(&id("1"), "ada").await.unwrap(), secret);
        let again = secrets.reveal("b1.s1.1", "ada").await.unwrap();
        assert_eq!(again, Some(secret));
        assert_eq!(secrets.reveal("b1.s1.1", "bob").await.unwrap(), None);
        for file in std::fs::read_dir(dir.path()).unwrap() {
            let bytes = std::fs::read(file.unwrap().path()).unwrap();
            assert!(!bytes.windows(text.len()).any(|w| w == text.as_bytes()));
        }
        secrets.forget("b1.s1.1").await.unwrap();
        assert_eq!(secrets.find(&text).await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_row_in_anothers_place_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (secrets, tokens) = secrets(dir.path());
        secrets.issue(&id("1"), "ada").await.unwrap();
        let mut row = tokens.kept("b1.s1.1").await.unwrap().unwrap();
        row.owner.token_id = id("2").to_string();
        row.hash = vec![2; 32];
        tokens.put(&row).await.unwrap();
        let shown = secrets.reveal("b1.s1.2", "ada").await;
        assert!(matches!(shown, Err(SecretError::Damaged { .. })));
    }

    #[test]
    fn names_are_read_back_or_are_none() {
        assert_eq!(id("1").to_string(), "b1.s1.1");
        for bad in ["", "t0123", "b1.s1", "b1.s1.1.2", "b1..1", ".s1.1"] {
            assert_eq!(SecretId::read(bad), None, "{bad}");
        }
    }
}
