//! A folder to save, a store to save it in, and ways to compare.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use cocoonbox_capsule::{
    Capsule, Error, Folder, Reader, Snapshot, UserKey,
    check::{self, Checked},
    restore::{self, Existing, Restored, Tally, Undone},
    save,
};
use tempfile::TempDir;

/// Reads all that a capsule holds and says what is wrong with it.
pub(crate) fn check(capsule: &Capsule) -> Result<Checked, Error> {
    let options = check::Options {
        cancelled: None,
        reads_data: true,
        slice: None,
        progress: &mut |_, _, _| {},
    };
    check::check(capsule, options)
}

pub(crate) fn key() -> UserKey {
    UserKey::new([7; 32])
}

/// The system's clock, as a caller gives it. It reads the time of a fresh file, since that is the clock
/// that files are stamped by.
pub(crate) fn now_ns() -> i64 {
    let file = tempfile::NamedTempFile::new().unwrap();
    let meta = file.as_file().metadata().unwrap();
    meta.mtime() * 1_000_000_000 + meta.mtime_nsec()
}

pub(crate) struct Scene {
    pub(crate) dir: TempDir,
    pub(crate) capsule: Capsule,
    pub(crate) has_cache: bool,
    pub(crate) has_default_excludes: bool,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("home")).unwrap();
        let store = Folder::open(dir.path().join("store")).unwrap();
        let capsule = Capsule::init(Box::new(store), &key()).unwrap();
        Self {
            dir,
            capsule,
            has_cache: true,
            has_default_excludes: true,
        }
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    pub(crate) fn out(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Where a path of the home comes to lie below a target.
    pub(crate) fn restored(&self, target: &Path) -> PathBuf {
        target.join(self.home().strip_prefix("/").unwrap())
    }

    pub(crate) fn save(&self) -> Snapshot {
        self.try_save().unwrap()
    }

    pub(crate) fn try_save(&self) -> Result<Snapshot, Error> {
        self.save_at(&now_ns)
    }

    /// Saves as if all files had been still for a while.
    pub(crate) fn save_later(&self) -> Snapshot {
        self.save_at(&|| now_ns() + 10_000_000_000).unwrap()
    }

    pub(crate) fn save_at(&self, now_ns: &dyn Fn() -> i64) -> Result<Snapshot, Error> {
        let mut progress = |_: &_| {};
        let roots = vec![self.home().as_os_str().as_bytes().to_vec()];
        let mut options = save::Options::new(roots, now_ns, &mut progress);
        options.cache = self.has_cache.then(|| self.dir.path().join("cache"));
        options.has_default_excludes = self.has_default_excludes;
        options.reads_back = true;
        Ok(save::save(&self.capsule, options)?.into_snapshot())
    }

    pub(crate) fn restore(&self, snapshot: &Snapshot, target: &Path) -> Restored {
        self.restore_paths(snapshot, target, &[], Existing::Refuse)
            .unwrap()
    }

    pub(crate) fn restore_paths(
        &self,
        snapshot: &Snapshot,
        target: &Path,
        paths: &[&Path],
        existing: Existing,
    ) -> Result<Restored, Error> {
        let reader = Reader::new(&self.capsule)?;
        let options = restore::Options {
            target: target.to_owned(),
            makes_target: true,
            below: Vec::new(),
            strip: Vec::new(),
            paths: paths
                .iter()
                .map(|path| path.as_os_str().as_bytes().to_vec())
                .collect(),
            existing,
            has_owners: rustix::process::geteuid().is_root(),
            owner: None,
            cancelled: None,
            threads: 2,
            progress: &mut |_| {},
        };
        restore::restore(&reader, snapshot, options)
    }
}

impl Scene {
    /// Reads all that is stored and says what is wrong with it.
    pub(crate) fn check(&self) -> Result<Checked, Error> {
        check(&self.capsule)
    }

    /// All that is stored is as it should be.
    pub(crate) fn is_sound(&self) {
        let checked = self.check().unwrap();
        assert!(checked.is_good(), "{checked:?}");
    }

    /// Gives paths of the home back where they were.
    pub(crate) fn restore_in_place(&self, snapshot: &Snapshot, paths: &[&Path]) -> Restored {
        self.try_restore_in_place(snapshot, paths).unwrap()
    }

    pub(crate) fn try_restore_in_place(
        &self,
        snapshot: &Snapshot,
        paths: &[&Path],
    ) -> Result<Restored, Error> {
        let reader = Reader::new(&self.capsule)?;
        let mut progress = |_: &_| {};
        restore::restore(&reader, snapshot, self.in_place(paths, &mut progress))
    }

    /// Goes on in a new capsule in a folder.
    pub(crate) fn move_store(&mut self, folder: &Path) {
        let store = Folder::open(folder).unwrap();
        self.capsule = Capsule::init(Box::new(store), &key()).unwrap();
    }

