//! Which chunks snapshots need.

use std::{collections::HashSet, hash::BuildHasher};

use crate::{
    entry::{Content, Entry, FileNode, Node, Xattrs},
    error::Error,
    id::ChunkId,
    key::Kind,
    reader::Reader,
    snapshot::Snapshot,
    tree::TreeNode,
};

/// Chunks by kind.
#[derive(Debug, Default)]
pub struct Needed {
    pub trees: HashSet<ChunkId>,
    pub data: HashSet<ChunkId>,
}

/// All chunks a snapshot needs. Trees already in `known` are not walked again.
///
/// Fails if a chunk is in no pack: then nothing may be concluded from what was found.
pub fn needed<S: BuildHasher>(
    reader: &Reader<'_>,
    snapshot: &Snapshot,
    known: &mut HashSet<ChunkId, S>,
) -> Result<Needed, Error> {
    let mut needed = Needed::default();
    for root in &snapshot.roots {
        let mut trees = entry(reader, &root.entry, &mut needed)?
            .into_iter()
            .collect::<Vec<_>>();
        while let Some(tree) = trees.pop() {
            if !known.insert(tree) {
                continue;
            }
            needed.trees.insert(tree);
            match reader.tree(&tree)? {
                TreeNode::Branch(children) => {
                    trees.extend(children.iter().map(|child| child.id));
                }
                TreeNode::Leaf(entries) => {
                    for one in &entries {
                        trees.extend(entry(reader, one, &mut needed)?);
                    }
                }
            }
        }
    }
    Ok(needed)
}

/// Notes what an entry needs itself; answers the tree below it.
fn entry(
    reader: &Reader<'_>,
    entry: &Entry,
    needed: &mut Needed,
) -> Result<Option<ChunkId>, Error> {
    if let Xattrs::Chunk(id) = &entry.meta.xattrs {
        present(reader, Kind::Tree, id)?;
        needed.trees.insert(*id);
    }
    match &entry.node {
        Node::Directory { tree, .. } => Ok(Some(*tree)),
        Node::Symlink { .. } => Ok(None),
        Node::File(FileNode { content, .. }) => {
            if let Content::Pieces(top) = content {
                let mut lists = vec![top.clone()];
                while let Some(list) = lists.pop() {
                    for id in list.list.iter().filter_map(|piece| piece.chunk) {
                        if list.depth == 0 {
                            present(reader, Kind::Data, &id)?;
                            needed.data.insert(id);
                        } else if needed.trees.insert(id) {
                            lists.push(reader.pieces(&id)?);
                        }
                    }
                }
            }
            Ok(None)
        }
    }
}

fn present(reader: &Reader<'_>, kind: Kind, id: &ChunkId) -> Result<(), Error> {
    match reader.index(kind)?.find(id) {
        Some(_) => Ok(()),
        None => Err(Error::ChunkMissing {
            chunk: id.to_string(),
        }),
    }
}
