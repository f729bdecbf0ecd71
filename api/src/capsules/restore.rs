//! One restore, on a thread that may block.
//!
//! The host writes into folders that belong to a box, which may change them meanwhile: everything is done from
//! descriptors of the box's own roots, beneath them and through no link.

use std::{
    io,
    os::fd::{AsRawFd as _, OwnedFd},
    path::Path,
    sync::atomic::AtomicBool,
    thread,
};

use cocoonbox_capsule::{
    Error, Reader, Snapshot, SnapshotId,
    restore::{self, Existing, Restored, Tally},
};
use cocoonbox_machines::UserFolder;
use rustix::{
    fs::{self, AtFlags, Mode, OFlags, RenameFlags, ResolveFlags},
    io::Errno,
};
use tokio::sync::watch;

use super::{Place, PlaceError, progress::Step};

/// Where what is given back appears, in the box's home.
const RESTORED: &str = "Restored";
const HOME: &str = "/home/user";
/// Restores of one snapshot that stand beside each other.
const NAMES_MAX: usize = 1_000;

/// What to give back.
pub(super) struct Job<'j> {
    pub(super) place: &'j Place,
    pub(super) user: &'j str,
    pub(super) restore_id: &'j str,
    pub(super) snapshot_id: &'j str,
    pub(super) paths: &'j [Vec<u8>],
    pub(super) folders: &'j [UserFolder],
    pub(super) step: &'j watch::Sender<Step>,
    pub(super) cancelled: &'j AtomicBool,
}

/// What came of it.
#[derive(Default)]
pub(super) struct Done {
    /// In the box; empty if each file is where it was.
    pub(super) target: String,
    pub(super) tally: Tally,
    pub(super) replaced: u64,
    /// In the box.
    pub(super) kept: Vec<String>,
    pub(super) problems: u64,
    /// Of an undo: files that are gone, and paths that stay since they were changed.
    pub(super) removed: u64,
    pub(super) stayed: u64,
}

impl Job<'_> {
    /// Gives files back below `~/Restored`, in a folder that appears when all is in it.
    pub(super) fn beside(&self) -> Result<Done, PlaceError> {
        let home = self.folders.iter().find(|one| one.path == HOME);
        let home = home.ok_or_else(|| unusable(HOME, Errno::NOENT.into()))?;
        let (capsule, snapshot) = self.open()?;
        let reader = Reader::new(&capsule)?;
        let base = open_root(&home.place)?;
        let draft = format!(".cocoonbox-restore-{}", self.restore_id);
        clear(&base, &draft)?;
        let below = format!("{RESTORED}/{draft}");
        let restored = self.restore(&reader, &snapshot, home, &below, b"", self.paths);
        let restored = match restored {
            // Nothing of it could be written: then the folder is not there either.
            Ok(restored) if restored.tally == Tally::default() => {
                clear(&base, &draft)?;
                let why = restored.problems.list.into_iter().next();
                let why = why.map_or_else(|| "nothing to restore".to_owned(), |line| line.why);
                return Err(unusable(HOME, io::Error::other(why)).into());
            }
            Ok(restored) => restored,
            Err(error) => {
                clear(&base, &draft).ok();
                return Err(error.into());
            }
        };
        let name = publish(&base, &draft, &stamp(&snapshot))?;
        rustix::fs::syncfs(&base).map_err(|errno| unusable(HOME, errno.into()))?;
        Ok(Done {
            target: format!("{HOME}/{RESTORED}/{name}"),
            tally: restored.tally,
            problems: restored.problems.count,
            ..Done::default()
        })
    }

    /// Puts files back where they were. What is there is moved aside.
    pub(super) fn in_place(&self) -> Result<Done, PlaceError> {
        let (capsule, snapshot) = self.open()?;
        let reader = Reader::new(&capsule)?;
        // Nothing is begun if not all of it can be found.
        for path in self.paths {
            reader.lookup(&snapshot, path)?;
        }
        self.each(&reader, &snapshot, self.paths)
    }

    /// Puts all files of a snapshot into folders that hold none.
    pub(super) fn everything(&self) -> Result<Done, PlaceError> {
        let (capsule, snapshot) = self.open()?;
        let reader = Reader::new(&capsule)?;
        let roots: Vec<_> = snapshot
            .roots
            .iter()
            .map(|root| root.path.clone())
            .collect();
        self.each(&reader, &snapshot, &roots)
    }

    fn each(
        &self,
        reader: &Reader<'_>,
        snapshot: &Snapshot,
        paths: &[Vec<u8>],
    ) -> Result<Done, PlaceError> {
        let mut all = Done::default();
        for (folder, own) in self.own(paths) {
            let strip = folder.path.as_bytes();
            let done = self.restore(reader, snapshot, folder, "", strip, &own)?;
            all.add(folder, done)?;
        }
        Ok(all)
    }

    /// The folders of the box that paths are in, with these.
    fn own(&self, paths: &[Vec<u8>]) -> impl Iterator<Item = (&UserFolder, Vec<Vec<u8>>)> {
        self.folders.iter().filter_map(|folder| {
            let own = paths.iter().filter(|path| is_in(path, folder));
            let own: Vec<_> = own.cloned().collect();
            (!own.is_empty()).then_some((folder, own))
        })
    }

    /// Takes back what a restore of another snapshot in place has done; ours was saved before it.
    pub(super) fn undo(&self, restored_id: &str) -> Result<Done, PlaceError> {
        let (capsule, before) = self.open()?;
        let restored = snapshot(&capsule, restored_id)?;
        let reader = Reader::new(&capsule)?;
        let mut all = Done::default();
        for (folder, own) in self.own(self.paths) {
            let mut progress = self.progress();
            let options = self.options(folder, "", folder.path.as_bytes(), &own, &mut progress);
            let undone = restore::undo(&reader, &restored, &before, options)?;
            all.add(folder, undone.restored)?;
            all.removed += undone.removed;
            all.stayed += undone.stayed.count;
        }
        Ok(all)
    }

    fn open(&self) -> Result<(cocoonbox_capsule::Capsule, Snapshot), PlaceError> {
        let capsule = self.place.open(self.user)?;
        let snapshot = snapshot(&capsule, self.snapshot_id)?;
        Ok((capsule, snapshot))
    }

    fn restore(
        &self,
        reader: &Reader<'_>,
        snapshot: &Snapshot,
        folder: &UserFolder,
        below: &str,
        strip: &[u8],
        paths: &[Vec<u8>],
    ) -> Result<Restored, Error> {
        let mut progress = self.progress();
        let options = self.options(folder, below, strip, paths, &mut progress);
        restore::restore(reader, snapshot, options)
    }

    fn progress(&self) -> impl FnMut(&Tally) + use<> {
        let step = self.step.clone();
        move |tally: &Tally| {
            step.send_replace(Step {
                files: tally.files,
                bytes: tally.bytes,
                bytes_read: 0,
            });
        }
    }

    fn options<'o>(
        &'o self,
        folder: &UserFolder,
        below: &str,
        strip: &[u8],
        paths: &[Vec<u8>],
        progress: &'o mut dyn FnMut(&Tally),
    ) -> restore::Options<'o> {
        restore::Options {
            target: folder.place.clone(),
            // A box that is deleted meanwhile does not get its folders back.
            makes_target: false,
            below: below.as_bytes().to_vec(),
            strip: strip.to_vec(),
            paths: paths.to_vec(),
            existing: Existing::Keep,
            has_owners: true,
            owner: Some(folder.owner),
            threads: thread::available_parallelism().map_or(1, |all| all.get().div_ceil(2)),
            cancelled: Some(self.cancelled),
            progress,
        }
    }
}

