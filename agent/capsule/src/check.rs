//! Looking for what is lost before it is needed: objects that are missing or damaged, and whose files they
//! hold.

mod data;
mod files;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::atomic::{AtomicBool, Ordering},
};

use crate::{
    capsule::Capsule,
    error::{Damage, Error},
    id::{ChunkId, ObjectId, SnapshotId},
    index::{self, Index, read_segment},
    key::Kind,
    pack::{self, Directory},
    reader::Reader,
    snapshot::{self, Lines, Snapshot},
};

/// How thoroughly to look.
pub struct Options<'o> {
    /// Read every byte of every pack, not only its directory.
    pub reads_data: bool,
    /// Of the packs only those whose turn it is: the first number of so many.
    pub slice: Option<(u8, u8)>,
    /// Set by somebody to have it end with [`Error::Cancelled`].
    pub cancelled: Option<&'o AtomicBool>,
    /// Told the object that is looked at, how many were and how many there are.
    pub progress: &'o mut dyn FnMut(&str, u64, u64),
}

/// What a check found.
#[derive(Debug, Default)]
pub struct Checked {
    pub snapshots: u64,
    pub segments: u64,
    pub packs: u64,
    pub chunks: u64,
    /// Bytes of packs that were read to the end.
    pub bytes_read: u64,
    /// Packs that no segment lists: of saves that were cut off, or under way.
    pub unlisted: Vec<String>,
    /// Objects that are not as they were written, by name.
    pub bad: BTreeMap<String, String>,
    /// Files that cannot be restored whole, by snapshot.
    pub files: BTreeMap<SnapshotId, Lines>,
    /// Packs in which something is damaged, for giving them up.
    pub bad_packs: Vec<(Kind, ObjectId)>,
}

impl Checked {
    pub fn is_good(&self) -> bool {
        self.bad.is_empty() && self.files.is_empty()
    }
}

/// Chunks that cannot be read, and why.
type BadChunks = HashMap<(Kind, ChunkId), String>;

/// Reads a pack and fails with the first chunk that cannot be had.
pub(crate) fn read_pack(capsule: &Capsule, listed: &Directory) -> Result<(), Error> {
    data::sound(capsule, listed)
}

/// Checks a capsule. An error means that the check itself could not go on.
pub fn check(capsule: &Capsule, options: Options<'_>) -> Result<Checked, Error> {
    let mut checked = Checked::default();
    let store = capsule.store();
    let mut packs: Vec<Directory> = Vec::new();
    for stored in store.list(index::FOLDER)? {
        match read_segment(store, capsule.keys(), &stored.name, None) {
            Ok(segment) => {
                checked.segments += 1;
                packs.extend(segment.packs);
            }
            Err(error) => note(&mut checked, &stored.name, error)?,
        }
    }
    if let Err(error) = capsule.generation() {
        note(&mut checked, crate::generation::FOLDER, error)?;
    }
    packs.sort_unstable_by_key(|directory| (directory.kind, directory.pack));
    packs.dedup_by_key(|directory| directory.pack);
    let listed: HashSet<String> = packs.iter().map(Directory::object).collect();
    let mut sizes = HashMap::new();
    for kind in [Kind::Data, Kind::Tree] {
        for stored in store.list(pack::folder(kind))? {
            if !listed.contains(&stored.name) {
                checked.unlisted.push(stored.name.clone());
            }
            sizes.insert(stored.name, stored.bytes);
        }
    }
    // A segment that is damaged lists nothing: its packs speak for themselves.
    if !checked.bad.is_empty() {
        for name in &checked.unlisted {
            for kind in [Kind::Data, Kind::Tree] {
                if let Ok(id) = pack::from_name(kind, name)
                    && let Ok(directory) = Directory::read(capsule.keys(), store, kind, id)
                {
                    packs.push(directory);
                }
            }
        }
    }
    let mut bad_chunks = BadChunks::new();
    let total = packs.len() as u64;
    for (at, directory) in packs.iter().enumerate() {
        let object = directory.object();
        (options.progress)(&object, at as u64, total);
        let is_cancelled = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        if options.cancelled.is_some_and(is_cancelled) {
            return Err(Error::Cancelled);
        }
        checked.packs += 1;
        let is_its_turn = options
            .slice
            .is_none_or(|(turn, of)| of == 0 || directory.pack.0[0] % of == turn % of);
        let before = bad_chunks.len();
        let found = match sizes.get(&object) {
            None => Err(Damage::Missing.to_string()),
            Some(_) if options.reads_data && is_its_turn => {
                data::read(capsule, directory, &mut checked, &mut bad_chunks)?
            }
            Some(size) => data::look(capsule, directory, *size)?,
        };
        if let Err(why) = found {
            if !sizes.contains_key(&object) {
                let members = directory.frames.iter().flat_map(|frame| &frame.members);
                for member in members {
                    bad_chunks.insert((directory.kind, member.id), why.clone());
                }
            }
            checked.bad.insert(object, why);
        }
        if bad_chunks.len() > before {
            checked.bad_packs.push((directory.kind, directory.pack));
        }
    }
    files(capsule, &packs, bad_chunks, &mut checked)?;
    Ok(checked)
}

/// Which files need what is bad, or what is nowhere.
fn files(
    capsule: &Capsule,
    packs: &[Directory],
    mut bad: BadChunks,
    checked: &mut Checked,
) -> Result<(), Error> {
    let mut indexes = [Index::new(Kind::Tree), Index::new(Kind::Data)];
    for directory in packs {
        let index = &mut indexes[usize::from(directory.kind == Kind::Data)];
        index.add(capsule.keys(), directory, false);
    }
    for index in &mut indexes {
        index.sort();
        checked.chunks += index.len() as u64;
    }
    // A chunk that lies in a second, sound pack is not lost.
    let sound = |kind: Kind, id: &ChunkId, bad_packs: &[(Kind, ObjectId)]| {
        packs
            .iter()
            .filter(|directory| {
                directory.kind == kind && !bad_packs.contains(&(kind, directory.pack))
            })
            .flat_map(|directory| directory.frames.iter().flat_map(|frame| &frame.members))
            .any(|member| member.id == *id)
    };
    bad.retain(|(kind, id), _| !sound(*kind, id, &checked.bad_packs));

    let reader = Reader::new(capsule)?;
    let [trees, data] = &indexes;
    let mut known = HashSet::new();
    for id in capsule.snapshot_ids()? {
        let snapshot = match Snapshot::read(capsule.store(), capsule.keys(), id) {
            Ok(snapshot) => snapshot,
            Err(error) => {
                note(checked, &snapshot::object(id), error)?;
                continue;
            }
        };
        checked.snapshots += 1;
        let mut look = files::Look {
            reader: &reader,
            trees,
            data,
            bad: &bad,
            known: &mut known,
            lines: Lines::default(),
        };
        look.snapshot(&snapshot)?;
        if look.lines.count > 0 {
            checked.files.insert(id, look.lines);
            // What was passed over because it was seen before may be what is bad: see all of each.
            known.clear();
        }
    }
    Ok(())
}

/// Damage is what a check is for; anything else ends it.
fn note(checked: &mut Checked, object: &str, error: Error) -> Result<(), Error> {
    match error {
        Error::Damaged { object, damage } => {
            checked.bad.insert(object, damage.to_string());
            Ok(())
        }
        Error::Store(crate::store::Error::NotFound(_)) => {
            checked
                .bad
                .insert(object.to_owned(), Damage::Missing.to_string());
            Ok(())
        }
        error => Err(error),
    }
}
