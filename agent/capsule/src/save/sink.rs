//! Takes chunks, keeps those the store has not.

use std::{
    collections::HashSet,
    hash::{BuildHasherDefault, Hasher},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::SyncSender,
    },
};

use crate::{
    capsule::Capsule,
    error::Error,
    frame::{Frame, OpenFrames, Spare},
    id::ChunkId,
    index::Index,
    key::{Keys, Kind},
    reader::Reader,
    tree::TreeSink,
};

/// Ids are hashes already.
#[derive(Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        if let Some(head) = bytes.first_chunk::<8>() {
            self.0 ^= u64::from_le_bytes(*head);
        }
    }
    fn write_usize(&mut self, _: usize) {}
    fn finish(&self) -> u64 {
        self.0
    }
}

/// Decides which chunks are new and gathers them in frames.
pub(super) struct Sink<'a> {
    keys: &'a Keys,
    data: &'a Index,
    trees: &'a Index,
    fresh: HashSet<ChunkId, BuildHasherDefault<IdHasher>>,
    open: OpenFrames,
    frames: SyncSender<Frame>,
    cancelled: Option<&'a AtomicBool>,
}

impl<'a> Sink<'a> {
    pub(super) fn new(
        capsule: &'a Capsule,
        reader: &'a Reader<'a>,
        frames: SyncSender<Frame>,
        spare: Arc<Spare>,
        cancelled: Option<&'a AtomicBool>,
    ) -> Result<Self, Error> {
        Ok(Self {
            keys: capsule.keys(),
            data: reader.index(Kind::Data)?,
            trees: reader.index(Kind::Tree)?,
            fresh: HashSet::default(),
            open: OpenFrames::new(spare),
            frames,
            cancelled,
        })
    }

    /// Fails once nobody wants the save any more.
    pub(super) fn check_wanted(&self) -> Result<(), Error> {
        match self.cancelled {
            Some(cancelled) if cancelled.load(Ordering::Relaxed) => Err(Error::Cancelled),
            _ => Ok(()),
        }
    }

    /// Whether a chunk is in the store for good, or on its way there.
    pub(super) fn has(&self, kind: Kind, id: &ChunkId) -> bool {
        let index = match kind {
            Kind::Data => self.data,
            Kind::Tree => self.trees,
        };
        index.has_for_good(id) || self.fresh.contains(id)
    }

    pub(super) fn cut_seed(&self) -> u64 {
        self.keys.cut_seed
    }

    /// Keeps a chunk and says its id.
    pub(super) fn put(&mut self, kind: Kind, plain: &[u8]) -> Result<ChunkId, Error> {
        self.check_wanted()?;
        let id = self.keys.chunk_id(kind, plain);
        if self.has(kind, &id) {
            return Ok(id);
        }
        if let Some(full) = self.open.push(kind, id, plain) {
            self.frames.send(full).map_err(|_| Error::WorkerGone)?;
        }
        self.fresh.insert(id);
        Ok(id)
    }

    /// Sends what is left on its way.
    pub(super) fn finish(self) -> Result<u64, Error> {
        for frame in self.open.finish() {
            self.frames.send(frame).map_err(|_| Error::WorkerGone)?;
        }
        Ok(self.fresh.len() as u64)
    }
}

impl TreeSink for Sink<'_> {
    fn put_tree(&mut self, plain: &[u8]) -> Result<ChunkId, Error> {
        self.put(Kind::Tree, plain)
    }

    fn keys(&self) -> &Keys {
        self.keys
    }
}
