//! Giving back what no snapshot needs, beside saves that go on.
//!
//! A sweep deletes nothing that it has just found useless. It writes the next generation, which names the
//! packs that are given up; from then on no save relies on them. Only a later sweep deletes them: when they
//! were given up long enough ago by the store's own clock, no save that began before is under way, and
//! still nothing needs them.

mod needed;
mod rewrite;

use std::collections::{HashMap, HashSet};

use crate::{
    capsule::Capsule,
    error::Error,
    generation::{self, Generation, GivenUp},
    id::{ChunkId, ObjectId},
    index::{self, Index, read_segment, write_segment},
    key::Kind,
    pack,
    reader::Reader,
    store::Created,
};

pub use needed::{Needed, needed};

/// Where saves under way say so.
pub const SAVES: &str = "saves";
/// Where objects are made to learn the store's time.
const PROBE: &str = "probe";

const DAY_NS: i64 = 24 * 3600 * 1_000_000_000;
/// A mark of a save older than this was left by one that was killed.
pub const SAVE_MAX_NS: i64 = 7 * DAY_NS;

/// How a sweep goes about it.
pub struct Options {
    /// How long packs stay after they were given up.
    pub grace_ns: i64,
    /// A pack is rewritten when more than this share of it, in percent, is needed by nobody.
    pub dead_percent: u64,
    /// Needed bytes that are moved to new packs at most, before compression.
    pub rewrite_bytes_max: u64,
    /// Say what would be done, and do nothing.
    pub is_dry: bool,
    /// Level of zstd, and threads, for what is rewritten.
    pub level: i32,
    pub threads: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            grace_ns: DAY_NS,
            dead_percent: 30,
            rewrite_bytes_max: 4 << 30,
            is_dry: false,
            level: crate::save::LEVEL,
            threads: 2,
        }
    }
}

/// What a sweep did, or would do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    pub generation: u64,
    pub snapshots: u64,
    pub chunks_needed: u64,
    pub chunks_dead: u64,
    /// Packs that are given up from now on.
    pub packs_given_up: u64,
    pub packs_rewritten: u64,
    pub packs_deleted: u64,
    pub bytes_deleted: u64,
    /// Given up before, and kept for now: too lately, or a save that began before is under way.
    pub packs_waiting: u64,
}

/// What is known of a pack.
#[derive(Default)]
struct Use {
    /// Plain bytes that snapshots need and find here.
    live: u64,
    plain: u64,
}

/// Sweeps. Two at once are one too many: the second fails without harm.
pub fn sweep(capsule: &Capsule, options: &Options) -> Result<Swept, Error> {
    let now_ns = store_time(capsule)?;
    let reader = Reader::new(capsule)?;
    let old = reader.generation().clone();
    let mut swept = Swept::default();

    let mut all = Needed::default();
    let mut known = HashSet::new();
    for id in capsule.snapshot_ids()? {
        let one = needed(&reader, &capsule.snapshot(id)?, &mut known)?;
        all.trees.extend(one.trees);
        all.data.extend(one.data);
        swept.snapshots += 1;
    }
    let kinds = [(Kind::Tree, &all.trees), (Kind::Data, &all.data)];
    let mut uses: HashMap<(Kind, ObjectId), Use> = HashMap::new();
    for (kind, needed) in kinds {
        let index = reader.index(kind)?;
        measure(index, needed, &mut uses, &mut swept);
    }

    let given_up: HashSet<ObjectId> = old.packs().into_iter().collect();
    let (mut useless, mut sparse) = (Vec::new(), Vec::new());
    for ((kind, pack), found) in &uses {
        let is_given_up = given_up.contains(pack);
        let dead = found.plain - found.live;
        if found.live == 0 && !is_given_up {
            useless.push((*kind, *pack));
        } else if found.live > 0 && (is_given_up || dead * 100 > found.plain * options.dead_percent)
        {
            sparse.push((*kind, *pack, found.live, dead));
        }
    }
    // What gains most comes first, and what must leave a pack that is given up before all.
    sparse.sort_by_key(|(_, pack, live, dead)| {
        (
            !given_up.contains(pack),
            *live * 1000 / (*dead).max(1),
            *pack,
        )
    });
    let mut moved = 0;
    sparse.retain(|(_, pack, live, _)| {
        moved += live;
        moved <= options.rewrite_bytes_max || given_up.contains(pack)
    });

    let oldest_save = oldest_save(capsule, now_ns)?;
    let (deletable, waiting): (Vec<_>, Vec<_>) = old.given_up.iter().cloned().partition(|given| {
        let is_unused = uses
            .get(&(given.kind, given.pack))
            .is_none_or(|found| found.live == 0);
        is_unused
            && given.since_ns <= now_ns.saturating_sub(options.grace_ns)
            && oldest_save.is_none_or(|began_ns| began_ns > given.since_ns)
    });
    swept.generation = old.number;
    swept.packs_given_up = (useless.len() + sparse.len()) as u64;
    swept.packs_rewritten = sparse.len() as u64;
    swept.packs_waiting = waiting.len() as u64;
    swept.packs_deleted = deletable.len() as u64;
    if options.is_dry {
        return Ok(swept);
    }

    delete(capsule, &deletable, &mut swept)?;
    let before_ns = oldest_save.map_or(now_ns, |began_ns| began_ns.min(now_ns)) - DAY_NS;
    delete_unlisted(&reader, before_ns, &mut swept)?;
    capsule.store().tidy(now_ns, DAY_NS)?;
    let packs: Vec<_> = sparse
        .iter()
        .map(|(kind, pack, ..)| (*kind, *pack))
        .collect();
    rewrite::rewrite(&reader, &packs, &kinds, options)?;
    let changes = !useless.is_empty() || !packs.is_empty() || !deletable.is_empty();
    if changes {
        let mut next = Generation {
            number: old.number + 1,
            given_up: waiting,
        };
        for (kind, pack) in useless.into_iter().chain(packs) {
            if !given_up.contains(&pack) {
                next.given_up.push(GivenUp {
                    kind,
                    pack,
                    since: next.number,
                    since_ns: now_ns,
                });
            }
        }
        publish(capsule, &next)?;
        swept.generation = next.number;
    }
    Ok(swept)
}

