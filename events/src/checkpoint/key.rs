//! Keys of notes: names, the half that signs, and the half that is given to auditors.

use std::{fmt, str::FromStr};

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use ed25519_dalek::{Signer as _, SigningKey, VerifyingKey};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::note::Signature;

/// Ed25519, in the specification's list of kinds of signatures.
const ED25519: u8 = 1;
/// Names are host names or short paths.
const NAME_BYTES_MAX: usize = 200;

/// The name of a key: not empty, no spaces, control characters or `+`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyName(String);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "key name `{0}` is empty, longer than {NAME_BYTES_MAX} bytes or has a space, `+` or control character"
)]
pub struct BadKeyName(String);

/// The public half of a key. Its text form is C2SP's `vkey`: `<name>+<hex key id>+<base64 key>`.
#[derive(Clone, PartialEq, Eq)]
pub struct VerifierKey {
    name: KeyName,
    public: VerifyingKey,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not an Ed25519 verifier key of the form <name>+<hex>+<base64>")]
pub struct BadVerifierKey {
    text: String,
}

/// The half of a key that signs.
#[derive(Clone)]
pub struct Signer {
    name: KeyName,
    key: SigningKey,
}

impl KeyName {
    pub fn new(name: impl Into<String>) -> Result<Self, BadKeyName> {
        let name = name.into();
        let is_refused = |c: char| c.is_whitespace() || c.is_control() || c == '+';
        if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains(is_refused) {
            return Err(BadKeyName(name.chars().take(80).collect()));
        }
        Ok(Self(name))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl VerifierKey {
    /// Takes a public key of 32 bytes; `None` if it is none.
    pub fn new(name: KeyName, public: &[u8]) -> Option<Self> {
        let public = VerifyingKey::from_bytes(public.try_into().ok()?).ok()?;
        // A weak key verifies anything.
        Some(Self { name, public }).filter(|key| !key.public.is_weak())
    }

    pub fn name(&self) -> &KeyName {
        &self.name
    }

    pub fn public(&self) -> &[u8; 32] {
        self.public.as_bytes()
    }

    /// The first bytes of a hash of name and key.
    pub fn id(&self) -> [u8; 4] {
        let mut hasher = Sha256::new();
        hasher.update(self.name.as_str());
        hasher.update([b'\n', ED25519]);
        hasher.update(self.public());
        let hash = hasher.finalize();
        [hash[0], hash[1], hash[2], hash[3]]
    }

    pub(super) fn has_signed(&self, text: &str, signature: &Signature) -> bool {
        ed25519_dalek::Signature::from_slice(&signature.bytes)
            .and_then(|bytes| self.public.verify_strict(text.as_bytes(), &bytes))
            .is_ok()
    }
}

impl fmt::Display for VerifierKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = [&[ED25519], &self.public()[..]].concat();
        let (id, key) = (hex::encode(self.id()), BASE64.encode(key));
        write!(f, "{}+{id}+{key}", self.name)
    }
}

impl fmt::Debug for VerifierKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VerifierKey({self})")
    }
}

impl FromStr for VerifierKey {
    type Err = BadVerifierKey;

    fn from_str(text: &str) -> Result<Self, BadVerifierKey> {
        let bad = || BadVerifierKey {
            text: text.chars().take(80).collect(),
        };
        let mut parts = text.splitn(3, '+');
        let mut part = || parts.next().ok_or_else(bad);
        let (name, id, key) = (part()?, part()?, part()?);
        let key = BASE64.decode(key).map_err(|_| bad())?;
        let public = key.strip_prefix(&[ED25519]).ok_or_else(bad)?;
        let name = KeyName::new(name).map_err(|_| bad())?;
        let read = Self::new(name, public).ok_or_else(bad)?;
        // A wrong id is a typing error, or somebody else's key.
        if hex::encode(read.id()) == id {
            Ok(read)
        } else {
            Err(bad())
        }
    }
}

impl Signer {
    pub fn new(name: KeyName, seed: &Zeroizing<[u8; 32]>) -> Self {
        let key = SigningKey::from_bytes(seed);
        Self { name, key }
    }

    /// Returns the half for auditors.
    pub fn verifier(&self) -> VerifierKey {
        VerifierKey {
            name: self.name.clone(),
            public: self.key.verifying_key(),
        }
    }

    pub(super) fn sign(&self, text: &str) -> Signature {
        Signature {
            name: self.name.clone(),
            key_id: self.verifier().id(),
            bytes: self.key.sign(text.as_bytes()).to_bytes().to_vec(),
        }
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signer({}, ***)", self.verifier())
    }
}
