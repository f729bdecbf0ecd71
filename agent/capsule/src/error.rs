//! What can go wrong between a capsule, its store and the files.

use std::{io, path::PathBuf};

use crate::{encoding, id::SnapshotId, store};

/// Why an operation on a capsule stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the store does not do what was asked")]
    Store(#[from] store::Error),
    #[error("there is no capsule in this store")]
    NoCapsule,
    #[error("there is a capsule in this store already")]
    CapsuleExists,
    #[error(
        "the key is not the one this capsule was made with, or the capsule's first object is damaged"
    )]
    WrongKey,
    #[error("the capsule has format {found}, this program reads up to {known}")]
    FormatUnknown { found: u32, known: u32 },
    #[error("object `{object}` is damaged")]
    Damaged {
        object: String,
        #[source]
        damage: Damage,
    },
    #[error("chunk `{chunk}` is in no pack")]
    ChunkMissing { chunk: String },
    #[error("there is no snapshot `{0}`")]
    SnapshotNotFound(String),
    #[error("`{text}` names {count} snapshots")]
    SnapshotAmbiguous { text: String, count: usize },
    #[error("`{path}` is not in snapshot `{snapshot}`")]
    PathNotFound { path: String, snapshot: SnapshotId },
    #[error("`{path}` is {is}, not {wanted}")]
    WrongKind {
        path: String,
        is: &'static str,
        wanted: &'static str,
    },
    #[error("`{}` cannot be used", path.display())]
    Files {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("compression gave out")]
    Compression(#[source] io::Error),
    #[error(
        "a save began in generation {began} and chunks it reuses were given up in {now}; save again"
    )]
    Overtaken { began: u64, now: u64 },
    #[error("object `{object}` has {found} bytes in the store, {written} were written")]
    NotStored {
        object: String,
        written: u64,
        found: u64,
    },
    #[error("it was cancelled")]
    Cancelled,
    #[error("more would be stored than may be")]
    NoRoom,
    #[error("there is no room for what is restored")]
    TargetFull,
    #[error("a worker of this operation ended early")]
    WorkerGone,
    #[error("the operating system gave no randomness")]
    Randomness,
}

/// How bytes of the store differ from what was written.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum Damage {
    #[error("it does not begin like such an object")]
    Magic,
    #[error("it is shorter than what it holds")]
    Short,
    #[error("its seal is broken")]
    Seal,
    #[error("what is sealed in it cannot be read")]
    Encoding(#[from] encoding::Error),
    #[error("it cannot be decompressed")]
    Compression,
    #[error("chunk `{0}` has other bytes than its id says")]
    Content(String),
    #[error("it is not there")]
    Missing,
    #[error("it has {found} bytes and should have {expected}")]
    Length { expected: u64, found: u64 },
}

impl Error {
    pub(crate) fn damaged(object: impl Into<String>, damage: impl Into<Damage>) -> Self {
        Self::Damaged {
            object: object.into(),
            damage: damage.into(),
        }
    }

    /// Whether the same call may succeed later, unchanged.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Store(error) => error.is_retryable(),
            Self::Overtaken { .. } => true,
            _ => false,
        }
    }
}
