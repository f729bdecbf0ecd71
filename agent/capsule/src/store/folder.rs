//! A store in a folder of this machine.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::{Created, Error, Store, Stored, is_name};

/// Unfinished objects; what a crash leaves here was never part of the store. A capital letter, so that no
/// object can have the name.
const UNFINISHED: &str = "UNFINISHED";

/// Objects as files below a folder.
#[derive(Debug)]
pub struct Folder {
    root: PathBuf,
    next: AtomicU64,
}

impl Folder {
    /// Uses the folder, which is made if there is none.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self, Error> {
        let root = root.into();
        let unfinished = root.join(UNFINISHED);
        fs::create_dir_all(&unfinished).map_err(|source| io("", "made room for", source))?;
        Ok(Self {
            root,
            next: AtomicU64::new(0),
        })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    fn path(&self, name: &str) -> Result<PathBuf, Error> {
        if is_name(name) {
            Ok(self.root.join(name))
        } else {
            Err(Error::Name(name.into()))
        }
    }

    /// Writes a file that nobody else writes, durably.
    fn write(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, Error> {
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let path = self
                .root
                .join(UNFINISHED)
                .join(format!("{}.{number}", std::process::id()));
            let file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&path);
            let mut file = match file {
                Ok(file) => file,
                // Left by a process that had our number.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(source) => return Err(io(name, "begun", source)),
            };
            let written = file.write_all(bytes).and_then(|()| file.sync_data());
            return match written {
                Ok(()) => Ok(path),
                Err(source) => {
                    // Best effort: it is not part of the store.
                    fs::remove_file(&path).ok();
                    Err(io(name, "written", source))
                }
            };
        }
    }

    /// Makes the folder an object lies in, and its entry in the folder above durable.
    fn make_parent(&self, path: &Path) -> io::Result<()> {
        let parent = path.parent().unwrap_or(&self.root);
        if parent.is_dir() {
            return Ok(());
        }
        fs::create_dir_all(parent)?;
        let mut folder = parent;
        while let Some(above) = folder.parent() {
            File::open(above)?.sync_all()?;
            if above == self.root {
                break;
            }
            folder = above;
        }
        Ok(())
    }
}

impl Store for Folder {
    fn create(&self, name: &str, bytes: &[u8]) -> Result<Created, Error> {
        let path = self.path(name)?;
        let unfinished = self.write(name, bytes)?;
        let made = self
            .make_parent(&path)
            .map_err(|source| io(name, "given a folder", source))
            .and_then(|()| {
                match renameat_with(CWD, &unfinished, CWD, &path, RenameFlags::NOREPLACE) {
                    Ok(()) => Ok(Created::Made),
                    Err(rustix::io::Errno::EXIST) => Ok(Created::Existed),
                    Err(errno) => Err(io(name, "given its name", errno.into())),
                }
            });
        match &made {
            Ok(Created::Made) => {
                let parent = path.parent().unwrap_or(&self.root);
                File::open(parent)
                    .and_then(|folder| folder.sync_all())
                    .map_err(|source| io(name, "made durable", source))?;
            }
            // Best effort: it is not part of the store.
            _ => drop(fs::remove_file(&unfinished)),
        }
        made
    }

    fn get(&self, name: &str) -> Result<Vec<u8>, Error> {
        fs::read(self.path(name)?).map_err(|source| reading(name, source))
    }

    fn get_range(&self, name: &str, offset: u64, length: usize) -> Result<Vec<u8>, Error> {
        let file = File::open(self.path(name)?).map_err(|source| reading(name, source))?;
        let mut bytes = vec![0; length];
        match file.read_exact_at(&mut bytes, offset) {
            Ok(()) => Ok(bytes),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(Error::OutOfRange {
                name: name.into(),
                offset,
                end: offset.saturating_add(length as u64),
            }),
            Err(source) => Err(reading(name, source)),
        }
    }

    fn stat(&self, name: &str) -> Result<Stored, Error> {
        let meta = fs::metadata(self.path(name)?).map_err(|source| reading(name, source))?;
        if !meta.is_file() {
            return Err(Error::NotFound(name.into()));
        }
        Ok(Stored {
            name: name.into(),
            bytes: meta.len(),
            written_ns: written_ns(&meta),
        })
    }

    fn list(&self, prefix: &str) -> Result<Vec<Stored>, Error> {
        let mut found = Vec::new();
        let mut folders = vec![(prefix.to_owned(), self.path(prefix)?)];
        while let Some((name, path)) = folders.pop() {
            let entries = match fs::read_dir(&path) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(source) => return Err(io(&name, "listed", source)),
            };
            for entry in entries {
                let entry = entry.map_err(|source| io(&name, "listed", source))?;
                let Ok(file) = entry.file_name().into_string() else {
                    continue;
                };
                let name = format!("{name}/{file}");
                let meta = match entry.metadata() {
                    Ok(meta) => meta,
                    // Deleted meanwhile.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(source) => return Err(io(&name, "listed", source)),
                };
                if meta.is_dir() {
                    folders.push((name, entry.path()));
                } else if is_name(&name) {
                    found.push(Stored {
                        bytes: meta.len(),
                        written_ns: written_ns(&meta),
                        name,
                    });
                }
            }
        }
        found.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    fn delete(&self, name: &str) -> Result<(), Error> {
        let path = self.path(name)?;
        match fs::remove_file(&path) {
            Ok(()) => File::open(path.parent().unwrap_or(&self.root))
                .and_then(|folder| folder.sync_all())
                .map_err(|source| io(name, "deleted durably", source)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(source) => Err(io(name, "deleted", source)),
        }
    }

    fn tidy(&self, now_ns: i64, age_ns: i64) -> Result<usize, Error> {
        let mut removed = 0;
        let folder = self.root.join(UNFINISHED);
        for entry in fs::read_dir(folder).map_err(|source| io("", "listed", source))? {
            let entry = entry.map_err(|source| io("", "listed", source))?;
            // One that was just finished is gone, which is as good.
            let Ok(meta) = entry.metadata() else { continue };
            let is_old = written_ns(&meta) < now_ns.saturating_sub(age_ns);
            if is_old && fs::remove_file(entry.path()).is_ok() {
                removed += 1;
            }
        }
        Ok(removed)
    }
}

fn written_ns(meta: &fs::Metadata) -> i64 {
    meta.mtime()
        .saturating_mul(1_000_000_000)
        .saturating_add(meta.mtime_nsec())
}

fn io(name: &str, doing: &'static str, source: io::Error) -> Error {
    Error::Io {
        name: name.into(),
        doing,
        source,
    }
}

fn reading(name: &str, source: io::Error) -> Error {
    if source.kind() == io::ErrorKind::NotFound {
        Error::NotFound(name.into())
    } else {
        io(name, "read", source)
    }
}
