//! Which chunk lies where: read from sealed segments, kept sorted in memory.

mod segment;

use crate::{
    error::Error,
    id::{ChunkId, ObjectId},
    key::{Keys, Kind},
    pack::{self, Directory},
    store::{self, Store},
};

pub use segment::{MERGE_FROM, Segment, merge_small, read_segment, write_segment};

/// Where index segments lie.
pub const FOLDER: &str = "index";

/// How often a listing is begun again because a segment was merged away under it.
const RETRIES: usize = 5;

/// A chunk's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which of [`Index::frame`].
    pub frame: u32,
    /// Where in the frame's plain bytes.
    pub offset: u32,
    pub length: u32,
}

/// A frame's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FramePlace {
    /// Which of [`Index::pack`].
    pub pack: u32,
    pub offset: u64,
    pub sealed_bytes: u32,
    pub plain_bytes: u32,
    /// What it is sealed as.
    pub name: [u8; 32],
}

/// 44 bytes a chunk.
#[derive(Clone, Copy)]
struct Entry {
    id: ChunkId,
    place: Place,
}

/// All chunks of one kind.
pub struct Index {
    kind: Kind,
    packs: Vec<ObjectId>,
    is_given_up: Vec<bool>,
    frames: Vec<FramePlace>,
    entries: Vec<Entry>,
}

impl Index {
    pub fn new(kind: Kind) -> Self {
        Self {
            kind,
            packs: Vec::new(),
            is_given_up: Vec::new(),
            frames: Vec::new(),
            entries: Vec::new(),
        }
    }

    /// Reads all segments. Chunks in packs `given_up` are found only where there is no other.
    pub fn load(
        store: &dyn Store,
        keys: &Keys,
        kind: Kind,
        given_up: &[ObjectId],
    ) -> Result<Self, Error> {
        let mut tries = 0;
        'again: loop {
            let mut index = Self::new(kind);
            let mut is_damaged = false;
            for stored in store.list(FOLDER)? {
                match read_segment(store, keys, &stored.name, Some(kind)) {
                    Ok(segment) => {
                        for directory in &segment.packs {
                            index.add(keys, directory, given_up.contains(&directory.pack));
                        }
                    }
                    Err(Error::Store(store::Error::NotFound(_))) if tries < RETRIES => {
                        tries += 1;
                        continue 'again;
                    }
                    Err(Error::Damaged { .. }) => is_damaged = true,
                    Err(error) => return Err(error),
                }
            }
            if is_damaged {
                index.ask_packs(store, keys, given_up)?;
            }
            index.sort();
            return Ok(index);
        }
    }

    /// Adds the packs that no segment lists, as their own directories say. One that is damaged too is as
    /// good as lost.
    pub fn ask_packs(
        &mut self,
        store: &dyn Store,
        keys: &Keys,
        given_up: &[ObjectId],
    ) -> Result<(), Error> {
        for stored in store.list(pack::folder(self.kind))? {
            let Ok(id) = pack::from_name(self.kind, &stored.name) else {
                continue;
            };
            if self.packs.contains(&id) {
                continue;
            }
            match Directory::read(keys, store, self.kind, id) {
                Ok(directory) => self.add(keys, &directory, given_up.contains(&id)),
                Err(Error::Damaged { .. } | Error::Store(store::Error::NotFound(_))) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Adds a pack's chunks; [`Self::sort`] makes them found.
    pub fn add(&mut self, keys: &Keys, directory: &Directory, is_given_up: bool) {
        let number = |count: usize| u32::try_from(count).expect("a store has under 2^32 frames");
        let pack = number(self.packs.len());
        self.packs.push(directory.pack);
        self.is_given_up.push(is_given_up);
        for packed in &directory.frames {
            let frame = number(self.frames.len());
            let mut offset = 0;
            for member in &packed.members {
                let place = Place {
                    frame,
                    offset,
                    length: member.length,
                };
                self.entries.push(Entry {
                    id: member.id,
                    place,
                });
                offset += member.length;
            }
            self.frames.push(FramePlace {
                pack,
                offset: packed.offset,
                sealed_bytes: packed.sealed_bytes,
                plain_bytes: offset,
                name: keys.frame_id(packed.members.iter().map(|member| member.id)),
            });
        }
    }

    /// Sorts, and forgets second places of the same chunk.
    pub fn sort(&mut self) {
        let mut entries = std::mem::take(&mut self.entries);
        entries.sort_unstable_by_key(|entry| (entry.id, self.gave_up(entry), entry.place.frame));
        entries.dedup_by_key(|entry| entry.id);
        self.entries = entries;
    }

    fn gave_up(&self, entry: &Entry) -> bool {
        let pack = self.frames[entry.place.frame as usize].pack;
        self.is_given_up[pack as usize]
    }

    fn entry(&self, id: &ChunkId) -> Option<&Entry> {
        let at = self.entries.binary_search_by_key(id, |entry| entry.id);
        Some(&self.entries[at.ok()?])
    }

    /// Where a chunk is.
    pub fn find(&self, id: &ChunkId) -> Option<Place> {
        Some(self.entry(id)?.place)
    }

    /// Whether a save may use the chunk that is there: not if its pack is being given up.
    pub fn has_for_good(&self, id: &ChunkId) -> bool {
        self.entry(id).is_some_and(|entry| !self.gave_up(entry))
    }

    /// The pack a chunk is in.
    pub fn pack_of(&self, id: &ChunkId) -> Option<ObjectId> {
        let frame = &self.frames[self.entry(id)?.place.frame as usize];
        Some(self.packs[frame.pack as usize])
    }

    pub fn frame(&self, frame: u32) -> &FramePlace {
        &self.frames[frame as usize]
    }

    /// All frames.
    pub fn frames(&self) -> &[FramePlace] {
        &self.frames
    }

    pub fn pack(&self, pack: u32) -> ObjectId {
        self.packs[pack as usize]
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// How many different chunks there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All chunks by id.
    pub fn chunks(&self) -> impl Iterator<Item = (ChunkId, Place)> + '_ {
        self.entries.iter().map(|entry| (entry.id, entry.place))
    }

    /// All packs with what of them is given up.
    pub fn packs(&self) -> impl Iterator<Item = (ObjectId, bool)> + '_ {
        self.packs
            .iter()
            .copied()
            .zip(self.is_given_up.iter().copied())
    }
}
