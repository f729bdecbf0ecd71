//! Checkpoints in files: the copies of the object store, and what auditors have kept.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use cocoonbox_events::{
    LogId,
    checkpoint::{NOTE_BYTES_MAX, Note, NoteError},
};

use super::Source;

/// A folder of checkpoints holds one folder per log.
const DEPTH_MAX: u32 = 3;

/// Checkpoints that were kept outside of the store.
#[derive(Clone, Debug, Default)]
pub struct Outside {
    /// By log and size.
    kept: Vec<Kept>,
    unreadable: Vec<Unreadable>,
}

/// A checkpoint, and where it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    pub note: Note,
    pub source: Source,
}

/// A file that was given as a checkpoint and is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    pub path: PathBuf,
    pub why: NoteError,
}

impl Outside {
    /// Adds the checkpoint in a file.
    pub fn add_file(&mut self, path: &Path) -> io::Result<()> {
        let mut bytes = Vec::new();
        // One byte more than fits, so that what is too large is seen to be.
        let limit = NOTE_BYTES_MAX as u64 + 1;
        File::open(path)?.take(limit).read_to_end(&mut bytes)?;
        let path = path.to_owned();
        let note = String::from_utf8(bytes).map_err(|_| NoteError::Control);
        match note.and_then(|note| Note::parse(&note)) {
            Ok(note) => self.add(Kept {
                note,
                source: Source::File(path),
            }),
            Err(why) => self.unreadable.push(Unreadable { path, why }),
        }
        Ok(())
    }

    /// Adds the checkpoints in all files of a folder and of the folders in it. Names that begin with a
    /// dot are passed over: they are files on their way.
    pub fn add_folder(&mut self, path: &Path) -> io::Result<()> {
        self.descend(path, DEPTH_MAX)
    }

    pub fn add(&mut self, kept: Kept) {
        let place = |one: &Kept| (one.note.statement.log, one.note.statement.size);
        let at = self.kept.partition_point(|one| place(one) <= place(&kept));
        self.kept.insert(at, kept);
    }

    /// Returns what speaks of a log, by size.
    pub fn of(&self, log: LogId) -> &[Kept] {
        let log_of = |one: &Kept| one.note.statement.log;
        let start = self.kept.partition_point(|one| log_of(one) < log);
        let end = self.kept.partition_point(|one| log_of(one) <= log);
        &self.kept[start..end]
    }

    pub fn all(&self) -> &[Kept] {
        &self.kept
    }

    pub fn unreadable(&self) -> &[Unreadable] {
        &self.unreadable
    }

    fn descend(&mut self, path: &Path, depth: u32) -> io::Result<()> {
        let mut entries = fs::read_dir(path)?.collect::<io::Result<Vec<_>>>()?;
        // In the order of their names, in which they are mostly appended.
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            let kind = entry.file_type()?;
            if kind.is_dir() && depth > 1 {
                self.descend(&entry.path(), depth - 1)?;
            } else if kind.is_file() {
                self.add_file(&entry.path())?;
            }
        }
        Ok(())
    }
}
