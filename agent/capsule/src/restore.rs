//! Giving files back: beneath one folder, through no symbolic link, over nothing that is not kept.

mod file;
mod folder;
mod gone;
mod links;
mod undo;

pub use undo::{Undone, undo};

use std::{
    collections::HashSet,
    os::fd::AsFd as _,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, sync_channel},
    },
    thread,
};

use rustix::{
    fs::{self, Mode, OFlags},
    io::Errno,
};

use crate::{
    cursor::Cursor,
    entry::{Entry, Node},
    error::Error,
    reader::Reader,
    snapshot::{Lines, Snapshot},
};

use file::Writer;
use folder::Folder;
use links::{Links, Role};

/// Files on their way to the threads that write them.
const QUEUE: usize = 64;
/// Leaving a deep folder leaves those above it too, one call within the other.
const STACK_BYTES: usize = 64 << 20;

/// What to do where something is already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// It stays, and that is said.
    Refuse,
    /// It is moved to [`Restored::kept`], and what was saved takes its place.
    Keep,
}

/// What to give back, and where.
pub struct Options<'o> {
    /// The folder below which paths appear as they were. Nobody who may want to mislead
    /// the restore may be able to change the way to it; what is in it may be anybody's.
    pub target: PathBuf,
    /// Whether the target is made if it is not there.
    pub makes_target: bool,
    /// A path below the target below which they appear instead; made, and no link in it is followed.
    pub below: Vec<u8>,
    /// What is taken off the paths: with `/home/user`, `/home/user/a` appears as `a`.
    pub strip: Vec<u8>,
    /// Absolute paths of the snapshot; none means all of it.
    pub paths: Vec<Vec<u8>>,
    pub existing: Existing,
    /// Whether owners are restored, which only root can.
    pub has_owners: bool,
    /// Who gets the folders that are made on the way, and those with what stood in it; else whoever restores.
    pub owner: Option<(u32, u32)>,
    pub threads: usize,
    /// Set by somebody to have it end with [`Error::Cancelled`].
    pub cancelled: Option<&'o AtomicBool>,
    /// Told now and then how far it is.
    pub progress: &'o mut dyn FnMut(&Tally),
}

/// Told now and then how far a restore is.
type Progress<'p> = dyn FnMut(&Tally) + 'p;

/// How much was restored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub files: u64,
    pub directories: u64,
    pub symlinks: u64,
    pub links: u64,
    pub bytes: u64,
}

/// What a restore did.
#[derive(Clone, Debug, Default)]
pub struct Restored {
    pub tally: Tally,
    /// What is not as it was saved, or was not restored at all.
    pub problems: Lines,
    /// Where what stood in the way is kept, relative to the target.
    pub kept: Option<String>,
    /// What was moved there.
    pub replaced: Lines,
    /// What an undo does not remove.
    stayed: Lines,
}

/// What all threads of a restore share.
pub(crate) struct Shared<'r, 'a> {
    reader: &'r Reader<'a>,
    has_owners: bool,
    existing: Existing,
    owner: Option<(u32, u32)>,
    below: Vec<u8>,
    strip: Vec<u8>,
    threads: usize,
    target: PathBuf,
    cancelled: Option<&'r AtomicBool>,
    is_full: AtomicBool,
    base: Arc<std::os::fd::OwnedFd>,
    kept: String,
    done: Mutex<Restored>,
    links: Links,
}

