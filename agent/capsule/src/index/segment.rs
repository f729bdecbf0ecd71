//! A part of the index as an object: the directories of some packs.

use crate::{
    encoding::{self, Bytes, put_number},
    error::{Damage, Error},
    id::ObjectId,
    key::{Keys, Kind},
    pack::Directory,
    seal::{self, Sealed},
    store::{Created, Store},
};

use super::FOLDER;

const MAGIC: &[u8; 6] = b"CBINDX";
const VERSION: u8 = 1;
const HEADER: usize = 16;
/// Segments smaller than this are merged, larger ones have been.
const SMALL: u64 = 4 << 20;
/// So many small segments are merged into one.
pub const MERGE_FROM: usize = 12;

/// What a segment holds of one kind, or of both.
#[derive(Clone, Debug, Default)]
pub struct Segment {
    pub packs: Vec<Directory>,
}

/// Writes one. Its name is new.
pub fn write_segment(store: &dyn Store, keys: &Keys, packs: &[Directory]) -> Result<String, Error> {
    let id = ObjectId::random()?;
    let mut parts = [Vec::new(), Vec::new()];
    for (kind, part) in [Kind::Tree, Kind::Data].into_iter().zip(&mut parts) {
        let mut plain = Vec::new();
        put_number(
            &mut plain,
            packs.iter().filter(|pack| pack.kind == kind).count() as u64,
        );
        for pack in packs.iter().filter(|pack| pack.kind == kind) {
            plain.extend_from_slice(&pack.pack.0);
            pack.encode(&mut plain);
        }
        seal::seal(keys, sealed_as(kind), &id.0, &plain, part)?;
    }
    let mut bytes = Vec::with_capacity(HEADER + parts[0].len() + parts[1].len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&[VERSION, 0]);
    for part in &parts {
        let length = u32::try_from(part.len()).expect("segments are bounded by their packs");
        bytes.extend_from_slice(&length.to_le_bytes());
    }
    for part in parts {
        bytes.extend_from_slice(&part);
    }
    let name = format!("{FOLDER}/{id}");
    match store.create(&name, &bytes)? {
        Created::Made => Ok(name),
        Created::Existed => Err(Error::Randomness),
    }
}

/// Reads one, or the part of it that is of one kind.
pub fn read_segment(
    store: &dyn Store,
    keys: &Keys,
    name: &str,
    only: Option<Kind>,
) -> Result<Segment, Error> {
    let bad = |damage: Damage| Error::damaged(name, damage);
    let mut id = [0; 16];
    name.strip_prefix(FOLDER)
        .and_then(|rest| rest.strip_prefix('/'))
        .and_then(|rest| hex::decode_to_slice(rest, &mut id).ok())
        .ok_or_else(|| bad(Damage::Magic))?;
    let mut bytes = store.get(name)?;
    if bytes.len() < HEADER {
        return Err(bad(Damage::Short));
    }
    let (head, body) = bytes.split_at_mut(HEADER);
    if &head[..6] != MAGIC || head[6..8] != [VERSION, 0] {
        return Err(bad(Damage::Magic));
    }
    let length = |at: usize| -> usize {
        head[at..at + 4]
            .iter()
            .rev()
            .fold(0, |sum, byte| sum << 8 | usize::from(*byte))
    };
    let (trees, data) = (length(8), length(12));
    if trees.checked_add(data) != Some(body.len()) {
        return Err(bad(Damage::Short));
    }
    let (trees, data) = body.split_at_mut(trees);
    let mut segment = Segment::default();
    for (kind, part) in [(Kind::Tree, trees), (Kind::Data, data)] {
        if only.is_none_or(|only| only == kind) {
            let plain = seal::open(keys, sealed_as(kind), &id, part).map_err(bad)?;
            decode(kind, plain, &mut segment.packs).map_err(|error| bad(error.into()))?;
        }
    }
    Ok(segment)
}

fn decode(kind: Kind, plain: &[u8], packs: &mut Vec<Directory>) -> Result<(), encoding::Error> {
    let mut bytes = Bytes::new(plain);
    for _ in 0..bytes.count(17, "packs")? {
        let pack = ObjectId(bytes.array("pack id")?);
        packs.push(Directory::decode(pack, kind, &mut bytes)?);
    }
    bytes.end()
}

/// Merges small segments into one when there are many. The merged one is there before the others go, so a
/// reader finds every pack at all times, some of them twice.
pub fn merge_small(store: &dyn Store, keys: &Keys) -> Result<(), Error> {
    let small: Vec<_> = store
        .list(FOLDER)?
        .into_iter()
        .filter(|stored| stored.bytes < SMALL)
        .collect();
    if small.len() < MERGE_FROM {
        return Ok(());
    }
    let mut packs = Vec::new();
    for stored in &small {
        packs.extend(read_segment(store, keys, &stored.name, None)?.packs);
    }
    packs.sort_unstable_by_key(|directory| directory.pack);
    packs.dedup_by_key(|directory| directory.pack);
    write_segment(store, keys, &packs)?;
    for stored in &small {
        store.delete(&stored.name)?;
    }
    Ok(())
}

fn sealed_as(kind: Kind) -> Sealed {
    match kind {
        Kind::Tree => Sealed::IndexTrees,
        Kind::Data => Sealed::IndexData,
    }
}
