//! Saving folders: reads what changed, keeps what is new, and ends with one record.

mod adopt;
mod commit;
mod exclude;
mod file;
mod meta;
pub(crate) mod pipeline;
mod reuse;
mod sink;
mod walk;

use std::{
    collections::BTreeMap,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    sync::atomic::AtomicBool,
    thread,
};

use rustix::{
    fs::{self, Mode, OFlags},
    io::Errno,
};

use crate::{
    cache::{self, StatCache},
    capsule::Capsule,
    error::Error,
    id::SnapshotId,
    reader::Reader,
    snapshot::{Counts, Root, Snapshot},
};

pub use exclude::IGNORE_FILE;

use pipeline::Pipeline;
use reuse::Parent;
use sink::Sink;
use walk::{Walk, Walked};

/// What zstd does unless told otherwise.
pub const LEVEL: i32 = 3;

/// What to save and how.
pub struct Options<'o> {
    /// Absolute paths of folders.
    pub roots: Vec<Vec<u8>>,
    /// Where the files of a root are read, if that is not its path: those of a machine that has other paths.
    pub places: BTreeMap<Vec<u8>, PathBuf>,
    /// What is saved, for finding the parent: a box's id for instance.
    pub label: Vec<u8>,
    /// The time, nanoseconds since 1970. Called at the start and at the end.
    pub now_ns: &'o dyn Fn() -> i64,
    /// Where the stat cache is kept; without it times of change are not compared.
    pub cache: Option<PathBuf>,
    /// Whether caches and what can be made again are left out.
    pub has_default_excludes: bool,
    /// Level of zstd.
    pub level: i32,
    /// Threads that compress.
    pub threads: usize,
    /// Read everything again, whatever the parent says.
    pub is_full: bool,
    /// Keep nothing if all folders are as in the parent.
    pub only_if_changed: bool,
    /// Read everything that was stored back, and compare it, before the record is written.
    pub reads_back: bool,
    /// Fails with [`Error::NoRoom`] when more than this would be stored.
    pub bytes_max: Option<u64>,
    /// Set by somebody to have it end with [`Error::Cancelled`].
    pub cancelled: Option<&'o AtomicBool>,
    /// Told now and then how far it is.
    pub progress: &'o mut dyn FnMut(&Counts),
}

/// How a save came out.
#[derive(Clone, Debug)]
pub enum Saved {
    /// There is a new record.
    Kept(Snapshot),
    /// Nothing is otherwise than in this one, and that was enough.
    Unchanged(Snapshot),
}

impl Saved {
    /// The snapshot that the folders are as in.
    pub fn into_snapshot(self) -> Snapshot {
        match self {
            Self::Kept(snapshot) | Self::Unchanged(snapshot) => snapshot,
        }
    }
}

impl<'o> Options<'o> {
    /// Saves `roots` with all defaults and no cache.
    pub fn new(
        roots: Vec<Vec<u8>>,
        now_ns: &'o dyn Fn() -> i64,
        progress: &'o mut dyn FnMut(&Counts),
    ) -> Self {
        Self {
            roots,
            places: BTreeMap::new(),
            label: Vec::new(),
            now_ns,
            cache: None,
            has_default_excludes: true,
            level: LEVEL,
            threads: thread::available_parallelism().map_or(2, usize::from),
            is_full: false,
            only_if_changed: false,
            reads_back: false,
            bytes_max: None,
            cancelled: None,
            progress,
        }
    }
}

