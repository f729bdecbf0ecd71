//! What is known of one file, directory or symbolic link.

mod code;

use crate::id::ChunkId;

pub(crate) use code::{decode_xattrs, encode_xattrs};

/// Longest name of a file on Linux, in bytes.
pub const NAME_MAX: usize = 255;
/// A list of chunks with more pieces than this is a chunk of its own.
pub const PIECES_MAX: usize = 64;

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Raw bytes, in whatever encoding; never `/`, NUL, `.` or `..`.
    pub name: Vec<u8>,
    pub meta: Meta,
    pub node: Node,
}

/// What entries of all kinds have.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Meta {
    /// The lower 12 bits of `st_mode`.
    pub mode: u16,
    pub uid: u32,
    pub gid: u32,
    pub mtime: Time,
    pub xattrs: Xattrs,
}

/// A point in time, seconds and nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Time {
    pub seconds: i64,
    /// Below a thousand million.
    pub nanos: u32,
}

impl Time {
    /// In one number, at the ends of its range if it does not fit.
    pub fn nanoseconds(self) -> i64 {
        self.seconds
            .saturating_mul(1_000_000_000)
            .saturating_add(self.nanos.into())
    }
}

/// Attributes by name, in order: names and values.
pub type XattrList = Vec<(Vec<u8>, Vec<u8>)>;

/// Extended attributes, ACLs among them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Xattrs {
    Here(XattrList),
    /// The same in a chunk of its own, since there are many bytes.
    Chunk(ChunkId),
}

impl Default for Xattrs {
    fn default() -> Self {
        Self::Here(Vec::new())
    }
}

impl Xattrs {
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Here(list) if list.is_empty())
    }
}

/// What is different for each kind of entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    File(FileNode),
    Directory {
        tree: ChunkId,
        /// Files below it, at any depth.
        files: u64,
        /// Their sizes.
        bytes: u64,
    },
    Symlink {
        target: Vec<u8>,
    },
}

impl Node {
    /// For people.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::File(_) => "a file",
            Self::Directory { .. } => "a directory",
            Self::Symlink { .. } => "a symbolic link",
        }
    }
}

/// A regular file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileNode {
    pub size: u64,
    /// Files with the same value are one file under several names.
    pub link: Option<[u8; 16]>,
    /// It changed each time it was read: its bytes may be from different moments.
    pub is_unsettled: bool,
    pub content: Content,
}

/// Where a file's bytes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    Inline(Vec<u8>),
    Pieces(Pieces),
}

/// Parts of a file in order, or parts of its list of parts.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Pieces {
    /// 0: chunks are data. Otherwise each is a list of pieces one lower.
    pub depth: u8,
    pub list: Vec<Piece>,
}

/// A stretch of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    pub bytes: u64,
    /// None where nothing is: a hole.
    pub chunk: Option<ChunkId>,
}

/// Whether a name stays in its directory.
pub fn is_name(name: &[u8]) -> bool {
    !name.is_empty()
        && name.len() <= NAME_MAX
        && name != b"."
        && name != b".."
        && !name.contains(&b'/')
        && !name.contains(&0)
}
