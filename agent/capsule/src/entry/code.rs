//! Entries as bytes.

use super::{
    Content, Entry, FileNode, Meta, Node, PIECES_MAX, Piece, Pieces, Time, XattrList, Xattrs,
    is_name,
};
use crate::{
    encoding::{Bytes, Error, put_bytes, put_number, put_signed},
    id::ChunkId,
};

const FILE: u8 = 0;
const DIRECTORY: u8 = 1;
const SYMLINK: u8 = 2;
const KIND: u8 = 0x0f;
const UNSETTLED: u8 = 0x10;
const LINKED: u8 = 0x20;
const XATTRS: u8 = 0x40;
const XATTRS_APART: u8 = 0x80;

/// A list of a list of lists of lists: more than any file needs.
const DEPTH_MAX: u8 = 6;
/// Nobody follows a longer one.
const TARGET_MAX: usize = 4096;

impl Entry {
    /// Appends the entry.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, &self.name);
        self.encode_nameless(out);
    }

    /// Appends everything but the name.
    pub fn encode_nameless(&self, out: &mut Vec<u8>) {
        let mut flags = match &self.node {
            Node::File(_) => FILE,
            Node::Directory { .. } => DIRECTORY,
            Node::Symlink { .. } => SYMLINK,
        };
        if let Node::File(file) = &self.node {
            flags |= if file.is_unsettled { UNSETTLED } else { 0 };
            flags |= if file.link.is_some() { LINKED } else { 0 };
        }
        flags |= match &self.meta.xattrs {
            Xattrs::Chunk(_) => XATTRS_APART,
            Xattrs::Here(list) if list.is_empty() => 0,
            Xattrs::Here(_) => XATTRS,
        };
        out.push(flags);
        put_number(out, self.meta.mode.into());
        put_number(out, self.meta.uid.into());
        put_number(out, self.meta.gid.into());
        put_signed(out, self.meta.mtime.seconds);
        put_number(out, self.meta.mtime.nanos.into());
        match &self.meta.xattrs {
            Xattrs::Chunk(id) => out.extend_from_slice(&id.0),
            Xattrs::Here(list) if list.is_empty() => {}
            Xattrs::Here(list) => encode_xattrs(list, out),
        }
        match &self.node {
            Node::File(file) => encode_file(file, out),
            Node::Directory { tree, files, bytes } => {
                out.extend_from_slice(&tree.0);
                put_number(out, *files);
                put_number(out, *bytes);
            }
            Node::Symlink { target } => put_bytes(out, target),
        }
    }

    /// Reads what [`Self::encode`] wrote.
    pub fn decode(bytes: &mut Bytes<'_>) -> Result<Self, Error> {
        let name = bytes.bytes("name")?;
        if !is_name(name) {
            return Err(Error::NameOutside);
        }
        Self::decode_nameless(name.to_vec(), bytes)
    }

    /// Reads what [`Self::encode_nameless`] wrote.
    pub fn decode_nameless(name: Vec<u8>, bytes: &mut Bytes<'_>) -> Result<Self, Error> {
        let flags = bytes.byte("flags")?;
        let is_file = flags & KIND == FILE;
        if (!is_file && flags & (UNSETTLED | LINKED) != 0)
            || flags & (XATTRS | XATTRS_APART) == (XATTRS | XATTRS_APART)
        {
            return Err(Error::Value("flags"));
        }
        let mode = bytes.number("mode")?;
        let mode = u16::try_from(mode)
            .ok()
            .filter(|mode| *mode <= 0o7777)
            .ok_or(Error::Value("mode"))?;
        let uid = bytes.number32("uid")?;
        let gid = bytes.number32("gid")?;
        let seconds = bytes.signed("mtime")?;
        let nanos = bytes.number32("mtime")?;
        if nanos >= 1_000_000_000 {
            return Err(Error::Value("mtime"));
        }
        let xattrs = if flags & XATTRS_APART != 0 {
            Xattrs::Chunk(ChunkId(bytes.array("xattrs")?))
        } else if flags & XATTRS != 0 {
            let list = decode_xattrs(bytes)?;
            if list.is_empty() {
                return Err(Error::Value("xattrs"));
            }
            Xattrs::Here(list)
        } else {
            Xattrs::default()
        };
        let node = match flags & KIND {
            FILE => Node::File(decode_file(flags, bytes)?),
            DIRECTORY => Node::Directory {
                tree: ChunkId(bytes.array("tree")?),
                files: bytes.number("files")?,
                bytes: bytes.number("bytes")?,
            },
            SYMLINK => {
                let target = bytes.bytes("target")?;
                if target.is_empty() || target.len() > TARGET_MAX || target.contains(&0) {
                    return Err(Error::Value("target"));
                }
                Node::Symlink {
                    target: target.to_vec(),
                }
            }
            _ => return Err(Error::Value("kind")),
        };
        let meta = Meta {
            mode,
            uid,
            gid,
            mtime: Time { seconds, nanos },
            xattrs,
        };
        Ok(Self { name, meta, node })
    }
}

