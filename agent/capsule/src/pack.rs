//! Packs: frames one behind the other, and at the end a sealed directory of what they hold.

use crate::{
    encoding::{self, Bytes, put_number},
    error::{Damage, Error},
    frame::{FRAME_MAX, Member, SealedFrame},
    id::{ChunkId, ObjectId},
    key::{Keys, Kind},
    seal::{self, Sealed},
    store::{self, Store},
};

/// A data pack is closed when it holds this much.
pub const DATA_PACK: usize = 16 << 20;
/// The same for packs of trees.
pub const TREE_PACK: usize = 4 << 20;

const MAGIC: &[u8; 6] = b"CBPACK";
const VERSION: u8 = 1;
const HEADER: usize = 8;
/// The directory's sealed length, four bytes, little end first.
const TRAILER: usize = 4;

/// A frame in a pack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedFrame {
    /// Where it begins in the pack.
    pub offset: u64,
    pub sealed_bytes: u32,
    pub members: Vec<Member>,
}

/// What a pack holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    pub pack: ObjectId,
    pub kind: Kind,
    pub frames: Vec<PackedFrame>,
}

impl Directory {
    /// The pack's name in the store.
    pub fn object(&self) -> String {
        object(self.kind, &self.pack)
    }

    /// Where the frames end: no pack is shorter.
    pub fn frames_end(&self) -> u64 {
        self.frames.last().map_or(HEADER as u64, |frame| {
            frame.offset + u64::from(frame.sealed_bytes)
        })
    }

    /// Appends the frames, as the directory and index segments have them.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_number(out, self.frames.len() as u64);
        for frame in &self.frames {
            put_number(out, frame.sealed_bytes.into());
            put_number(out, frame.members.len() as u64);
            for member in &frame.members {
                out.extend_from_slice(&member.id.0);
                put_number(out, member.length.into());
            }
        }
    }

    /// Reads what [`Self::encode`] wrote.
    pub fn decode(
        pack: ObjectId,
        kind: Kind,
        bytes: &mut Bytes<'_>,
    ) -> Result<Self, encoding::Error> {
        let count = bytes.count(2, "frames")?;
        let mut frames = Vec::with_capacity(count);
        let mut offset = HEADER as u64;
        for _ in 0..count {
            let sealed_bytes = bytes.number32("sealed bytes")?;
            let count = bytes.count(33, "members")?;
            let mut members = Vec::with_capacity(count);
            let mut plain = 0u64;
            for _ in 0..count {
                let id = ChunkId(bytes.array("chunk id")?);
                let length = bytes.number32("chunk length")?;
                plain += u64::from(length);
                members.push(Member { id, length });
            }
            if plain > FRAME_MAX as u64 || sealed_bytes as usize > FRAME_MAX + seal::OVERHEAD + 1 {
                return Err(encoding::Error::Value("frame"));
            }
            frames.push(PackedFrame {
                offset,
                sealed_bytes,
                members,
            });
            offset += u64::from(sealed_bytes);
        }
        Ok(Self { pack, kind, frames })
    }

    /// Reads a pack's directory from the store.
    pub fn read(keys: &Keys, store: &dyn Store, kind: Kind, pack: ObjectId) -> Result<Self, Error> {
        let object = object(kind, &pack);
        let bad = |damage: Damage| Error::damaged(&object, damage);
        let total = store.stat(&object)?.bytes;
        let least = (HEADER + TRAILER + seal::OVERHEAD) as u64;
        if total < least {
            return Err(bad(Damage::Short));
        }
        let header = store.get_range(&object, 0, HEADER)?;
        if header != head(kind) {
            return Err(bad(Damage::Magic));
        }
        let trailer = store.get_range(&object, total - TRAILER as u64, TRAILER)?;
        let length = u32::from_le_bytes(trailer.try_into().map_err(|_| bad(Damage::Short))?);
        let start = (total - TRAILER as u64)
            .checked_sub(length.into())
            .filter(|start| *start >= HEADER as u64)
            .ok_or_else(|| bad(Damage::Short))?;
        let mut sealed = store.get_range(&object, start, length as usize)?;
        let plain = seal::open(keys, Sealed::Directory, &pack.0, &mut sealed).map_err(bad)?;
        let mut bytes = Bytes::new(plain);
        let directory = Self::decode(pack, kind, &mut bytes)
            .and_then(|directory| bytes.end().map(|()| directory))
            .map_err(|error| bad(error.into()))?;
        if directory.frames_end() != start {
            return Err(bad(Damage::Length {
                expected: directory.frames_end(),
                found: start,
            }));
        }
        Ok(directory)
    }
}

