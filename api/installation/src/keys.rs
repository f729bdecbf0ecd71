//! Owners' keys, wherever they lie.

use std::sync::Arc;

use async_trait::async_trait;
use cocoonbox_events::{
    KeyStore, Keyring, LogId, Sealing,
    keys::{KeyStoreError, SealedOwner, SealedSigner},
};
use cocoonbox_events_postgres::{PgKeys, keys::PgKeysError};
use zeroize::Zeroizing;

/// The keys of an installation: a keyring that can also derive and destroy.
#[async_trait]
pub trait Keys: Keyring {
    /// Derives a key for one purpose from the master key. The same purpose gives the same key for as
    /// long as the master key lives.
    fn derive(&self, purpose: &str) -> Zeroizing<[u8; 32]>;

    /// Destroys an owner's key for ever: their logs read as erased from here on. Fine if it is
    /// destroyed already, or was never made.
    async fn destroy(&self, owner: &str) -> Result<(), KeysError>;

    /// Returns owners' keys as they lie, of the owners behind `after` in byte order, at most `limit`.
    async fn sealed_owners(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<SealedOwner>, KeysError>;

    /// Keeps an owner's key as it lies elsewhere. `false` if the owner has another one here. A destroyed
    /// key destroys the one that is here.
    async fn put_sealed_owner(&self, key: &SealedOwner) -> Result<bool, KeysError>;

    /// Returns the signing keys as they lie, oldest first.
    async fn sealed_signers(&self) -> Result<Vec<SealedSigner>, KeysError>;

    /// Keeps a signing key as it lies elsewhere. Called in their order of age.
    async fn put_sealed_signer(&self, key: &SealedSigner) -> Result<(), KeysError>;
}

#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    #[error("keys in the data folder")]
    Folder(#[from] KeyStoreError),
    #[error("keys in the database")]
    Database(#[from] PgKeysError),
}

#[async_trait]
impl Keys for KeyStore {
    fn derive(&self, purpose: &str) -> Zeroizing<[u8; 32]> {
        Self::derive(self, purpose)
    }

    async fn destroy(&self, owner: &str) -> Result<(), KeysError> {
        Ok(Self::destroy(self, owner)?)
    }

    async fn sealed_owners(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<SealedOwner>, KeysError> {
        Ok(Self::sealed_owners(self, after, limit)?)
    }

    async fn put_sealed_owner(&self, key: &SealedOwner) -> Result<bool, KeysError> {
        Ok(Self::put_sealed_owner(self, key)?)
    }

    async fn sealed_signers(&self) -> Result<Vec<SealedSigner>, KeysError> {
        Ok(Self::sealed_signers(self)?)
    }

    async fn put_sealed_signer(&self, key: &SealedSigner) -> Result<(), KeysError> {
        Ok(Self::put_sealed_signer(self, key)?)
    }
}

#[async_trait]
impl Keys for PgKeys {
    fn derive(&self, purpose: &str) -> Zeroizing<[u8; 32]> {
        Self::derive(self, purpose)
    }

    async fn destroy(&self, owner: &str) -> Result<(), KeysError> {
        Ok(Self::destroy(self, owner).await?)
    }

    async fn sealed_owners(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<SealedOwner>, KeysError> {
        Ok(Self::sealed_owners(self, after, limit).await?)
    }

    async fn put_sealed_owner(&self, key: &SealedOwner) -> Result<bool, KeysError> {
        Ok(Self::put_sealed_owner(self, key).await?)
    }

    async fn sealed_signers(&self) -> Result<Vec<SealedSigner>, KeysError> {
        Ok(Self::sealed_signers(self).await?)
    }

    async fn put_sealed_signer(&self, key: &SealedSigner) -> Result<(), KeysError> {
        Ok(Self::put_sealed_signer(self, key).await?)
    }
}

/// Lets the logs of owners whose key was destroyed be written: by a copy, which brings no payload of theirs, so
/// there is nothing to be sealed.
pub(crate) struct Copying(pub(crate) Arc<dyn Keyring>);

impl Keyring for Copying {
    fn log_key(&self, log: LogId, owner: &str) -> Sealing {
        match self.0.log_key(log, owner) {
            Sealing::Lost => Sealing::Open,
            sealing => sealing,
        }
    }
}