/// Saves, and answers the record that is then in the store.
///
/// Cut off at any point it leaves packs that the next save finds again, and no snapshot.
pub fn save(capsule: &Capsule, options: Options<'_>) -> Result<Saved, Error> {
    let started_ns = (options.now_ns)();
    let id = SnapshotId::at(started_ns)?;
    let mut roots = options.roots.clone();
    roots.sort_unstable();
    roots.dedup();

    let mark = commit::Mark::set(capsule, id)?;
    let mut reader = Reader::new(capsule)?;
    if adopt::adopt(&reader, mark.name())? {
        reader = Reader::new(capsule)?;
    }
    let found = if options.is_full {
        None
    } else {
        reuse::find_parent(capsule, &options.label, &roots)?
    };
    let cache_file = options
        .cache
        .as_ref()
        .map(|folder| cache::file(capsule, folder, &options.label));
    let parent = found.map(|snapshot| {
        let seen = cache_file
            .as_ref()
            .and_then(|file| StatCache::read(capsule, file, snapshot.id));
        Parent {
            reader: &reader,
            snapshot,
            seen,
        }
    });

    let pipeline = Pipeline::new(capsule).at_most(options.bytes_max);
    let walked = thread::scope(|scope| {
        let frames = pipeline.start(scope, options.level, options.threads);
        let sink = Sink::new(
            capsule,
            &reader,
            frames,
            pipeline.spare(),
            options.cancelled,
        )?;
        walk_roots(
            &roots,
            &options.places,
            parent.as_ref(),
            started_ns,
            options.has_default_excludes,
            sink,
            options.progress,
        )
    });
    let (roots, walked) = match walked {
        Ok(walked) => walked,
        Err(error) => {
            let failure = pipeline.failure();
            // What was stored is found by the next save. If it is not, that one stores it again.
            pipeline.list_rest().ok();
            return Err(match error {
                Error::WorkerGone => failure.unwrap_or(Error::WorkerGone),
                error => error,
            });
        }
    };
    let stored = pipeline.finish()?;

    let Walked {
        mut counts,
        excluded,
        skipped,
        unsettled,
        seen,
        added,
    } = walked;
    let is_unchanged = |parent: &Parent<'_>| parent.snapshot.roots == roots;
    if options.only_if_changed
        && let Some(parent) = parent.as_ref().filter(|parent| is_unchanged(parent))
    {
        mark.clear()?;
        if let Some(file) = cache_file {
            StatCache::write(capsule, &file, parent.snapshot.id, seen)?;
        }
        return Ok(Saved::Unchanged(parent.snapshot.clone()));
    }
    counts.chunks_added = added;
    counts.bytes_added = stored.bytes;
    let snapshot = Snapshot {
        id,
        started_ns,
        ended_ns: (options.now_ns)(),
        parent: parent.map(|parent| parent.snapshot.id),
        generation: reader.generation().number,
        label: options.label.clone(),
        roots,
        counts,
        excluded,
        skipped,
        unsettled,
    };
    if options.reads_back {
        commit::read_back(capsule, &stored)?;
    }
    commit::commit(capsule, &snapshot, &stored)?;
    mark.clear()?;
    if let Some(file) = cache_file {
        StatCache::write(capsule, &file, id, seen)?;
    }
    crate::index::merge_small(capsule.store(), capsule.keys())?;
    Ok(Saved::Kept(snapshot))
}

fn walk_roots(
    paths: &[Vec<u8>],
    places: &BTreeMap<Vec<u8>, PathBuf>,
    parent: Option<&Parent<'_>>,
    started_ns: i64,
    has_default_excludes: bool,
    sink: Sink<'_>,
    progress: &mut dyn FnMut(&Counts),
) -> Result<(Vec<Root>, Walked), Error> {
    let mut walk = Walk::new(parent, started_ns, has_default_excludes, sink, progress);
    let mut roots = Vec::new();
    for path in paths {
        let unusable = |errno: Errno| Error::Files {
            path: String::from_utf8_lossy(path).into_owned().into(),
            source: errno.into(),
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let place = places.get(path).map(PathBuf::as_path);
        let place = place.unwrap_or_else(|| Path::new(std::ffi::OsStr::from_bytes(path)));
        let folder = fs::open(place, flags, Mode::empty()).map_err(unusable)?;
        let entry = walk.root(path, folder)?;
        roots.push(Root {
            path: path.clone(),
            entry,
        });
    }
    Ok((roots, walk.finish()?))
}
