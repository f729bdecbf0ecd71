//! Directories as chunks: entries sorted by name, split where their names say so.
//!
//! A directory of up to about 32 KiB is one chunk. A larger one is several, under branches that say with
//! which name each begins. Where one ends depends on nothing but its last name and that entry's size, so
//! one changed file among a hundred thousand changes one chunk and the branch above it.

use crate::{
    encoding::{self, Bytes, put_bytes, put_number},
    entry::{Entry, PIECES_MAX, Piece, Pieces, is_name},
    error::Error,
    id::ChunkId,
    key::Keys,
};

/// How large leaves come out on average.
const LEAF: u64 = 32 << 10;
/// No leaf grows beyond this, whatever its names are.
const LEAF_MAX: usize = 128 << 10;
/// A branch ends behind one in so many of its children.
const BRANCH: u64 = 256;
const BRANCH_MAX: usize = 400;
/// A list of pieces ends behind one in so many.
const LIST: u64 = 1024;
const LIST_MAX: usize = 4096;

const IS_LEAF: u8 = 0;
const IS_BRANCH: u8 = 1;

/// Where finished chunks of trees go.
pub trait TreeSink {
    /// Keeps a chunk and says its id.
    fn put_tree(&mut self, plain: &[u8]) -> Result<ChunkId, Error>;
    fn keys(&self) -> &Keys;
}

/// One chunk of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TreeNode {
    Leaf(Vec<Entry>),
    Branch(Vec<Child>),
}

/// A chunk below a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    /// No name below it is smaller.
    pub first: Vec<u8>,
    pub id: ChunkId,
    /// Entries below it.
    pub entries: u64,
}

impl TreeNode {
    /// Reads a chunk of a tree.
    pub fn decode(plain: &[u8]) -> Result<Self, encoding::Error> {
        let mut bytes = Bytes::new(plain);
        let node = match bytes.byte("tree")? {
            IS_LEAF => {
                let count = bytes.count(8, "entries")?;
                let mut entries: Vec<Entry> = Vec::with_capacity(count);
                for _ in 0..count {
                    let entry = Entry::decode(&mut bytes)?;
                    if entries.last().is_some_and(|last| last.name >= entry.name) {
                        return Err(encoding::Error::Order);
                    }
                    entries.push(entry);
                }
                Self::Leaf(entries)
            }
            IS_BRANCH => {
                let count = bytes.count(35, "children")?;
                let mut children: Vec<Child> = Vec::with_capacity(count);
                for _ in 0..count {
                    let first = bytes.bytes("name")?.to_vec();
                    if !is_name(&first) {
                        return Err(encoding::Error::NameOutside);
                    }
                    if children.last().is_some_and(|last| last.first >= first) {
                        return Err(encoding::Error::Order);
                    }
                    children.push(Child {
                        first,
                        id: ChunkId(bytes.array("tree")?),
                        entries: bytes.number("entries")?,
                    });
                }
                Self::Branch(children)
            }
            _ => return Err(encoding::Error::Value("tree")),
        };
        bytes.end()?;
        Ok(node)
    }
}

/// Builds a directory's chunks from its entries in order, holding no more than one of each height.
#[derive(Default)]
pub struct TreeBuilder {
    leaf: Vec<u8>,
    leaf_first: Vec<u8>,
    leaf_entries: u64,
    branches: Vec<Vec<Child>>,
    scratch: Vec<u8>,
}

impl TreeBuilder {
    /// Adds an entry; its name is behind that of the one before.
    pub fn push(&mut self, entry: &Entry, sink: &mut dyn TreeSink) -> Result<(), Error> {
        let mut encoded = std::mem::take(&mut self.scratch);
        encoded.clear();
        entry.encode(&mut encoded);
        if self.leaf.len() + encoded.len() > LEAF_MAX {
            self.close_leaf(sink)?;
        }
        if self.leaf_entries == 0 {
            self.leaf_first.clone_from(&entry.name);
        }
        self.leaf.extend_from_slice(&encoded);
        self.leaf_entries += 1;
        let share = (u64::MAX / LEAF).saturating_mul(encoded.len() as u64);
        self.scratch = encoded;
        if sink.keys().split_number(&entry.name) < share {
            self.close_leaf(sink)?;
        }
        Ok(())
    }

    /// Ends the directory.
    pub fn finish(mut self, sink: &mut dyn TreeSink) -> Result<ChunkId, Error> {
        if self.leaf_entries > 0 || self.branches.is_empty() {
            self.close_leaf(sink)?;
        }
        let mut height = 0;
        loop {
            let is_top = height + 1 == self.branches.len();
            if is_top && self.branches[height].len() == 1 {
                return Ok(self.branches[height][0].id);
            }
            if !self.branches[height].is_empty() {
                self.close_branch(height, sink)?;
            }
            height += 1;
        }
    }

