//! Moving chunks that are needed out of packs that mostly are not.

use std::{
    collections::HashSet,
    sync::{Arc, mpsc::SyncSender},
    thread,
};

use crate::{
    error::Error,
    frame::{Frame, OpenFrames, Spare},
    id::{ChunkId, ObjectId},
    key::Kind,
    reader::Reader,
    save::pipeline::Pipeline,
    store,
};

use super::Options;

/// Stores what is needed of some packs again, and lists it. The packs themselves stay.
pub(super) fn rewrite(
    reader: &Reader<'_>,
    packs: &[(Kind, ObjectId)],
    kinds: &[(Kind, &HashSet<ChunkId>)],
    options: &Options,
) -> Result<(), Error> {
    if packs.is_empty() {
        return Ok(());
    }
    let pipeline = Pipeline::new(reader.capsule());
    let moved = thread::scope(|scope| {
        let spare = pipeline.spare();
        let frames = pipeline.start(scope, options.level, options.threads);
        for (kind, needed) in kinds {
            copy(reader, *kind, packs, needed, &frames, (&spare, options))?;
        }
        Ok(())
    });
    match moved {
        Ok(()) => pipeline.finish().map(drop),
        Err(Error::WorkerGone) => Err(pipeline.failure().unwrap_or(Error::WorkerGone)),
        Err(error) => Err(error),
    }
}

fn copy(
    reader: &Reader<'_>,
    kind: Kind,
    packs: &[(Kind, ObjectId)],
    needed: &HashSet<ChunkId>,
    frames: &SyncSender<Frame>,
    (spare, options): (&Arc<Spare>, &Options),
) -> Result<(), Error> {
    let index = reader.index(kind)?;
    let packs: HashSet<ObjectId> = packs
        .iter()
        .filter(|(of, _)| *of == kind)
        .map(|(_, pack)| *pack)
        .collect();
    let mut chunks: Vec<_> = index
        .chunks()
        .filter(|(id, place)| {
            needed.contains(id) && packs.contains(&index.pack(index.frame(place.frame).pack))
        })
        .collect();
    // In the order in which they lie, so that each frame is opened once and neighbours stay together.
    chunks.sort_unstable_by_key(|(_, place)| (place.frame, place.offset));
    let mut open = OpenFrames::new(spare.clone());
    for (id, _) in chunks {
        options.check_wanted()?;
        let chunk = match reader.chunk(kind, &id) {
            Ok(chunk) => chunk,
            // It stays where it is, and its pack with it: perhaps a save stores it again.
            Err(Error::Damaged { .. } | Error::Store(store::Error::NotFound(_))) => continue,
            Err(error) => return Err(error),
        };
        if let Some(full) = open.push(kind, id, &chunk) {
            frames.send(full).map_err(|_| Error::WorkerGone)?;
        }
    }
    for frame in open.finish() {
        frames.send(frame).map_err(|_| Error::WorkerGone)?;
    }
    Ok(())
}
