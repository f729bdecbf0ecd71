//! Frames: chunks that are compressed and sealed together.
//!
//! Small files and pages of databases compress far better in company, and one seal costs 40 bytes. A chunk
//! keeps its own id, so it is found, shared and proved alone.

use std::sync::{Arc, Mutex, PoisonError};

use zstd::bulk::{Compressor, Decompressor};

use crate::{
    error::{Damage, Error},
    id::ChunkId,
    key::{Keys, Kind},
    seal::{self, NONCE, Sealed},
};

/// Chunks from this size on are large: they have frames of their own, so that a small file is not read
/// with megabytes around it.
pub const LARGE_FROM: usize = 64 << 10;
/// Frames of large chunks: 5 % smaller than with a mebibyte, for text that repeats itself from afar.
pub const LARGE_FRAME: usize = 4 << 20;
/// Frames of small chunks: one decompression of a millisecond per random read.
pub const SMALL_FRAME: usize = 1 << 20;
/// Frames of trees, which are read one by one when somebody browses.
pub const TREE_FRAME: usize = 256 << 10;
/// A reader takes no more. A frame is closed before it grows past its target, and a chunk is a mebibyte at
/// most.
pub const FRAME_MAX: usize = 8 << 20;

const RAW: u8 = 0;
const ZSTD: u8 = 1;

/// A chunk's place in its frame's plain bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    pub id: ChunkId,
    pub length: u32,
}

/// Plain chunks, one behind the other.
#[derive(Debug)]
pub struct Frame {
    pub kind: Kind,
    pub plain: Vec<u8>,
    pub members: Vec<Member>,
}

/// A frame as it lies in a pack.
#[derive(Debug)]
pub struct SealedFrame {
    pub kind: Kind,
    pub sealed: Vec<u8>,
    pub members: Vec<Member>,
}

/// Which chunks share frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    Tree,
    Small,
    Large,
}

impl Lane {
    pub const ALL: [Self; 3] = [Self::Tree, Self::Small, Self::Large];

    /// The lane of a chunk.
    pub fn of(kind: Kind, length: usize) -> Self {
        match kind {
            Kind::Tree => Self::Tree,
            Kind::Data if length >= LARGE_FROM => Self::Large,
            Kind::Data => Self::Small,
        }
    }

    fn kind(self) -> Kind {
        match self {
            Self::Tree => Kind::Tree,
            Self::Small | Self::Large => Kind::Data,
        }
    }

    /// When a frame is closed.
    fn target(self) -> usize {
        match self {
            Self::Tree => TREE_FRAME,
            Self::Small => SMALL_FRAME,
            Self::Large => LARGE_FRAME,
        }
    }
}

/// Buffers to be used again. An allocator that is given megabytes back by one thread and asked for them by
/// another keeps both.
#[derive(Debug, Default)]
pub struct Spare(Mutex<Vec<Vec<u8>>>);

impl Spare {
    /// As many as are ever on their way.
    const MAX: usize = 8;

    fn take(&self, room: usize) -> Vec<u8> {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Small buffers are not kept, and a small frame need not hold a large one.
        let found = spare.iter().position(|buffer| buffer.capacity() >= room);
        match found {
            Some(at) if room >= SMALL_FRAME => spare.swap_remove(at),
            _ => Vec::with_capacity(room),
        }
    }

    /// Gives a buffer back.
    pub fn give(&self, mut buffer: Vec<u8>) {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if buffer.capacity() >= SMALL_FRAME && spare.len() < Self::MAX {
            buffer.clear();
            spare.push(buffer);
        }
    }
}

/// The frames that are being filled, one a lane.
pub struct OpenFrames {
    frames: [Option<Frame>; Lane::ALL.len()],
    spare: Arc<Spare>,
}

impl OpenFrames {
    pub fn new(spare: Arc<Spare>) -> Self {
        Self {
            frames: [const { None }; Lane::ALL.len()],
            spare,
        }
    }

