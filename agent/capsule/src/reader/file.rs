//! A file's bytes in order, holes as holes.

use crate::{
    entry::{Content, FileNode, Piece, Pieces},
    error::{Damage, Error},
    id::ChunkId,
    key::Kind,
};

use super::{Chunk, Reader};

/// What comes next in a file.
#[derive(Debug)]
pub enum Stretch {
    Inline(Vec<u8>),
    Chunk(Chunk),
    Hole(u64),
}

/// Walks a file's pieces, holding one list of each depth.
pub struct FileReader<'r, 'a> {
    reader: &'r Reader<'a>,
    inline: Option<Vec<u8>>,
    /// Lists under way, each reversed so that the next piece is its last.
    lists: Vec<Pieces>,
}

impl<'r, 'a> FileReader<'r, 'a> {
    pub fn new(reader: &'r Reader<'a>, file: &FileNode) -> Self {
        let (inline, lists) = match &file.content {
            Content::Inline(bytes) => (Some(bytes.clone()), Vec::new()),
            Content::Pieces(pieces) => (None, vec![reversed(pieces.clone())]),
        };
        Self {
            reader,
            inline,
            lists,
        }
    }

    /// The next data chunk's id or a hole, without reading data.
    pub fn next_piece(&mut self) -> Result<Option<Piece>, Error> {
        while let Some(list) = self.lists.last_mut() {
            let depth = list.depth;
            match list.list.pop() {
                None => drop(self.lists.pop()),
                Some(Piece {
                    bytes,
                    chunk: Some(id),
                }) if depth > 0 => self.descend(&id, depth, bytes)?,
                Some(piece) => return Ok(Some(piece)),
            }
        }
        Ok(None)
    }

    fn descend(&mut self, id: &ChunkId, depth: u8, bytes: u64) -> Result<(), Error> {
        let below = self.reader.pieces(id)?;
        if below.depth >= depth {
            let error = crate::encoding::Error::Value("depth");
            return Err(self.reader.damaged(Kind::Tree, id, error));
        }
        if below.length() != Some(bytes) {
            let error = crate::encoding::Error::Value("pieces");
            return Err(self.reader.damaged(Kind::Tree, id, error));
        }
        self.lists.push(reversed(below));
        Ok(())
    }

    /// The next bytes of the file.
    pub fn next_stretch(&mut self) -> Result<Option<Stretch>, Error> {
        if let Some(inline) = self.inline.take() {
            return Ok(Some(Stretch::Inline(inline)));
        }
        let Some(piece) = self.next_piece()? else {
            return Ok(None);
        };
        let Some(id) = piece.chunk else {
            return Ok(Some(Stretch::Hole(piece.bytes)));
        };
        let chunk = self.reader.chunk(Kind::Data, &id)?;
        if chunk.len() as u64 == piece.bytes {
            Ok(Some(Stretch::Chunk(chunk)))
        } else {
            Err(Error::damaged(
                id.to_string(),
                Damage::Length {
                    expected: piece.bytes,
                    found: chunk.len() as u64,
                },
            ))
        }
    }
}

fn reversed(mut pieces: Pieces) -> Pieces {
    pieces.list.reverse();
    pieces
}
