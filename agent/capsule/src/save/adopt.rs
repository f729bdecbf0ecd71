//! What a save that was killed has stored.

use std::collections::HashSet;

use crate::{
    error::Error,
    id::ObjectId,
    index::write_segment,
    key::Kind,
    pack::{self, Directory},
    reader::Reader,
    store, sweep,
};

/// Packs that are older than this may be deleted by a sweep that found them in no segment.
const AGE_MAX_NS: i64 = 12 * 3600 * 1_000_000_000;

/// Lists packs that are in no segment, if a save other than the one with this mark was begun and did not end: killed, it
/// left them, and what is in them need not be stored again. Says whether there were any.
pub(super) fn adopt(reader: &Reader<'_>, mark: &str) -> Result<bool, Error> {
    let capsule = reader.capsule();
    let (store, keys) = (capsule.store(), capsule.keys());
    let (mut now_ns, mut has_others) = (i64::MIN, false);
    for other in store.list(sweep::SAVES)? {
        if other.name == mark {
            now_ns = other.written_ns;
        } else {
            has_others = true;
        }
    }
    if !has_others {
        return Ok(false);
    }
    let mut found = Vec::new();
    for kind in [Kind::Tree, Kind::Data] {
        let listed: HashSet<ObjectId> = reader.index(kind)?.packs().map(|(pack, _)| pack).collect();
        for stored in store.list(pack::folder(kind))? {
            let is_young = stored.written_ns >= now_ns.saturating_sub(AGE_MAX_NS);
            let Ok(pack) = pack::from_name(kind, &stored.name) else {
                continue;
            };
            if !is_young || listed.contains(&pack) {
                continue;
            }
            match Directory::read(keys, store, kind, pack) {
                Ok(directory) => found.push(directory),
                Err(Error::Damaged { .. } | Error::Store(store::Error::NotFound(_))) => {}
                Err(error) => return Err(error),
            }
        }
    }
    if found.is_empty() {
        return Ok(false);
    }
    write_segment(store, keys, &found)?;
    Ok(true)
}