impl<'o, 'a> Shared<'o, 'a> {
    /// Opens the target. What is told how far it is comes back: it is the caller's alone.
    fn new(
        reader: &'o Reader<'a>,
        kept: String,
        options: Options<'o>,
    ) -> Result<(Self, &'o mut Progress<'o>), Error> {
        let unusable = |source: std::io::Error| Error::Files {
            path: options.target.clone(),
            source,
        };
        if options.makes_target {
            std::fs::create_dir_all(&options.target).map_err(unusable)?;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let base = fs::open(&options.target, flags, Mode::empty());
        let base = base.map_err(|errno| unusable(errno.into()))?;
        let shared = Self {
            reader,
            has_owners: options.has_owners,
            existing: options.existing,
            owner: options.owner,
            below: options.below,
            strip: options.strip,
            threads: options.threads.max(1),
            target: options.target,
            cancelled: options.cancelled,
            is_full: AtomicBool::new(false),
            base: Arc::new(base),
            kept,
            done: Mutex::default(),
            links: Links::default(),
        };
        Ok((shared, options.progress))
    }

    /// Has files written that `walked` hands out, and returns when all of them are.
    fn write<'s>(
        &'s self,
        walked: impl FnOnce(&mut Hand<'_, 's, 'o, 'a>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        thread::scope(|scope| {
            let (jobs, jobs_in) = sync_channel(QUEUE);
            let jobs_in = Arc::new(Mutex::new(jobs_in));
            for _ in 0..self.threads {
                let jobs_in = jobs_in.clone();
                thread::Builder::new()
                    .stack_size(STACK_BYTES)
                    .spawn_scoped(scope, move || work(self, &jobs_in))
                    .map_err(|source| Error::Files {
                        path: self.target.clone(),
                        source,
                    })?;
            }
            drop(jobs_in);
            walked(&mut |job| jobs.send(job).map_err(|_| Error::WorkerGone))
        })?;
        self.check_wanted()
    }

    fn into_done(self) -> Restored {
        let done = self.done.into_inner();
        let mut done = done.unwrap_or_else(PoisonError::into_inner);
        if done.replaced.count > 0 {
            done.kept = Some(self.kept);
        }
        done
    }

    /// A name beside another one: the same whenever the same is restored, so that what a killed process left is found.
    fn beside(&self, what: &str, name: &[u8]) -> Vec<u8> {
        let mut hasher = blake3::Hasher::new();
        for part in [what.as_bytes(), self.kept.as_bytes(), name] {
            hasher.update(part).update(&[0]);
        }
        let hash = hex::encode(&hasher.finalize().as_bytes()[..16]);
        format!(".cocoonbox-{hash}").into_bytes()
    }

    /// The folders and the name of a path in the target. No name: it is the target itself.
    fn parts<'p>(&'p self, path: &'p [u8]) -> (Vec<&'p [u8]>, Option<&'p [u8]>) {
        let own = path.strip_prefix(&self.strip[..]).unwrap_or(path);
        let mut parts: Vec<&[u8]> = [&self.below[..], own]
            .into_iter()
            .flat_map(|path| path.split(|byte| *byte == b'/'))
            .filter(|part| !part.is_empty())
            .collect();
        let last = parts.pop();
        (parts, last)
    }

    fn done(&self) -> std::sync::MutexGuard<'_, Restored> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is a reason to go no further.
    fn check_wanted(&self) -> Result<(), Error> {
        if self.is_full.load(Ordering::Relaxed) {
            return Err(Error::TargetFull);
        }
        match self.cancelled {
            Some(cancelled) if cancelled.load(Ordering::Relaxed) => Err(Error::Cancelled),
            _ => Ok(()),
        }
    }

    fn stays(&self, path: &[u8], why: impl Into<String>) {
        self.done().stayed.push(path, why);
    }

    fn problem(&self, path: &[u8], why: impl Into<String>) {
        self.done().problems.push(path, why);
    }
}

/// One file to write.
struct Job<'s, 'r, 'a> {
    folder: Arc<Folder<'s, 'r, 'a>>,
    entry: Entry,
    path: Vec<u8>,
    role: Role,
    /// What an undo expects to stand there.
    was: Option<Entry>,
}

/// Takes files to write.
type Hand<'h, 's, 'r, 'a> = dyn FnMut(Job<'s, 'r, 'a>) -> Result<(), Error> + 'h;

/// Restores from a snapshot. What fails for one file is in the answer's problems; what fails for all is an
/// error.
pub fn restore<'o>(
    reader: &'o Reader<'_>,
    snapshot: &Snapshot,
    options: Options<'o>,
) -> Result<Restored, Error> {
    let selected = select(reader, snapshot, &options.paths)?;
    let (shared, progress) = Shared::new(reader, kept_name(snapshot), options)?;
    shared.write(|hand| {
        for (path, entry) in selected {
            walk(&shared, &path, entry, progress, hand)?;
        }
        Ok(())
    })?;
    let done = shared.into_done();
    progress(&done.tally);
    Ok(done)
}

/// Where a restore of a snapshot keeps what stood in its way, relative to the target.
fn kept_name(snapshot: &Snapshot) -> String {
    format!(".cocoonbox-kept-{}", snapshot.id)
}

/// The entries to restore, none within another.
fn select(
    reader: &Reader<'_>,
    snapshot: &Snapshot,
    paths: &[Vec<u8>],
) -> Result<Vec<(Vec<u8>, Entry)>, Error> {
    if paths.is_empty() {
        return Ok(snapshot
            .roots
            .iter()
            .map(|root| (root.path.clone(), root.entry.clone()))
            .collect());
    }
    let paths = outermost(paths.to_vec());
    let found = paths.into_iter().map(|path| {
        let entry = reader.lookup(snapshot, &path)?;
        Ok((path, entry))
    });
    found.collect()
}

/// Paths in order, without those that are within another one.
fn outermost(mut paths: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    paths.sort_unstable();
    paths.dedup();
    let all: HashSet<Vec<u8>> = paths.iter().cloned().collect();
    paths.retain(|path| {
        let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let mut above = slashes.map(|(at, _)| if at == 0 { &path[..1] } else { &path[..at] });
        !above.any(|above| above != path && all.contains(above))
    });
    paths
}