impl Done {
    /// Adds what was done in one folder of the box, once it is on the disk.
    fn add(&mut self, folder: &UserFolder, done: Restored) -> Result<(), Error> {
        self.tally.files += done.tally.files;
        self.tally.directories += done.tally.directories;
        self.tally.symlinks += done.tally.symlinks;
        self.tally.links += done.tally.links;
        self.tally.bytes += done.tally.bytes;
        self.replaced += done.replaced.count;
        self.problems += done.problems.count;
        let kept = done.kept.map(|kept| format!("{}/{kept}", folder.path));
        self.kept.extend(kept);
        let base = open_root(&folder.place)?;
        fs::syncfs(&base).map_err(|errno| unusable(folder.path, errno.into()))
    }
}

fn snapshot(capsule: &cocoonbox_capsule::Capsule, id: &str) -> Result<Snapshot, Error> {
    let missing = || Error::SnapshotNotFound(id.to_owned());
    capsule.snapshot(SnapshotId::parse(id).ok_or_else(missing)?)
}

/// Whether a path is in a folder of the box.
pub(super) fn is_in(path: &[u8], folder: &UserFolder) -> bool {
    path.strip_prefix(folder.path.as_bytes())
        .is_some_and(|rest| rest.first().is_none_or(|byte| *byte == b'/'))
}

fn open_root(place: &Path) -> Result<OwnedFd, Error> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    fs::open(place, flags, Mode::empty()).map_err(|errno| unusable(HOME, errno.into()))
}

/// `~/Restored`, if it is a folder.
fn open_restored(base: &OwnedFd) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    fs::openat2(base, RESTORED, flags, Mode::empty(), resolve)
}

/// Removes what a restore that was cut off left.
fn clear(base: &OwnedFd, draft: &str) -> Result<(), Error> {
    let Ok(restored) = open_restored(base) else {
        return Ok(());
    };
    // By way of the descriptor: whatever `Restored` is by then.
    let path = format!("/proc/self/fd/{}/{draft}", restored.as_raw_fd());
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(unusable(HOME, error)),
        _ => Ok(()),
    }
}

/// Gives a finished restore its name, the next one that is free.
fn publish(base: &OwnedFd, draft: &str, stamp: &str) -> Result<String, Error> {
    let failed = |errno: Errno| unusable(HOME, errno.into());
    let restored = open_restored(base).map_err(failed)?;
    for number in 1..=NAMES_MAX {
        let name = match number {
            1 => stamp.to_owned(),
            number => format!("{stamp}-{number}"),
        };
        let there = fs::statat(&restored, name.as_str(), AtFlags::SYMLINK_NOFOLLOW);
        if there.is_ok() {
            continue;
        }
        let flags = RenameFlags::NOREPLACE;
        match fs::renameat_with(&restored, draft, &restored, name.as_str(), flags) {
            Ok(()) => return Ok(name),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(failed(errno)),
        }
    }
    Err(failed(Errno::EXIST))
}

/// When a snapshot was begun, as a folder's name.
fn stamp(snapshot: &Snapshot) -> String {
    let seconds = snapshot.started_ns.div_euclid(1_000_000_000);
    let at = time::OffsetDateTime::from_unix_timestamp(seconds);
    let at = at.unwrap_or(time::OffsetDateTime::UNIX_EPOCH);
    format!(
        "{:04}-{:02}-{:02}T{:02}{:02}{:02}Z",
        at.year(),
        u8::from(at.month()),
        at.day(),
        at.hour(),
        at.minute(),
        at.second()
    )
}

fn unusable(path: &str, source: io::Error) -> Error {
    Error::Files {
        path: path.into(),
        source,
    }
}
