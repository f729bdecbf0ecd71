//! A directory's entries in order, one chunk of it in memory at a time.

use crate::{
    encoding, entry::Entry, error::Error, id::ChunkId, key::Kind, reader::Reader, tree::TreeNode,
};

/// No directory needs higher trees; a chain of branches that is longer was made to hurt.
const HEIGHT_MAX: usize = 16;

/// Walks the entries of a directory of a snapshot.
pub struct Cursor<'r, 'a> {
    reader: &'r Reader<'a>,
    /// Chunks still to read, the next one last, with their height's number.
    ahead: Vec<(usize, ChunkId)>,
    entries: std::vec::IntoIter<Entry>,
    peeked: Option<Entry>,
    last: Option<Vec<u8>>,
    /// Names up to this one are not wanted.
    behind: Option<Vec<u8>>,
}

impl<'r, 'a> Cursor<'r, 'a> {
    pub fn new(reader: &'r Reader<'a>, tree: ChunkId) -> Self {
        Self {
            reader,
            ahead: vec![(0, tree)],
            entries: Vec::new().into_iter(),
            peeked: None,
            last: None,
            behind: None,
        }
    }

    /// Begins with the first name behind `name`. What is before it is not read.
    pub fn behind(reader: &'r Reader<'a>, tree: ChunkId, name: Vec<u8>) -> Self {
        Self {
            behind: Some(name),
            ..Self::new(reader, tree)
        }
    }

    /// The next entry, which stays next.
    pub fn peek(&mut self) -> Result<Option<&Entry>, Error> {
        if self.peeked.is_none() {
            self.peeked = self.read()?;
        }
        Ok(self.peeked.as_ref())
    }

    /// The next entry.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, Error> {
        match self.peeked.take() {
            Some(entry) => Ok(Some(entry)),
            None => self.read(),
        }
    }

    /// The entry of a name; smaller ones are passed over, so names are asked for in order.
    pub fn seek(&mut self, name: &[u8]) -> Result<Option<Entry>, Error> {
        while let Some(entry) = self.peek()? {
            match entry.name.as_slice().cmp(name) {
                std::cmp::Ordering::Less => drop(self.peeked.take()),
                std::cmp::Ordering::Equal => return Ok(self.peeked.take()),
                std::cmp::Ordering::Greater => break,
            }
        }
        Ok(None)
    }

    fn read(&mut self) -> Result<Option<Entry>, Error> {
        loop {
            if let Some(entry) = self.entries.next() {
                return Ok(Some(entry));
            }
            let Some((height, id)) = self.ahead.pop() else {
                return Ok(None);
            };
            let wrong = |error| self.reader.damaged(Kind::Tree, &id, error);
            match self.reader.tree(&id)? {
                TreeNode::Leaf(entries) => {
                    if let (Some(last), Some(first)) = (&self.last, entries.first())
                        && *last >= first.name
                    {
                        return Err(wrong(encoding::Error::Order));
                    }
                    if let Some(entry) = entries.last() {
                        self.last = Some(entry.name.clone());
                    }
                    let wanted = self.behind.as_ref().map_or(0, |behind| {
                        entries.partition_point(|entry| entry.name <= *behind)
                    });
                    self.entries = entries.into_iter();
                    if wanted > 0 {
                        self.entries.nth(wanted - 1);
                    }
                }
                TreeNode::Branch(children) => {
                    if height >= HEIGHT_MAX {
                        return Err(wrong(encoding::Error::Value("height")));
                    }
                    let passed = self.behind.as_ref().map_or(0, |behind| {
                        let first = children.partition_point(|child| child.first <= *behind);
                        first.saturating_sub(1)
                    });
                    let wanted = &children[passed..];
                    let below = wanted.iter().rev().map(|child| (height + 1, child.id));
                    self.ahead.extend(below);
                }
            }
        }
    }
}
