//! One key per user, and the keys that come from it.

use std::fmt;

use chacha20poly1305::{KeyInit as _, XChaCha20Poly1305};
use zeroize::Zeroize as _;

use crate::{error::Error, id::ChunkId};

const ID_DATA: &str = "cocoonbox capsule 1 id of data";
const ID_TREE: &str = "cocoonbox capsule 1 id of trees";
const ID_FRAME: &str = "cocoonbox capsule 1 id of frames";
const ID_PATH: &str = "cocoonbox capsule 1 id of paths";
const CUT: &str = "cocoonbox capsule 1 chunker seed";
const SPLIT: &str = "cocoonbox capsule 1 split of trees";
const SEAL: &str = "cocoonbox capsule 1 seal";

/// The 32 bytes that everything of one user's capsule hangs on.
#[derive(Clone)]
pub struct UserKey([u8; 32]);

impl UserKey {
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// A new random key.
    pub fn random() -> Result<Self, Error> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|_| Error::Randomness)?;
        Ok(Self(bytes))
    }

    /// Reads 64 hexadecimal digits, with white space around.
    pub fn from_text(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text.trim(), &mut bytes).ok()?;
        Some(Self(bytes))
    }

    /// The 64 digits that [`Self::from_text`] reads.
    pub fn to_text(&self) -> String {
        hex::encode(self.0)
    }
}

impl Drop for UserKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for UserKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UserKey(***)")
    }
}

/// What a chunk holds: packed apart, sealed apart and named apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Bytes of files.
    Data,
    /// Directories, and lists of chunks of large files.
    Tree,
}

impl Kind {
    /// The kind's byte in packs and segments.
    pub const fn byte(self) -> u8 {
        match self {
            Self::Data => 1,
            Self::Tree => 2,
        }
    }

    pub const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Data),
            2 => Some(Self::Tree),
            _ => None,
        }
    }
}

/// The keys derived from a [`UserKey`].
pub struct Keys {
    data: [u8; 32],
    tree: [u8; 32],
    frame: [u8; 32],
    path: [u8; 32],
    split: [u8; 32],
    pub(crate) cut_seed: u64,
    pub(crate) cipher: XChaCha20Poly1305,
}

impl Keys {
    /// Derives all keys.
    pub fn derive(user: &UserKey) -> Self {
        let derive = |context| blake3::derive_key(context, &user.0);
        let mut seed = [0; 8];
        seed.copy_from_slice(&derive(CUT)[..8]);
        let mut seal = derive(SEAL);
        let cipher = XChaCha20Poly1305::new(&seal.into());
        seal.zeroize();
        Self {
            data: derive(ID_DATA),
            tree: derive(ID_TREE),
            frame: derive(ID_FRAME),
            path: derive(ID_PATH),
            split: derive(SPLIT),
            cut_seed: u64::from_le_bytes(seed),
            cipher,
        }
    }

    /// Names a chunk by its plain bytes.
    pub fn chunk_id(&self, kind: Kind, plain: &[u8]) -> ChunkId {
        let key = match kind {
            Kind::Data => &self.data,
            Kind::Tree => &self.tree,
        };
        ChunkId(*blake3::keyed_hash(key, plain).as_bytes())
    }

    /// Names a frame by the chunks in it.
    pub(crate) fn frame_id(&self, members: impl Iterator<Item = ChunkId>) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_keyed(&self.frame);
        for id in members {
            hasher.update(&id.0);
        }
        *hasher.finalize().as_bytes()
    }

    /// Names files that are one file (hard links) by the first path that leads to it.
    pub(crate) fn link_id(&self, path: &[u8]) -> [u8; 16] {
        let mut out = [0; 16];
        out.copy_from_slice(&blake3::keyed_hash(&self.path, path).as_bytes()[..16]);
        out
    }

    /// A number for a name or id, by which trees and lists are split.
    pub(crate) fn split_number(&self, bytes: &[u8]) -> u64 {
        let mut out = [0; 8];
        out.copy_from_slice(&blake3::keyed_hash(&self.split, bytes).as_bytes()[..8]);
        u64::from_le_bytes(out)
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        for key in [
            &mut self.data,
            &mut self.tree,
            &mut self.frame,
            &mut self.path,
            &mut self.split,
        ] {
            key.zeroize();
        }
        self.cut_seed = 0;
    }
}