    /// Takes that back.
    pub(crate) fn undo(&self, restored: &Snapshot, before: &Snapshot, paths: &[&Path]) -> Undone {
        let reader = Reader::new(&self.capsule).unwrap();
        let mut progress = |_: &_| {};
        let options = self.in_place(paths, &mut progress);
        restore::undo(&reader, restored, before, options).unwrap()
    }

    fn in_place<'o>(
        &self,
        paths: &[&Path],
        progress: &'o mut dyn FnMut(&Tally),
    ) -> restore::Options<'o> {
        let bytes = |path: &Path| path.as_os_str().as_bytes().to_vec();
        restore::Options {
            target: self.home(),
            makes_target: false,
            below: Vec::new(),
            strip: bytes(&self.home()),
            paths: paths.iter().map(|path| bytes(path)).collect(),
            existing: Existing::Keep,
            has_owners: rustix::process::geteuid().is_root(),
            owner: None,
            cancelled: None,
            threads: 2,
            progress,
        }
    }
}

/// Everything that must come back, by path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    kind: &'static str,
    mode: u32,
    owner: (u32, u32),
    mtime: (i64, i64),
    content: Vec<u8>,
    size: u64,
    /// Paths that are the same file.
    twins: Vec<PathBuf>,
    xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// Runs of data, where there are holes.
    data: Vec<(u64, u64)>,
}

impl Seen {
    /// The same without the other names that it has.
    pub(crate) fn alone(self) -> Self {
        Self {
            twins: Vec::new(),
            ..self
        }
    }
}

/// Sees a whole folder, the folder itself included.
pub(crate) fn see(root: &Path) -> BTreeMap<PathBuf, Seen> {
    let mut inodes: BTreeMap<u64, Vec<PathBuf>> = BTreeMap::new();
    let mut paths = vec![PathBuf::new()];
    let mut all = Vec::new();
    while let Some(path) = paths.pop() {
        let full = root.join(&path);
        let meta = fs::symlink_metadata(&full).unwrap();
        if meta.is_dir() {
            for entry in fs::read_dir(&full).unwrap() {
                paths.push(path.join(entry.unwrap().file_name()));
            }
        } else {
            inodes.entry(meta.ino()).or_default().push(path.clone());
        }
        all.push((path, meta));
    }
    all.into_iter()
        .map(|(path, meta)| {
            let full = root.join(&path);
            let file = meta.file_type();
            let mut twins = inodes.get(&meta.ino()).cloned().unwrap_or_default();
            twins.sort();
            let is_sparse = file.is_file() && meta.blocks() * 512 < meta.len();
            let seen = Seen {
                kind: match () {
                    () if file.is_dir() => "directory",
                    () if file.is_symlink() => "symlink",
                    () => "file",
                },
                mode: meta.mode(),
                owner: (meta.uid(), meta.gid()),
                mtime: (meta.mtime(), meta.mtime_nsec()),
                content: match () {
                    () if file.is_symlink() => {
                        fs::read_link(&full).unwrap().as_os_str().as_bytes().into()
                    }
                    () if file.is_file() && meta.len() < (64 << 20) => fs::read(&full).unwrap(),
                    () => Vec::new(),
                },
                size: if file.is_dir() { 0 } else { meta.len() },
                twins,
                xattrs: xattrs(&full),
                data: if is_sparse {
                    data(&full).unwrap()
                } else {
                    Vec::new()
                },
            };
            (path, seen)
        })
        .collect()
}

fn xattrs(path: &Path) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut names = vec![0; 64 << 10];
    let length = rustix::fs::llistxattr(path, &mut names[..]).unwrap_or(0);
    let mut list: Vec<_> = names[..length]
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
        .map(|name| {
            let mut value = vec![0; 64 << 10];
            let length = rustix::fs::lgetxattr(path, name, &mut value[..]).unwrap();
            value.truncate(length);
            (name.to_vec(), value)
        })
        .collect();
    list.sort();
    list
}

fn data(path: &Path) -> io::Result<Vec<(u64, u64)>> {
    use rustix::{fs::SeekFrom, io::Errno};
    let file = fs::File::open(path)?;
    let mut runs = Vec::new();
    let mut at = 0;
    loop {
        let start = match rustix::fs::seek(&file, SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(Errno::NXIO) => return Ok(runs),
            Err(errno) => return Err(errno.into()),
        };
        at = rustix::fs::seek(&file, SeekFrom::Hole(start))?;
        runs.push((start, at));
    }
}

/// Makes files old enough that their times are trusted: a minute.
pub(crate) fn age(path: &Path) {
    let file = fs::File::open(path).unwrap();
    let before = file.metadata().unwrap().modified().unwrap();
    file.set_modified(before - Duration::from_mins(1)).unwrap();
}
