//! The master key: 32 random bytes in a file that only its owner can read.

use std::{
    fmt,
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use chacha20poly1305::{
    KeyInit, XChaCha20Poly1305, XNonce,
    aead::{Aead, Payload},
};
use zeroize::Zeroizing;

use super::KeyStoreError;

const FILE: &str = "master.key";
const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 24;

/// The key that all other keys are sealed under, and that keys for single purposes are derived from.
pub struct Master(Zeroizing<[u8; KEY_BYTES]>);

impl Master {
    /// Reads the key of this folder; `None` if there is no file.
    pub fn read(dir: &Path) -> Result<Option<Self>, KeyStoreError> {
        let path = dir.join(FILE);
        let io = |source| KeyStoreError::Io {
            path: path.clone(),
            source,
        };
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io(error)),
        };
        let metadata = file.metadata().map_err(io)?;
        let mode = metadata.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(KeyStoreError::Exposed { path, mode });
        }
        let bytes = metadata.len();
        if bytes != KEY_BYTES as u64 {
            return Err(KeyStoreError::Malformed { path, bytes });
        }
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        file.read_exact(&mut *key).map_err(io)?;
        Ok(Some(Self(key)))
    }

    /// Makes the key of this folder. Fails if there is one, whole or half: a crash leaves no file with
    /// this name or a whole one.
    pub fn make(dir: &Path) -> Result<Self, KeyStoreError> {
        let path = dir.join(FILE);
        let io = |source| KeyStoreError::Io {
            path: path.clone(),
            source,
        };
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        getrandom::fill(&mut *key).map_err(|_| KeyStoreError::NoRandomness)?;
        let mut suffix = [0; 8];
        getrandom::fill(&mut suffix).map_err(|_| KeyStoreError::NoRandomness)?;
        let draft: PathBuf = dir.join(format!("{FILE}.{}", hex::encode(suffix)));
        let written = write_new(&draft, &*key).and_then(|()| std::fs::hard_link(&draft, &path));
        // The draft is of no use any more, whatever came of it.
        let removed = std::fs::remove_file(&draft);
        written.map_err(io)?;
        removed.map_err(io)?;
        File::open(dir).and_then(|dir| dir.sync_all()).map_err(io)?;
        Ok(Self(key))
    }

    /// Derives a key for one purpose. Purposes differ, so do the keys, and none leads to another.
    pub fn derive(&self, purpose: &str) -> Zeroizing<[u8; 32]> {
        let mut hasher = blake3::Hasher::new_derive_key("cocoonbox 2026 master derived");
        hasher.update(&*self.0);
        hasher.update(purpose.as_bytes());
        Zeroizing::new(*hasher.finalize().as_bytes())
    }

    /// Seals a key so that it opens for this owner only.
    pub fn seal(&self, owner: &str, key: &[u8; 32]) -> Result<Vec<u8>, KeyStoreError> {
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce).map_err(|_| KeyStoreError::NoRandomness)?;
        let sealed = self
            .cipher()
            .encrypt(
                &XNonce::from(nonce),
                Payload {
                    msg: key,
                    aad: owner.as_bytes(),
                },
            )
            .map_err(|_| KeyStoreError::WrongMaster)?;
        Ok([&nonce[..], &sealed].concat())
    }

    /// Recognises the key without giving it away.
    pub fn check_value(&self) -> [u8; 8] {
        let check = self.derive("check");
        let mut short = [0; 8];
        short.copy_from_slice(&check[..8]);
        short
    }

    /// Opens what was sealed for this owner. [`KeyStoreError::WrongMaster`] if it does not open.
    pub fn open(&self, owner: &str, stored: &[u8]) -> Result<Zeroizing<[u8; 32]>, KeyStoreError> {
        let (nonce, sealed) = stored
            .split_first_chunk::<NONCE_BYTES>()
            .ok_or(KeyStoreError::WrongMaster)?;
        let plain = self
            .cipher()
            .decrypt(
                &XNonce::from(*nonce),
                Payload {
                    msg: sealed,
                    aad: owner.as_bytes(),
                },
            )
            .map_err(|_| KeyStoreError::WrongMaster)?;
        let plain = Zeroizing::new(plain);
        let key: [u8; 32] = plain
            .as_slice()
            .try_into()
            .map_err(|_| KeyStoreError::WrongMaster)?;
        Ok(Zeroizing::new(key))
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        let key = self.derive("owner keys");
        XChaCha20Poly1305::new(&(*key).into())
    }
}

impl fmt::Debug for Master {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Master(***)")
    }
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
