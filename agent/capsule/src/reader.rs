//! Reading a capsule: chunks by id, directories by name, files by stretch.

mod cache;
mod file;

use std::sync::{Arc, OnceLock};

use crate::{
    capsule::Capsule,
    encoding::Bytes,
    entry::{self, Entry, Node, Pieces, XattrList, Xattrs},
    error::{Damage, Error},
    generation::Generation,
    id::ChunkId,
    index::{Index, Place},
    key::Kind,
    pack,
    snapshot::Snapshot,
    store,
    tree::TreeNode,
};

use cache::FrameCache;
pub use file::{FileReader, Stretch};

/// Frames of directories kept: a few megabytes.
const TREE_FRAMES: usize = 24;
/// Frames of data kept, up to four mebibytes each: a small and a large one for each thread of a restore, and
/// some more.
const DATA_FRAMES: usize = 8;

/// Reads chunks of one capsule, from several threads.
pub struct Reader<'a> {
    capsule: &'a Capsule,
    generation: Generation,
    trees: Side,
    data: Side,
}

struct Side {
    kind: Kind,
    index: OnceLock<Index>,
    cache: FrameCache,
}

/// A chunk's plain bytes, within the frame they came in.
#[derive(Clone, Debug)]
pub struct Chunk {
    frame: Arc<Vec<u8>>,
    start: usize,
    end: usize,
}

impl std::ops::Deref for Chunk {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.frame[self.start..self.end]
    }
}

impl<'a> Reader<'a> {
    /// A reader of what the capsule holds; indexes are read when they are needed first.
    pub fn new(capsule: &'a Capsule) -> Result<Self, Error> {
        Ok(Self {
            capsule,
            generation: capsule.generation()?,
            trees: Side {
                kind: Kind::Tree,
                index: OnceLock::new(),
                cache: FrameCache::new(TREE_FRAMES),
            },
            data: Side {
                kind: Kind::Data,
                index: OnceLock::new(),
                cache: FrameCache::new(DATA_FRAMES),
            },
        })
    }

