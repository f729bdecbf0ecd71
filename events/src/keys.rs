//! Keys: one per user, from which each of their logs gets its own.
//!
//! They lie in `keys.db`, sealed under `master.key`, apart from the log and its backups: destroying a
//! user's key makes their history unreadable everywhere, while every chain still verifies.

mod key_store;
mod master;
mod sealed;
pub mod signing;

use std::fmt;

use zeroize::Zeroizing;

use crate::id::LogId;

pub use self::{
    key_store::{KeyStore, KeyStoreError},
    master::Master,
    sealed::{SealedOwner, SealedSigner},
    signing::{IssuedKey, SigningError, SigningKeys},
};

/// The key that one log's payloads are sealed with.
#[derive(Clone)]
pub struct LogKey(Zeroizing<[u8; 32]>);

impl LogKey {
    /// Derives a log's key from its owner's.
    pub fn derive(owner_key: &[u8; 32], log: LogId) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("cocoonbox 2026 log key");
        hasher.update(owner_key);
        hasher.update(log.as_bytes());
        Self(Zeroizing::new(*hasher.finalize().as_bytes()))
    }

    /// Recognises the key without giving it away, so that a log is never sealed with two of them.
    pub fn check(&self) -> [u8; 8] {
        let check = blake3::derive_key("cocoonbox 2026 log key check", &*self.0);
        let mut short = [0; 8];
        short.copy_from_slice(&check[..8]);
        short
    }

    pub(crate) fn expose(&self) -> [u8; 32] {
        *self.0
    }
}

impl fmt::Debug for LogKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LogKey(***)")
    }
}

/// Answers for the key of a log.
pub trait Keyring: Send + Sync + 'static {
    /// Returns the key for a log of `owner`, making the owner's key when there is none and there never
    /// was one. `Sealing::Lost` if it was destroyed.
    fn log_key(&self, log: LogId, owner: &str) -> Sealing;

    /// The same answer if it can be given without waiting for a disk or a database; `None` if
    /// [`Keyring::log_key`] has to be asked, on a thread that may wait.
    fn log_key_at_hand(&self, log: LogId, owner: &str) -> Option<Sealing> {
        Some(self.log_key(log, owner))
    }
}

/// Why there is no key for a purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoKey {
    #[error("the owner's key was destroyed")]
    Destroyed,
    #[error("the keys cannot be read at this moment")]
    Unavailable,
}

/// Returns another key of an owner, for a purpose beside their logs. It follows from the owner's key, so it goes
/// with that one and is kept nowhere. May wait for a disk or a database.
pub fn purpose_key(
    keyring: &dyn Keyring,
    owner: &str,
    purpose: &str,
) -> Result<Zeroizing<[u8; 32]>, NoKey> {
    // No log has this id: it is no UUID of the kind that logs have.
    let mut id = [0; 16];
    id.copy_from_slice(&blake3::derive_key("cocoonbox 2026 purpose id", purpose.as_bytes())[..16]);
    let scope = LogId::from_slice(&id).ok_or(NoKey::Unavailable)?;
    match keyring.log_key(scope, owner) {
        Sealing::Key(key) => {
            let key = blake3::derive_key("cocoonbox 2026 purpose key", &*key.0);
            Ok(Zeroizing::new(key))
        }
        Sealing::Lost => Err(NoKey::Destroyed),
        Sealing::Open | Sealing::Unavailable => Err(NoKey::Unavailable),
    }
}

/// How a log's payloads lie.
#[derive(Clone, Debug)]
pub enum Sealing {
    /// Not sealed: inside a box, where there are no keys, and in tests.
    Open,
    Key(LogKey),
    /// The key was destroyed: payloads read as erased, nothing can be appended.
    Lost,
    /// The keys cannot be read at this moment. Nothing can be said of the payloads: reading and
    /// appending fail, where `Lost` would let a reader go on without them.
    Unavailable,
}

/// No sealing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoKeys;

impl Keyring for NoKeys {
    fn log_key(&self, _: LogId, _: &str) -> Sealing {
        Sealing::Open
    }
}
