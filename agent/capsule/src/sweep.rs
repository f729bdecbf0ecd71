//! Giving back what no snapshot needs, beside saves that go on.
//!
//! A sweep deletes nothing that it has just found useless. It writes the next generation, which names the
//! packs that are given up; from then on no save relies on them. Only a later sweep deletes them: when they
//! were given up long enough ago by the store's own clock, no save that began before is under way, and
//! still nothing needs them.

mod needed;
mod rewrite;

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use crate::{
    capsule::Capsule,
    error::Error,
    generation::{self, Generation, GivenUp},
    id::{ChunkId, ObjectId, SnapshotId},
    index::{self, Index, read_segment, write_segment},
    key::Kind,
    pack,
    reader::Reader,
    snapshot,
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
    /// The snapshots that are kept, where that is known elsewhere: records of others are deleted once no save can be
    /// about to keep them. `None` = all that are there.
    pub kept: Option<HashSet<SnapshotId>>,
    /// Whether records that were written just now count although they are not among `kept`. Without it a sweep is one
    /// to look at only.
    pub counts_new: bool,
    /// Set by somebody to have it end with [`Error::Cancelled`], which is as harmless as killing it.
    pub cancelled: Option<Arc<AtomicBool>>,
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
            kept: None,
            counts_new: true,
            cancelled: None,
            is_dry: false,
            level: crate::save::LEVEL,
            threads: 2,
        }
    }
}

impl Options {
    /// Whether there is a reason to go no further.
    fn check_wanted(&self) -> Result<(), Error> {
        let is_cancelled = |flag: &Arc<AtomicBool>| flag.load(Ordering::Relaxed);
        if self.cancelled.as_ref().is_some_and(is_cancelled) {
            return Err(Error::Cancelled);
        }
        Ok(())
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
    /// Records of snapshots that nobody keeps.
    pub records_deleted: u64,
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

/// What a sweep is going to do.
pub struct Plan<'c> {
    reader: Reader<'c>,
    old: Generation,
    needed: Needed,
    /// Records that nobody keeps.
    unkept: Vec<SnapshotId>,
    useless: Vec<Pack>,
    sparse: Vec<Pack>,
    deletable: Vec<GivenUp>,
    /// Deleted by a sweep before.
    gone: Vec<GivenUp>,
    waiting: Vec<GivenUp>,
    oldest_save: Option<i64>,
    now_ns: i64,
    swept: Swept,
}

type Pack = (Kind, ObjectId);

/// Sweeps. Two at once are one too many: the second fails without harm.
pub fn sweep(capsule: &Capsule, options: &Options) -> Result<Swept, Error> {
    let plan = plan(capsule, options)?;
    if options.is_dry {
        return Ok(plan.swept);
    }
    plan.carry_out(options)
}

/// Looks at what there is to sweep. Changes nothing.
pub fn plan<'c>(capsule: &'c Capsule, options: &Options) -> Result<Plan<'c>, Error> {
    let now_ns = store_time(capsule)?;
    let reader = Reader::new(capsule)?;
    let old = reader.generation().clone();
    let oldest_save = oldest_save(capsule, now_ns)?;
    let mut swept = Swept::default();

    let before_ns = safe_before(oldest_save, now_ns);
    let (counted, unkept) = records(capsule, options, before_ns)?;
    let mut all = Needed::default();
    let mut known = HashSet::new();
    for id in counted {
        options.check_wanted()?;
        let one = needed(&reader, &capsule.snapshot(id)?, &mut known)?;
        all.trees.extend(one.trees);
        all.data.extend(one.data);
        swept.snapshots += 1;
    }
    let mut uses: HashMap<Pack, Use> = HashMap::new();
    for (kind, needed) in [(Kind::Tree, &all.trees), (Kind::Data, &all.data)] {
        let index = reader.index(kind)?;
        measure(index, needed, &mut uses, &mut swept);
    }

    let given_up: HashSet<ObjectId> = old.packs().into_iter().collect();
    let (useless, sparse) = worth(&uses, &given_up, options);
    let (deletable, waiting): (Vec<_>, Vec<_>) = old.given_up.iter().cloned().partition(|given| {
        let is_unused = uses
            .get(&(given.kind, given.pack))
            .is_none_or(|found| found.live == 0);
        is_unused
            && given.since_ns <= now_ns.saturating_sub(options.grace_ns)
            && oldest_save.is_none_or(|began_ns| began_ns > given.since_ns)
    });
    // A merge of segments that began before the deletion may have listed a pack again: it stays given up until a sweep
    // finds it in no segment.
    let (deletable, gone): (Vec<_>, Vec<_>) = deletable
        .into_iter()
        .partition(|given| uses.contains_key(&(given.kind, given.pack)));
    swept.generation = old.number;
    swept.packs_given_up = (useless.len() + sparse.len()) as u64;
    swept.packs_rewritten = sparse.len() as u64;
    swept.packs_waiting = waiting.len() as u64;
    swept.packs_deleted = deletable.len() as u64;
    swept.records_deleted = unkept.len() as u64;
    Ok(Plan {
        reader,
        old,
        needed: all,
        unkept,
        useless,
        sparse,
        deletable,
        gone,
        waiting,
        oldest_save,
        now_ns,
        swept,
    })
}