    /// Adds a chunk. Answers a frame that it had no room in.
    pub fn push(&mut self, kind: Kind, id: ChunkId, plain: &[u8]) -> Option<Frame> {
        let lane = Lane::of(kind, plain.len());
        let open = &mut self.frames[lane as usize];
        let full = open.take_if(|frame| frame.plain.len() + plain.len() > lane.target());
        let spare = &self.spare;
        let frame = open.get_or_insert_with(|| Frame::new(lane, spare));
        frame.push(id, plain);
        full
    }

    /// What is left.
    pub fn finish(self) -> impl Iterator<Item = Frame> {
        self.frames.into_iter().flatten()
    }
}

impl Frame {
    fn new(lane: Lane, spare: &Spare) -> Self {
        Self {
            kind: lane.kind(),
            plain: spare.take(lane.target()),
            members: Vec::new(),
        }
    }

    fn push(&mut self, id: ChunkId, plain: &[u8]) {
        let length = u32::try_from(plain.len()).expect("chunks are a mebibyte at most");
        self.plain.extend_from_slice(plain);
        self.members.push(Member { id, length });
    }
}

/// Compresses and seals; one per thread, since it keeps its buffers.
pub struct Sealer {
    zstd: Compressor<'static>,
    spare: Arc<Spare>,
}

impl Sealer {
    /// Compresses at a level of zstd.
    pub fn new(level: i32, spare: Arc<Spare>) -> Result<Self, Error> {
        let zstd = Compressor::new(level).map_err(Error::Compression)?;
        Ok(Self { zstd, spare })
    }

    /// Seals a frame. Stores it as it is where compression gains nothing.
    pub fn seal(&mut self, keys: &Keys, frame: Frame) -> Result<SealedFrame, Error> {
        let plain = &frame.plain;
        let bound = zstd::zstd_safe::compress_bound(plain.len());
        let start = NONCE + 1;
        let mut out = self.spare.take(start + bound);
        out.resize(start + bound, 0);
        let written = self
            .zstd
            .compress_to_buffer(plain, &mut out[start..])
            .map_err(Error::Compression)?;
        if written < plain.len() {
            out[NONCE] = ZSTD;
            out.truncate(start + written);
        } else {
            out[NONCE] = RAW;
            out.truncate(start);
            out.extend_from_slice(plain);
        }
        let name = keys.frame_id(frame.members.iter().map(|member| member.id));
        seal::seal_from(keys, sealed_as(frame.kind), &name, &mut out, 0)?;
        self.spare.give(frame.plain);
        Ok(SealedFrame {
            kind: frame.kind,
            sealed: out,
            members: frame.members,
        })
    }
}

/// Opens and decompresses; one per thread.
pub struct Opener {
    zstd: Decompressor<'static>,
}

impl Opener {
    pub fn new() -> Result<Self, Error> {
        let zstd = Decompressor::new().map_err(Error::Compression)?;
        Ok(Self { zstd })
    }

    /// The plain bytes of a frame, of exactly `length`. Chunks in it are not yet compared with their ids.
    pub fn open(
        &mut self,
        keys: &Keys,
        kind: Kind,
        name: &[u8; 32],
        mut sealed: Vec<u8>,
        length: usize,
    ) -> Result<Vec<u8>, Damage> {
        let text = seal::open(keys, sealed_as(kind), name, &mut sealed)?;
        let (codec, body) = text.split_first().ok_or(Damage::Short)?;
        let plain = match *codec {
            RAW => body.to_vec(),
            ZSTD => self
                .zstd
                .decompress(body, length.min(FRAME_MAX))
                .map_err(|_| Damage::Compression)?,
            _ => return Err(Damage::Compression),
        };
        if plain.len() == length {
            Ok(plain)
        } else {
            Err(Damage::Length {
                expected: length as u64,
                found: plain.len() as u64,
            })
        }
    }
}

fn sealed_as(kind: Kind) -> Sealed {
    match kind {
        Kind::Data => Sealed::DataFrame,
        Kind::Tree => Sealed::TreeFrame,
    }
}