/// A pack's name in the store.
pub fn object(kind: Kind, pack: &ObjectId) -> String {
    format!("{}/{pack}", folder(kind))
}

/// Where packs of a kind lie in the store.
pub fn folder(kind: Kind) -> &'static str {
    match kind {
        Kind::Data => "data",
        Kind::Tree => "trees",
    }
}

/// A pack that is being filled.
pub struct Pack {
    bytes: Vec<u8>,
    directory: Directory,
}

impl Pack {
    /// An empty pack, in a buffer that another was in or in a new one.
    pub fn new(kind: Kind, used: Option<Vec<u8>>) -> Result<Self, Error> {
        let pack = ObjectId::random()?;
        let room = match kind {
            Kind::Data => DATA_PACK,
            Kind::Tree => TREE_PACK,
        };
        // All of it at once: growing by doubling would hold twice as much at the end.
        let mut bytes = used.unwrap_or_else(|| Vec::with_capacity(room + room / 64));
        bytes.clear();
        bytes.extend_from_slice(&head(kind));
        Ok(Self {
            bytes,
            directory: Directory {
                pack,
                kind,
                frames: Vec::new(),
            },
        })
    }

    pub fn is_empty(&self) -> bool {
        self.directory.frames.is_empty()
    }

    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether it should be closed before `more` bytes are added.
    pub fn is_full_for(&self, more: usize) -> bool {
        let target = match self.directory.kind {
            Kind::Data => DATA_PACK,
            Kind::Tree => TREE_PACK,
        };
        !self.is_empty() && self.bytes.len() + more > target
    }

    /// Adds a frame.
    pub fn push(&mut self, frame: &mut SealedFrame) {
        debug_assert_eq!(frame.kind, self.directory.kind, "kinds are packed apart");
        self.directory.frames.push(PackedFrame {
            offset: self.bytes.len() as u64,
            sealed_bytes: u32::try_from(frame.sealed.len()).expect("frames are bounded"),
            members: std::mem::take(&mut frame.members),
        });
        self.bytes.extend_from_slice(&frame.sealed);
    }

    /// Closes it: its bytes and its directory.
    pub fn close(mut self, keys: &Keys) -> Result<(Vec<u8>, Directory), Error> {
        let mut plain = Vec::new();
        self.directory.encode(&mut plain);
        let start = self.bytes.len();
        seal::seal(
            keys,
            Sealed::Directory,
            &self.directory.pack.0,
            &plain,
            &mut self.bytes,
        )?;
        let length = u32::try_from(self.bytes.len() - start).expect("directories are bounded");
        self.bytes.extend_from_slice(&length.to_le_bytes());
        Ok((self.bytes, self.directory))
    }
}

/// Opens the pack named by a listing of its folder.
pub fn from_name(kind: Kind, name: &str) -> Result<ObjectId, store::Error> {
    let mut bytes = [0; 16];
    name.strip_prefix(folder(kind))
        .and_then(|rest| rest.strip_prefix('/'))
        .and_then(|rest| hex::decode_to_slice(rest, &mut bytes).ok())
        .map(|()| ObjectId(bytes))
        .ok_or_else(|| store::Error::Name(name.into()))
}

fn head(kind: Kind) -> [u8; HEADER] {
    let mut head = [0; HEADER];
    head[..6].copy_from_slice(MAGIC);
    head[6] = VERSION;
    head[7] = kind.byte();
    head
}