/// Gives packs up at once, so that the next save stores again what is in them: for packs that are damaged.
pub fn give_up(capsule: &Capsule, packs: &[(Kind, ObjectId)]) -> Result<Generation, Error> {
    let now_ns = store_time(capsule)?;
    let mut next = capsule.generation()?;
    next.number += 1;
    let known = next.packs();
    for (kind, pack) in packs {
        if !known.contains(pack) {
            next.given_up.push(GivenUp {
                kind: *kind,
                pack: *pack,
                since: next.number,
                since_ns: now_ns,
            });
        }
    }
    publish(capsule, &next)?;
    Ok(next)
}

fn publish(capsule: &Capsule, next: &Generation) -> Result<(), Error> {
    match next.write(capsule.store(), capsule.keys())? {
        Created::Made => {}
        Created::Existed => {
            return Err(Error::Overtaken {
                began: next.number - 1,
                now: next.number,
            });
        }
    }
    // Older generations say nothing that is still true.
    for stored in capsule.store().list(generation::FOLDER)? {
        if stored.name < generation::object(next.number) {
            capsule.store().delete(&stored.name)?;
        }
    }
    Ok(())
}

fn measure(
    index: &Index,
    needed: &HashSet<ChunkId>,
    uses: &mut HashMap<(Kind, ObjectId), Use>,
    swept: &mut Swept,
) {
    for (pack, _) in index.packs() {
        uses.entry((index.kind(), pack)).or_default();
    }
    for frame in index.frames() {
        let pack = index.pack(frame.pack);
        uses.entry((index.kind(), pack)).or_default().plain += u64::from(frame.plain_bytes);
    }
    for (id, place) in index.chunks() {
        if needed.contains(&id) {
            let pack = index.pack(index.frame(place.frame).pack);
            uses.entry((index.kind(), pack)).or_default().live += u64::from(place.length);
            swept.chunks_needed += 1;
        } else {
            swept.chunks_dead += 1;
        }
    }
}

/// Deletes packs: from the index first, so that whatever stops this leaves packs that nobody looks for.
fn delete(capsule: &Capsule, given_up: &[GivenUp], swept: &mut Swept) -> Result<(), Error> {
    if given_up.is_empty() {
        return Ok(());
    }
    let store = capsule.store();
    let gone: HashSet<ObjectId> = given_up.iter().map(|given| given.pack).collect();
    for stored in store.list(index::FOLDER)? {
        let mut segment = read_segment(store, capsule.keys(), &stored.name, None)?;
        let before = segment.packs.len();
        segment
            .packs
            .retain(|directory| !gone.contains(&directory.pack));
        if segment.packs.len() < before {
            if !segment.packs.is_empty() {
                write_segment(store, capsule.keys(), &segment.packs)?;
            }
            store.delete(&stored.name)?;
        }
    }
    for given in given_up {
        let object = pack::object(given.kind, &given.pack);
        swept.bytes_deleted += store.stat(&object).map_or(0, |stored| stored.bytes);
        store.delete(&object)?;
    }
    Ok(())
}

/// Deletes packs that no segment lists: of saves that were cut off long ago.
fn delete_unlisted(reader: &Reader<'_>, before_ns: i64, swept: &mut Swept) -> Result<(), Error> {
    let store = reader.capsule().store();
    for kind in [Kind::Tree, Kind::Data] {
        let listed: HashSet<ObjectId> = reader.index(kind)?.packs().map(|(pack, _)| pack).collect();
        for stored in store.list(pack::folder(kind))? {
            let is_listed =
                pack::from_name(kind, &stored.name).map_or(true, |pack| listed.contains(&pack));
            if !is_listed && stored.written_ns < before_ns {
                swept.packs_deleted += 1;
                swept.bytes_deleted += stored.bytes;
                store.delete(&stored.name)?;
            }
        }
    }
    Ok(())
}

/// When the oldest save under way began, by the store's clock. Marks that are too old are removed.
fn oldest_save(capsule: &Capsule, now_ns: i64) -> Result<Option<i64>, Error> {
    let mut oldest = None;
    for stored in capsule.store().list(SAVES)? {
        if stored.written_ns < now_ns.saturating_sub(SAVE_MAX_NS) {
            capsule.store().delete(&stored.name)?;
        } else {
            oldest = Some(oldest.unwrap_or(i64::MAX).min(stored.written_ns));
        }
    }
    Ok(oldest)
}

/// The time by the store's clock, nanoseconds since 1970: the only one that its stamps can be compared
/// with.
fn store_time(capsule: &Capsule) -> Result<i64, Error> {
    let name = format!("{PROBE}/{}", ObjectId::random()?);
    match capsule.store().create(&name, b"")? {
        Created::Made => {}
        Created::Existed => return Err(Error::Randomness),
    }
    let stored = capsule.store().stat(&name)?;
    capsule.store().delete(&name)?;
    Ok(stored.written_ns)
}
