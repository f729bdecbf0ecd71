//! The end of a save: what was stored is looked at again, then the record is written.

use std::collections::HashSet;

use crate::{
    capsule::Capsule,
    check,
    error::Error,
    generation::Generation,
    id::SnapshotId,
    index::Index,
    key::Kind,
    pack,
    reader::Reader,
    snapshot::{self, Snapshot},
    store::Created,
    sweep,
};

use super::pipeline::Finished;

/// Reads every pack of this save as a restore would, and compares each chunk with its id.
pub(super) fn read_back(capsule: &Capsule, stored: &Finished) -> Result<(), Error> {
    for (object, _) in &stored.objects {
        let kind = [Kind::Data, Kind::Tree]
            .into_iter()
            .find(|kind| object.split('/').next() == Some(pack::folder(*kind)));
        let Some(kind) = kind else { continue };
        let id = pack::from_name(kind, object)?;
        let directory = pack::Directory::read(capsule.keys(), capsule.store(), kind, id)?;
        check::read_pack(capsule, &directory)?;
    }
    Ok(())
}

/// Says that a save is under way, so that a sweep deletes nothing it may lean on.
pub(super) struct Mark<'a> {
    capsule: &'a Capsule,
    name: String,
}

impl<'a> Mark<'a> {
    /// Set before anything is looked up.
    pub(super) fn set(capsule: &'a Capsule, id: SnapshotId) -> Result<Self, Error> {
        let name = format!("{}/{id}", sweep::SAVES);
        match capsule.store().create(&name, b"")? {
            Created::Made => Ok(Self { capsule, name }),
            Created::Existed => Err(Error::Randomness),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Taken away when the record is there.
    pub(super) fn clear(self) -> Result<(), Error> {
        Ok(self.capsule.store().delete(&self.name)?)
    }
}

/// A save that failed is not under way. One that was killed leaves its mark, until a sweep finds it old.
impl Drop for Mark<'_> {
    fn drop(&mut self) {
        self.capsule.store().delete(&self.name).ok();
    }
}

/// Makes the snapshot be, if all it needs is in the store.
pub(super) fn commit(
    capsule: &Capsule,
    snapshot: &Snapshot,
    stored: &Finished,
) -> Result<(), Error> {
    for (object, written) in &stored.objects {
        let found = match capsule.store().stat(object) {
            Ok(stored) => stored.bytes,
            // Merged into another meanwhile, by a save beside this one.
            Err(crate::store::Error::NotFound(_)) if object.starts_with(crate::index::FOLDER) => {
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        if found != *written {
            return Err(Error::NotStored {
                object: object.clone(),
                written: *written,
                found,
            });
        }
    }
    let before = capsule.generation()?;
    stand_in(capsule, snapshot, &before)?;
    snapshot.write(capsule.store(), capsule.keys())?;
    // A sweep that began between the look and the record has not seen the snapshot; this sees the sweep.
    let after = capsule.generation()?;
    if after.number != before.number
        && let Err(error) = stand_in(capsule, snapshot, &after)
    {
        capsule.store().delete(&snapshot::object(snapshot.id))?;
        return Err(error);
    }
    Ok(())
}

/// Whether every chunk of a snapshot is in a pack that stays, in a generation newer than the save's own.
fn stand_in(capsule: &Capsule, snapshot: &Snapshot, generation: &Generation) -> Result<(), Error> {
    if generation.number == snapshot.generation {
        return Ok(());
    }
    let overtaken = || Error::Overtaken {
        began: snapshot.generation,
        now: generation.number,
    };
    let reader = Reader::new(capsule)?;
    let trees = reader.index(Kind::Tree)?;
    let data = reader.index(Kind::Data)?;
    let needs = match sweep::needed(&reader, snapshot, &mut HashSet::new()) {
        Ok(needs) => needs,
        Err(Error::ChunkMissing { .. }) => return Err(overtaken()),
        Err(error) => return Err(error),
    };
    let stays = |index: &Index, id| index.has_for_good(id);
    if needs.trees.iter().all(|id| stays(trees, id)) && needs.data.iter().all(|id| stays(data, id))
    {
        Ok(())
    } else {
        Err(overtaken())
    }
}