/// Makes folders and symbolic links, and hands files out.
fn walk<'s, 'r, 'a>(
    shared: &'s Shared<'r, 'a>,
    path: &[u8],
    mut entry: Entry,
    progress: &mut dyn FnMut(&Tally),
    hand: &mut Hand<'_, 's, 'r, 'a>,
) -> Result<(), Error> {
    let (parts, last) = shared.parts(path);
    let mut folder = Folder::base(shared);
    for part in parts {
        folder = match Folder::passage(shared, &folder, part) {
            Ok(folder) => folder,
            Err(error) => {
                shared.problem(path, error.to_string());
                return Ok(());
            }
        };
    }
    let mut stack = Vec::new();
    match last {
        Some(name) => {
            name.clone_into(&mut entry.name);
            step(shared, &folder, entry, None, &mut stack, hand)?;
        }
        // The root itself.
        None => {
            if let Node::Directory { tree, .. } = entry.node {
                stack.push((Cursor::new(shared.reader, tree), folder));
            }
        }
    }
    fill(shared, stack, progress, hand)
}

/// Folders that are being filled, with what is still to come in each.
type Filling<'s, 'r, 'a> = Vec<(Cursor<'r, 'a>, Arc<Folder<'s, 'r, 'a>>)>;

/// Fills folders and those in them.
fn fill<'s, 'r, 'a>(
    shared: &'s Shared<'r, 'a>,
    mut stack: Filling<'s, 'r, 'a>,
    progress: &mut dyn FnMut(&Tally),
    hand: &mut Hand<'_, 's, 'r, 'a>,
) -> Result<(), Error> {
    let mut steps = 0u64;
    while let Some((cursor, folder)) = stack.last_mut() {
        steps += 1;
        if steps.is_multiple_of(256) {
            let tally = shared.done().tally;
            progress(&tally);
        }
        shared.check_wanted()?;
        match cursor.next_entry() {
            Ok(Some(entry)) => {
                let folder = folder.clone();
                step(shared, &folder, entry, None, &mut stack, hand)?;
            }
            Ok(None) => drop(stack.pop()),
            Err(error) if is_local(&error) => {
                shared.problem(&folder.path, describe(&error));
                drop(stack.pop());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Puts an entry into a folder; one that was expected to stand there need not be kept.
fn step<'s, 'r, 'a>(
    shared: &'s Shared<'r, 'a>,
    folder: &Arc<Folder<'s, 'r, 'a>>,
    entry: Entry,
    was: Option<Entry>,
    stack: &mut Filling<'s, 'r, 'a>,
    hand: &mut Hand<'_, 's, 'r, 'a>,
) -> Result<(), Error> {
    let path = folder.below(&entry.name);
    match &entry.node {
        Node::Directory { tree, .. } => {
            let tree = *tree;
            match Folder::make(shared, folder, &entry, was.as_ref()) {
                Ok(made) => stack.push((Cursor::new(shared.reader, tree), made)),
                Err(error) => shared.problem(&path, error.to_string()),
            }
        }
        Node::Symlink { target } => {
            if let Err(error) = file::symlink(shared, folder, &entry, target, was.as_ref()) {
                shared.problem(&path, error.to_string());
            }
        }
        Node::File(node) => {
            let role = shared.links.role(node.link);
            hand(Job {
                folder: folder.clone(),
                entry,
                path,
                role,
                was,
            })?;
        }
    }
    Ok(())
}

fn work<'s, 'r, 'a>(shared: &'s Shared<'r, 'a>, jobs: &Mutex<Receiver<Job<'s, 'r, 'a>>>) {
    let mut writer = Writer::new(shared);
    loop {
        let next = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = next else { return };
        if let Err(error) = writer.write(&job) {
            if let Problem::System {
                errno: Errno::NOSPC | Errno::DQUOT,
                ..
            } = error
            {
                shared.is_full.store(true, Ordering::Relaxed);
            }
            shared.problem(&job.path, error.to_string());
        }
    }
}

/// Whether a failure is of one place in the store, so that the rest can be restored.
fn is_local(error: &Error) -> bool {
    matches!(error, Error::Damaged { .. } | Error::ChunkMissing { .. })
}

/// An error with its causes on one line.
fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// Why one file is not as it was.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    #[error("something is there already")]
    Exists,
    #[error("{doing}: {errno}")]
    System {
        doing: &'static str,
        errno: rustix::io::Errno,
    },
    #[error("{0}")]
    Capsule(String),
}

impl Problem {
    fn of(doing: &'static str) -> impl Fn(rustix::io::Errno) -> Self {
        move |errno| Self::System { doing, errno }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Self::Capsule(describe(&error))
    }
}

/// The shared base as a descriptor to resolve beneath.
fn base<'b>(shared: &'b Shared<'_, '_>) -> std::os::fd::BorrowedFd<'b> {
    shared.base.as_fd()
}
