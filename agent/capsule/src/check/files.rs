//! Which files of a snapshot can be restored whole.

use std::collections::HashSet;

use crate::{
    entry::{Entry, Node, Xattrs},
    error::Error,
    id::ChunkId,
    index::Index,
    key::Kind,
    reader::{FileReader, Reader},
    snapshot::{Lines, Snapshot},
    tree::TreeNode,
};

use super::BadChunks;

pub(super) struct Look<'l, 'a> {
    pub(super) reader: &'l Reader<'a>,
    pub(super) trees: &'l Index,
    pub(super) data: &'l Index,
    pub(super) bad: &'l BadChunks,
    /// Trees that were found good with all below them, by this snapshot or one before.
    pub(super) known: &'l mut HashSet<ChunkId>,
    pub(super) lines: Lines,
}

impl Look<'_, '_> {
    pub(super) fn snapshot(&mut self, snapshot: &Snapshot) -> Result<(), Error> {
        let mut ahead = Vec::new();
        for root in &snapshot.roots {
            self.entry(&root.path, &root.entry, &mut ahead)?;
        }
        while let Some((path, tree)) = ahead.pop() {
            if !self.known.insert(tree) {
                continue;
            }
            match self.reader.tree(&tree) {
                Ok(TreeNode::Branch(children)) => {
                    ahead.extend(children.iter().map(|child| (path.clone(), child.id)));
                }
                Ok(TreeNode::Leaf(entries)) => {
                    for entry in &entries {
                        let mut below = path.clone();
                        if below != b"/" {
                            below.push(b'/');
                        }
                        below.extend_from_slice(&entry.name);
                        self.entry(&below, entry, &mut ahead)?;
                    }
                }
                Err(error) => self.bad(&path, error)?,
            }
        }
        Ok(())
    }

    fn entry(
        &mut self,
        path: &[u8],
        entry: &Entry,
        ahead: &mut Vec<(Vec<u8>, ChunkId)>,
    ) -> Result<(), Error> {
        if let Xattrs::Chunk(id) = &entry.meta.xattrs {
            self.chunk(path, Kind::Tree, id);
        }
        match &entry.node {
            Node::Directory { tree, .. } => ahead.push((path.to_vec(), *tree)),
            Node::Symlink { .. } => {}
            Node::File(file) => {
                let mut pieces = FileReader::new(self.reader, file);
                loop {
                    match pieces.next_piece() {
                        Ok(None) => break,
                        Ok(Some(piece)) => {
                            if let Some(id) = &piece.chunk
                                && !self.chunk(path, Kind::Data, id)
                            {
                                break;
                            }
                        }
                        Err(error) => {
                            self.bad(path, error)?;
                            break;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether a chunk can be had. One line a file is enough.
    fn chunk(&mut self, path: &[u8], kind: Kind, id: &ChunkId) -> bool {
        let index = match kind {
            Kind::Tree => self.trees,
            Kind::Data => self.data,
        };
        if let Some(why) = self.bad.get(&(kind, *id)) {
            self.lines.push(path, why.clone());
            return false;
        }
        if index.find(id).is_none() {
            self.lines.push(path, format!("chunk `{id}` is in no pack"));
            return false;
        }
        true
    }

    fn bad(&mut self, path: &[u8], error: Error) -> Result<(), Error> {
        match error {
            Error::Damaged { object, damage } => {
                self.lines.push(path, format!("`{object}`: {damage}"));
                Ok(())
            }
            error @ Error::ChunkMissing { .. } => {
                self.lines.push(path, error.to_string());
                Ok(())
            }
            error => Err(error),
        }
    }
}
