//! Keys that checkpoints are signed with.
//!
//! They are random, kept sealed under the master key, and known for ever by their public half: what an
//! old key has signed stays verifiable. A rotation makes a new key; the old one goes on signing beside
//! it until [`SigningKeys::retire`] destroys its secret half, so that the first checkpoint of the new
//! key carries the old one's word for it.

mod table;

pub(super) use self::table::make_table;
use crate::checkpoint::{KeyName, Signer, VerifierKey};

/// A key that was made here at some time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuedKey {
    pub key: VerifierKey,
    /// Microseconds since the Unix epoch.
    pub issued_us: i64,
    /// When it stopped signing; `None` for one that signs.
    pub retired_us: Option<i64>,
}

/// Keeps signing keys. Its methods may wait for a disk or a database.
pub trait SigningKeys: Send + Sync + 'static {
    /// Returns the keys that sign, newest first: one, or during a rotation several. None before the
    /// first [`SigningKeys::rotate`].
    fn signers(&self) -> Result<Vec<Signer>, SigningError>;

    /// Returns every key that was ever made, oldest first.
    fn all(&self) -> Result<Vec<IssuedKey>, SigningError>;

    /// Makes a key of this name and makes it the current one.
    fn rotate(&self, name: &KeyName, now_us: i64) -> Result<VerifierKey, SigningError>;

    /// Destroys the secret half of a key. Retiring one that is retired, or was never made, is fine.
    fn retire(&self, key: &VerifierKey, now_us: i64) -> Result<(), SigningError>;

    /// Returns the newest key that signs.
    fn current(&self) -> Result<Option<Signer>, SigningError> {
        Ok(self.signers()?.into_iter().next())
    }
}

#[derive(Debug, thiserror::Error)]
pub enum SigningError {
    #[error("the keys were opened for reading only")]
    ReadOnly,
    #[error("the system's random source does not answer")]
    NoRandomness,
    #[error("a signing key does not open with this master key, or is damaged")]
    Damaged,
    #[error("reading or writing the signing keys")]
    Io(#[source] Box<dyn std::error::Error + Send + Sync>),
}