/// Appends attributes with their count.
pub(crate) fn encode_xattrs(list: &[(Vec<u8>, Vec<u8>)], out: &mut Vec<u8>) {
    put_number(out, list.len() as u64);
    for (name, value) in list {
        put_bytes(out, name);
        put_bytes(out, value);
    }
}

/// Reads what [`encode_xattrs`] wrote.
pub(crate) fn decode_xattrs(bytes: &mut Bytes<'_>) -> Result<XattrList, Error> {
    let count = bytes.count(2, "xattrs")?;
    let mut list: XattrList = Vec::with_capacity(count.min(64));
    for _ in 0..count {
        let name = bytes.bytes("xattr name")?;
        if name.is_empty() || name.len() > 255 || name.contains(&0) {
            return Err(Error::Value("xattr name"));
        }
        if list.last().is_some_and(|(last, _)| last.as_slice() >= name) {
            return Err(Error::Order);
        }
        list.push((name.to_vec(), bytes.bytes("xattr value")?.to_vec()));
    }
    Ok(list)
}

fn encode_file(file: &FileNode, out: &mut Vec<u8>) {
    put_number(out, file.size);
    if let Some(link) = &file.link {
        out.extend_from_slice(link);
    }
    match &file.content {
        Content::Inline(bytes) => {
            out.push(0);
            put_bytes(out, bytes);
        }
        Content::Pieces(pieces) => {
            out.push(1);
            pieces.encode(out);
        }
    }
}

fn decode_file(flags: u8, bytes: &mut Bytes<'_>) -> Result<FileNode, Error> {
    let size = bytes.number("size")?;
    let link = if flags & LINKED != 0 {
        Some(bytes.array("link")?)
    } else {
        None
    };
    let (content, length) = match bytes.byte("content")? {
        0 => {
            let inline = bytes.bytes("content")?;
            (Content::Inline(inline.to_vec()), Some(inline.len() as u64))
        }
        1 => {
            let pieces = Pieces::decode(bytes)?;
            if pieces.list.len() > PIECES_MAX {
                return Err(Error::Value("pieces"));
            }
            let length = pieces.length();
            (Content::Pieces(pieces), length)
        }
        _ => return Err(Error::Value("content")),
    };
    if length != Some(size) {
        return Err(Error::Value("size"));
    }
    Ok(FileNode {
        size,
        link,
        is_unsettled: flags & UNSETTLED != 0,
        content,
    })
}

impl Pieces {
    /// How many bytes of the file it stands for; none if that is no length.
    pub fn length(&self) -> Option<u64> {
        self.list
            .iter()
            .try_fold(0u64, |sum, piece| sum.checked_add(piece.bytes))
    }

    /// Appends the list.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.depth);
        put_number(out, self.list.len() as u64);
        for piece in &self.list {
            match &piece.chunk {
                None => {
                    put_number(out, 0);
                    put_number(out, piece.bytes);
                }
                Some(id) => {
                    put_number(out, piece.bytes);
                    out.extend_from_slice(&id.0);
                }
            }
        }
    }

    /// Reads what [`Self::encode`] wrote.
    pub fn decode(bytes: &mut Bytes<'_>) -> Result<Self, Error> {
        let depth = bytes.byte("depth")?;
        if depth > DEPTH_MAX {
            return Err(Error::Value("depth"));
        }
        let count = bytes.count(2, "pieces")?;
        let mut list = Vec::with_capacity(count.min(4096));
        for _ in 0..count {
            let length = bytes.number("piece")?;
            let piece = if length == 0 {
                let bytes = bytes.number("hole")?;
                if bytes == 0 {
                    return Err(Error::Value("hole"));
                }
                Piece { bytes, chunk: None }
            } else {
                Piece {
                    bytes: length,
                    chunk: Some(ChunkId(bytes.array("chunk id")?)),
                }
            };
            list.push(piece);
        }
        Ok(Self { depth, list })
    }
}
