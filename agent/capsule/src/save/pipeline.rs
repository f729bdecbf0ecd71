//! From chunks to objects: frames are sealed on several threads, packed on one, stored on one.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::Scope,
};

use crate::{
    capsule::Capsule,
    error::Error,
    frame::{Frame, SealedFrame, Sealer, Spare},
    id::ObjectId,
    index::write_segment,
    key::Kind,
    pack::{Directory, Pack},
    store::Created,
};

/// A segment of the index is written each time so many packs are stored: that is what a save that is cut
/// off finds again.
const PACKS_PER_SEGMENT: usize = 8;
/// From this size of the first pack on, frames go to one of two at random.
const SPREAD_FROM: usize = 4 << 20;

/// What the threads share.
pub(crate) struct Pipeline<'a> {
    capsule: &'a Capsule,
    spare: Arc<Spare>,
    /// Buffers of data packs that are stored.
    used: Mutex<Vec<Vec<u8>>>,
    shared: Mutex<Shared>,
    bytes_max: u64,
}

#[derive(Default)]
struct Shared {
    /// Stored, not yet in a segment.
    unlisted: Vec<Directory>,
    /// Every object of this save with its length.
    objects: Vec<(String, u64)>,
    failure: Option<Error>,
}

/// What a finished pipeline stored.
pub(crate) struct Finished {
    pub(crate) bytes: u64,
    /// Packs and segments with their lengths.
    pub(crate) objects: Vec<(String, u64)>,
}

impl<'a> Pipeline<'a> {
    pub(crate) fn new(capsule: &'a Capsule) -> Self {
        Self {
            capsule,
            spare: Arc::default(),
            used: Mutex::default(),
            shared: Mutex::default(),
            bytes_max: u64::MAX,
        }
    }

    /// Stores no more than this.
    pub(crate) fn at_most(self, bytes_max: Option<u64>) -> Self {
        Self {
            bytes_max: bytes_max.unwrap_or(u64::MAX),
            ..self
        }
    }

    /// Starts the threads; they end when the sender is dropped.
    pub(crate) fn start<'s>(
        &'s self,
        scope: &'s Scope<'s, '_>,
        level: i32,
        threads: usize,
    ) -> SyncSender<Frame>
    where
        'a: 's,
    {
        // Short queues: each place is up to four mebibytes.
        let (frames, frames_in) = sync_channel::<Frame>(1);
        let (sealed, sealed_in) = sync_channel::<SealedFrame>(1);
        let (packs, packs_in) = sync_channel::<(Vec<u8>, Directory)>(0);
        let frames_in = Arc::new(Mutex::new(frames_in));
        for _ in 0..threads.max(1) {
            let (frames_in, sealed) = (frames_in.clone(), sealed.clone());
            scope.spawn(move || self.note(self.seal(level, &frames_in, &sealed)));
        }
        scope.spawn(move || self.note(self.pack(&sealed_in, &packs)));
        scope.spawn(move || self.note(self.store(&packs_in)));
        frames
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first failure is the cause; those after it are threads that lost their neighbour.
    fn note(&self, done: Result<(), Error>) {
        if let Err(error) = done
            && !matches!(error, Error::WorkerGone)
        {
            self.shared().failure.get_or_insert(error);
        }
    }

    fn seal(
        &self,
        level: i32,
        frames: &Mutex<Receiver<Frame>>,
        sealed: &SyncSender<SealedFrame>,
    ) -> Result<(), Error> {
        let mut sealer = Sealer::new(level, self.spare.clone())?;
        loop {
            let next = frames.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(frame) = next else { return Ok(()) };
            let frame = sealer.seal(self.capsule.keys(), frame)?;
            sealed.send(frame).map_err(|_| Error::WorkerGone)?;
        }
    }

    fn pack(
        &self,
        sealed: &Receiver<SealedFrame>,
        packs: &SyncSender<(Vec<u8>, Directory)>,
    ) -> Result<(), Error> {
        let keys = self.capsule.keys();
        let mut trees = Pack::new(Kind::Tree, None)?;
        // Frames of one file must not follow each other in one pack, whose length would tell theirs.
        let mut data = [Pack::new(Kind::Data, None)?, Pack::new(Kind::Data, None)?];
        for mut frame in sealed {
            let pack = match frame.kind {
                Kind::Tree => &mut trees,
                Kind::Data if data[0].len() < SPREAD_FROM && data[1].is_empty() => &mut data[0],
                Kind::Data => &mut data[usize::from(ObjectId::random()?.0[0] & 1)],
            };
            if pack.is_full_for(frame.sealed.len()) {
                let full = std::mem::replace(pack, self.new_pack(frame.kind)?);
                packs
                    .send(full.close(keys)?)
                    .map_err(|_| Error::WorkerGone)?;
            }
            pack.push(&mut frame);
            self.spare.give(frame.sealed);
        }
        let [first, second] = data;
        for pack in [first, second, trees] {
            if !pack.is_empty() {
                packs
                    .send(pack.close(keys)?)
                    .map_err(|_| Error::WorkerGone)?;
            }
        }
        Ok(())
    }

    fn used(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn new_pack(&self, kind: Kind) -> Result<Pack, Error> {
        let used = match kind {
            Kind::Data => self.used().pop(),
            Kind::Tree => None,
        };
        Pack::new(kind, used)
    }

    fn store(&self, packs: &Receiver<(Vec<u8>, Directory)>) -> Result<(), Error> {
        let mut room = self.bytes_max;
        for (bytes, directory) in packs {
            room = room.checked_sub(bytes.len() as u64).ok_or(Error::NoRoom)?;
            let object = directory.object();
            match self.capsule.store().create(&object, &bytes)? {
                Created::Made => {}
                // 128 random bits were drawn twice.
                Created::Existed => return Err(Error::Randomness),
            }
            let mut shared = self.shared();
            shared.objects.push((object, bytes.len() as u64));
            if directory.kind == Kind::Data {
                self.used().push(bytes);
            }
            shared.unlisted.push(directory);
            if shared.unlisted.len() >= PACKS_PER_SEGMENT {
                let listed = std::mem::take(&mut shared.unlisted);
                drop(shared);
                self.list(&listed)?;
            }
        }
        Ok(())
    }

    fn list(&self, packs: &[Directory]) -> Result<(), Error> {
        let store = self.capsule.store();
        let name = write_segment(store, self.capsule.keys(), packs)?;
        let bytes = store.stat(&name)?.bytes;
        self.shared().objects.push((name, bytes));
        Ok(())
    }

    /// Buffers for the frames that are sent here.
    pub(crate) fn spare(&self) -> Arc<Spare> {
        self.spare.clone()
    }

    /// The failure that ended the threads, if one did.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.shared().failure.take()
    }

    /// Once the threads have ended: lists what is stored and in no segment.
    pub(crate) fn list_rest(&self) -> Result<(), Error> {
        let rest = std::mem::take(&mut self.shared().unlisted);
        if rest.is_empty() {
            return Ok(());
        }
        self.list(&rest)
    }

    /// Once the threads have ended: writes the last segment.
    pub(crate) fn finish(self) -> Result<Finished, Error> {
        if let Some(error) = self.failure() {
            // For the next save, if it can be had.
            self.list_rest().ok();
            return Err(error);
        }
        self.list_rest()?;
        let objects = std::mem::take(&mut self.shared().objects);
        Ok(Finished {
            bytes: objects.iter().map(|(_, bytes)| bytes).sum(),
            objects,
        })
    }
}