impl Plan<'_> {
    /// What it comes to, as far as it can be said before.
    pub fn numbers(&self) -> &Swept {
        &self.swept
    }

    /// Does it. Killed anywhere, it leaves a capsule that is whole, and that the next sweep goes on with.
    pub fn carry_out(self, options: &Options) -> Result<Swept, Error> {
        let capsule = self.reader.capsule();
        let mut swept = self.swept;
        options.check_wanted()?;
        if !options.counts_new {
            return Err(Error::Cancelled);
        }
        for id in &self.unkept {
            capsule.store().delete(&snapshot::object(*id))?;
        }
        delete(capsule, &self.deletable, &mut swept)?;
        let before_ns = safe_before(self.oldest_save, self.now_ns);
        delete_unlisted(&self.reader, before_ns, &mut swept)?;
        capsule.store().tidy(self.now_ns, DAY_NS)?;
        let kinds = [
            (Kind::Tree, &self.needed.trees),
            (Kind::Data, &self.needed.data),
        ];
        rewrite::rewrite(&self.reader, &self.sparse, &kinds, options)?;
        let is_idle = self.useless.is_empty() && self.sparse.is_empty();
        if !is_idle || !self.deletable.is_empty() || !self.gone.is_empty() {
            let given_up = self.old.packs();
            let mut next = Generation {
                number: self.old.number + 1,
                given_up: self.waiting,
            };
            next.given_up.extend(self.deletable);
            for (kind, pack) in self.useless.into_iter().chain(self.sparse) {
                if !given_up.contains(&pack) {
                    next.given_up.push(GivenUp {
                        kind,
                        pack,
                        since: next.number,
                        since_ns: self.now_ns,
                    });
                }
            }
            publish(capsule, &next)?;
            swept.generation = next.number;
        }
        Ok(swept)
    }
}

/// The records that count, and those that nobody keeps.
fn records(
    capsule: &Capsule,
    options: &Options,
    before_ns: i64,
) -> Result<(Vec<SnapshotId>, Vec<SnapshotId>), Error> {
    let stored = capsule.store().list(snapshot::FOLDER)?;
    let found = stored.iter().filter_map(|stored| {
        let id = snapshot::from_name(&stored.name)?;
        Some((id, stored.written_ns))
    });
    let Some(kept) = &options.kept else {
        return Ok((found.map(|(id, _)| id).collect(), Vec::new()));
    };
    let found: HashMap<SnapshotId, i64> = found.collect();
    if let Some(lost) = kept.iter().find(|id| !found.contains_key(id)) {
        return Err(Error::SnapshotNotFound(lost.to_string()));
    }
    // One that was written just now may be about to be kept.
    let is_counted = |id: &SnapshotId, written_ns: i64| {
        kept.contains(id) || options.counts_new && written_ns >= before_ns
    };
    let (mut counted, mut unkept) = (Vec::new(), Vec::new());
    for (id, written_ns) in found {
        if is_counted(&id, written_ns) {
            counted.push(id);
        } else {
            unkept.push(id);
        }
    }
    counted.sort_unstable();
    unkept.sort_unstable();
    Ok((counted, unkept))
}

/// Before this, by the store's clock, nothing belongs to a save that is under way.
fn safe_before(oldest_save: Option<i64>, now_ns: i64) -> i64 {
    oldest_save.map_or(now_ns, |began_ns| began_ns.min(now_ns)) - DAY_NS
}

/// The packs that nothing needs, and those of which little enough is needed to be written again.
fn worth(
    uses: &HashMap<Pack, Use>,
    given_up: &HashSet<ObjectId>,
    options: &Options,
) -> (Vec<Pack>, Vec<Pack>) {
    let (mut useless, mut sparse) = (Vec::new(), Vec::new());
    for ((kind, pack), found) in uses {
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
    let sparse = sparse.into_iter().map(|(kind, pack, ..)| (kind, pack));
    (useless, sparse.collect())
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