    pub fn capsule(&self) -> &'a Capsule {
        self.capsule
    }

    pub fn generation(&self) -> &Generation {
        &self.generation
    }

    /// Where chunks of a kind are.
    pub fn index(&self, kind: Kind) -> Result<&Index, Error> {
        let side = self.side(kind);
        if let Some(index) = side.index.get() {
            return Ok(index);
        }
        let index = self.capsule.index(kind, &self.generation)?;
        Ok(side.index.get_or_init(|| index))
    }

    fn side(&self, kind: Kind) -> &Side {
        match kind {
            Kind::Data => &self.data,
            Kind::Tree => &self.trees,
        }
    }

    /// A chunk's plain bytes, compared with its id.
    pub fn chunk(&self, kind: Kind, id: &ChunkId) -> Result<Chunk, Error> {
        let index = self.index(kind)?;
        let place = index.find(id).ok_or_else(|| Error::ChunkMissing {
            chunk: id.to_string(),
        })?;
        let chunk = self.at(kind, index, place)?;
        if self.capsule.keys().chunk_id(kind, &chunk) == *id {
            Ok(chunk)
        } else {
            let frame = index.frame(place.frame);
            Err(Error::damaged(
                pack::object(kind, &index.pack(frame.pack)),
                Damage::Content(id.to_string()),
            ))
        }
    }

    fn at(&self, kind: Kind, index: &Index, place: Place) -> Result<Chunk, Error> {
        let side = self.side(kind);
        let frame = side.cache.get(place.frame, |opener| {
            let frame = index.frame(place.frame);
            let object = pack::object(side.kind, &index.pack(frame.pack));
            let sealed = self
                .capsule
                .store()
                .get_range(&object, frame.offset, frame.sealed_bytes as usize)
                .map_err(|error| match error {
                    store::Error::NotFound(_) => Error::damaged(&object, Damage::Missing),
                    store::Error::OutOfRange { .. } => Error::damaged(&object, Damage::Short),
                    error => error.into(),
                })?;
            opener
                .open(
                    self.capsule.keys(),
                    side.kind,
                    &frame.name,
                    sealed,
                    frame.plain_bytes as usize,
                )
                .map_err(|damage| Error::damaged(&object, damage))
        })?;
        let start = place.offset as usize;
        let end = start + place.length as usize;
        Ok(Chunk { frame, start, end })
    }

    pub(crate) fn damaged(&self, kind: Kind, id: &ChunkId, error: crate::encoding::Error) -> Error {
        let pack = self.index(kind).ok().and_then(|index| index.pack_of(id));
        let object = pack.map_or_else(|| id.to_string(), |pack| pack::object(kind, &pack));
        Error::damaged(object, error)
    }

    /// A chunk of a directory.
    pub fn tree(&self, id: &ChunkId) -> Result<TreeNode, Error> {
        let chunk = self.chunk(Kind::Tree, id)?;
        TreeNode::decode(&chunk).map_err(|error| self.damaged(Kind::Tree, id, error))
    }

    /// A list of pieces of a large file.
    pub fn pieces(&self, id: &ChunkId) -> Result<Pieces, Error> {
        let chunk = self.chunk(Kind::Tree, id)?;
        let mut bytes = Bytes::new(&chunk);
        Pieces::decode(&mut bytes)
            .and_then(|pieces| bytes.end().map(|()| pieces))
            .map_err(|error| self.damaged(Kind::Tree, id, error))
    }

    /// Attributes, wherever they are.
    pub fn xattrs(&self, xattrs: &Xattrs) -> Result<XattrList, Error> {
        match xattrs {
            Xattrs::Here(list) => Ok(list.clone()),
            Xattrs::Chunk(id) => {
                let chunk = self.chunk(Kind::Tree, id)?;
                entry::decode_xattrs(&mut Bytes::new(&chunk))
                    .map_err(|error| self.damaged(Kind::Tree, id, error))
            }
        }
    }

    /// The entry of a name in a directory; reads one leaf.
    pub fn find(&self, tree: &ChunkId, name: &[u8]) -> Result<Option<Entry>, Error> {
        let mut id = *tree;
        loop {
            match self.tree(&id)? {
                TreeNode::Leaf(mut entries) => {
                    let at = entries.binary_search_by(|entry| entry.name.as_slice().cmp(name));
                    return Ok(at.ok().map(|at| entries.swap_remove(at)));
                }
                TreeNode::Branch(children) => {
                    let behind = children.partition_point(|child| child.first.as_slice() <= name);
                    match behind.checked_sub(1) {
                        Some(at) => id = children[at].id,
                        None => return Ok(None),
                    }
                }
            }
        }
    }

    /// The entry at an absolute path of a snapshot.
    pub fn lookup(&self, snapshot: &Snapshot, path: &[u8]) -> Result<Entry, Error> {
        let missing = || Error::PathNotFound {
            path: String::from_utf8_lossy(path).into_owned(),
            snapshot: snapshot.id,
        };
        let parts = |path: &[u8]| -> Vec<Vec<u8>> {
            path.split(|b| *b == b'/')
                .filter(|part| !part.is_empty())
                .map(<[u8]>::to_vec)
                .collect()
        };
        let wanted = parts(path);
        let root = snapshot
            .roots
            .iter()
            .map(|root| (parts(&root.path), root))
            .filter(|(parts, _)| wanted.starts_with(parts))
            .max_by_key(|(parts, _)| parts.len())
            .ok_or_else(missing)?;
        let mut entry = root.1.entry.clone();
        for name in &wanted[root.0.len()..] {
            let Node::Directory { tree, .. } = &entry.node else {
                return Err(missing());
            };
            entry = self.find(tree, name)?.ok_or_else(missing)?;
        }
        Ok(entry)
    }
}