    fn close_leaf(&mut self, sink: &mut dyn TreeSink) -> Result<(), Error> {
        let mut plain = Vec::with_capacity(self.leaf.len() + 8);
        plain.push(IS_LEAF);
        put_number(&mut plain, self.leaf_entries);
        plain.append(&mut self.leaf);
        let child = Child {
            first: std::mem::take(&mut self.leaf_first),
            id: sink.put_tree(&plain)?,
            entries: std::mem::take(&mut self.leaf_entries),
        };
        self.add(0, child, sink)
    }

    fn add(&mut self, height: usize, child: Child, sink: &mut dyn TreeSink) -> Result<(), Error> {
        if self.branches.len() == height {
            self.branches.push(Vec::new());
        }
        // Another number than the one that ended the leaf, else every branch would have one child.
        let number = sink.keys().split_number(&child.id.0);
        let branch = &mut self.branches[height];
        branch.push(child);
        if branch.len() > 1 && (number.is_multiple_of(BRANCH) || branch.len() >= BRANCH_MAX) {
            self.close_branch(height, sink)?;
        }
        Ok(())
    }

    fn close_branch(&mut self, height: usize, sink: &mut dyn TreeSink) -> Result<(), Error> {
        let children = std::mem::take(&mut self.branches[height]);
        let mut plain = vec![IS_BRANCH];
        put_number(&mut plain, children.len() as u64);
        for child in &children {
            put_bytes(&mut plain, &child.first);
            plain.extend_from_slice(&child.id.0);
            put_number(&mut plain, child.entries);
        }
        let child = Child {
            entries: children.iter().map(|child| child.entries).sum(),
            id: sink.put_tree(&plain)?,
            first: children.into_iter().next().map_or(Vec::new(), |c| c.first),
        };
        self.add(height + 1, child, sink)
    }
}

/// Builds a file's list of pieces; one of many pieces becomes lists of lists.
#[derive(Default)]
pub struct PieceBuilder {
    levels: Vec<Vec<Piece>>,
}

impl PieceBuilder {
    /// Adds a stretch of the file. Holes side by side become one.
    pub fn push(&mut self, piece: Piece, sink: &mut dyn TreeSink) -> Result<(), Error> {
        if piece.bytes == 0 {
            return Ok(());
        }
        if piece.chunk.is_none()
            && let Some(last) = self.levels.first_mut().and_then(|level| level.last_mut())
            && last.chunk.is_none()
        {
            last.bytes += piece.bytes;
            return Ok(());
        }
        self.add(0, piece, sink)
    }

    fn add(&mut self, depth: usize, piece: Piece, sink: &mut dyn TreeSink) -> Result<(), Error> {
        if self.levels.len() == depth {
            self.levels.push(Vec::new());
        }
        let level = &mut self.levels[depth];
        level.push(piece);
        let ends = match &piece.chunk {
            Some(id) => {
                level.len() > PIECES_MAX && sink.keys().split_number(&id.0).is_multiple_of(LIST)
            }
            None => false,
        };
        if ends || level.len() >= LIST_MAX {
            self.close(depth, sink)?;
        }
        Ok(())
    }

    fn close(&mut self, depth: usize, sink: &mut dyn TreeSink) -> Result<(), Error> {
        let pieces = Pieces {
            depth: u8::try_from(depth).expect("lists are a few deep"),
            list: std::mem::take(&mut self.levels[depth]),
        };
        let mut plain = Vec::new();
        pieces.encode(&mut plain);
        let piece = Piece {
            bytes: pieces.list.iter().map(|piece| piece.bytes).sum(),
            chunk: Some(sink.put_tree(&plain)?),
        };
        self.add(depth + 1, piece, sink)
    }

    /// Ends the file.
    pub fn finish(mut self, sink: &mut dyn TreeSink) -> Result<Pieces, Error> {
        let mut depth = 0;
        while depth < self.levels.len() {
            let is_top = depth + 1 == self.levels.len();
            if is_top && self.levels[depth].len() <= PIECES_MAX {
                return Ok(Pieces {
                    depth: u8::try_from(depth).expect("lists are a few deep"),
                    list: std::mem::take(&mut self.levels[depth]),
                });
            }
            if !self.levels[depth].is_empty() {
                self.close(depth, sink)?;
            }
            depth += 1;
        }
        Ok(Pieces::default())
    }
}
