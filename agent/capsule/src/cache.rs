//! What a save remembers beside the store: inode and ctime of each file. A hint; without it a save trusts
//! sizes and times alone, or reads again.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{
    capsule::Capsule,
    encoding::Bytes,
    error::Error,
    id::SnapshotId,
    seal::{self, Sealed},
};

const MAGIC: &[u8; 8] = b"CBSTAT\x01\0";
const RECORD: usize = 24;

/// One file as it was when it was saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seen {
    /// A hash of the path, so that a file does not vouch for another.
    pub path: u64,
    pub inode: u64,
    pub ctime_ns: i64,
}

/// What one save saw, by path.
#[derive(Debug, Default)]
pub struct StatCache {
    list: Vec<Seen>,
}

impl StatCache {
    /// Reads what belongs to a snapshot. A missing, foreign or damaged cache is as good as none.
    pub fn read(capsule: &Capsule, file: &Path, snapshot: SnapshotId) -> Option<Self> {
        let mut bytes = fs::read(file).ok()?;
        let (head, sealed) = bytes.split_at_mut_checked(MAGIC.len())?;
        if head != MAGIC {
            return None;
        }
        let name = name(capsule);
        let plain = seal::open(capsule.keys(), Sealed::Cache, &name, sealed).ok()?;
        let mut bytes = Bytes::new(plain);
        if bytes.array("snapshot").ok()? != snapshot.0 {
            return None;
        }
        let mut list = Vec::with_capacity(bytes.left() / RECORD);
        while bytes.left() > 0 {
            list.push(Seen {
                path: u64::from_le_bytes(bytes.array("path").ok()?),
                inode: u64::from_le_bytes(bytes.array("inode").ok()?),
                ctime_ns: i64::from_le_bytes(bytes.array("ctime").ok()?),
            });
        }
        Some(Self { list })
    }

    /// Writes what a save saw.
    pub fn write(
        capsule: &Capsule,
        file: &Path,
        snapshot: SnapshotId,
        mut seen: Vec<Seen>,
    ) -> Result<(), Error> {
        seen.sort_unstable();
        let mut plain = snapshot.0.to_vec();
        plain.reserve(seen.len() * RECORD);
        for seen in &seen {
            plain.extend_from_slice(&seen.path.to_le_bytes());
            plain.extend_from_slice(&seen.inode.to_le_bytes());
            plain.extend_from_slice(&seen.ctime_ns.to_le_bytes());
        }
        drop(seen);
        let mut bytes = MAGIC.to_vec();
        let name = name(capsule);
        seal::seal(capsule.keys(), Sealed::Cache, &name, &plain, &mut bytes)?;
        let written = (|| -> io::Result<()> {
            if let Some(folder) = file.parent() {
                fs::create_dir_all(folder)?;
            }
            // Not made durable: after a loss of power the seal tells.
            let next = file.with_extension(format!("{snapshot}"));
            fs::write(&next, &bytes)?;
            fs::rename(&next, file)
        })();
        written.map_err(|source| Error::Files {
            path: file.into(),
            source,
        })
    }

    /// Whether the file at a path is the one that was saved, unchanged.
    pub fn vouches_for(&self, seen: Seen) -> bool {
        self.list.binary_search(&seen).is_ok()
    }
}

/// The cache's file for what is saved under a label.
pub fn file(capsule: &Capsule, folder: &Path, label: &[u8]) -> PathBuf {
    let label = blake3::hash(label).to_hex();
    folder.join(format!("{}-{}.stat", capsule.id(), &label[..16]))
}

fn name(capsule: &Capsule) -> [u8; 16] {
    capsule.id().0
}

/// Goes on hashing a path: from its folder's hash and a name. FNV-1a: it only has to keep honest paths
/// apart.
pub(crate) fn hash_path(folder: u64, name: &[u8]) -> u64 {
    let mut hash = folder;
    for byte in name.iter().chain(b"/") {
        hash ^= u64::from(*byte);
        hash = hash.wrapping_mul(0x0100_0000_01b3);
    }
    hash
}

/// Where the hash of a path begins.
pub(crate) const HASH_START: u64 = 0xcbf2_9ce4_8422_2325;
