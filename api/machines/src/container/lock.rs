//! Locks between processes that drive the boxes of one folder.
//!
//! The kernel lets go of a lock when its holder dies, so a killed process holds nothing up.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;

use super::layout::gone;

/// A start, a stop with its grace, or an api that is being replaced. Past it the caller tries again later.
const WAIT: Duration = Duration::from_secs(20);
const STEP: Duration = Duration::from_millis(10);

/// A lock that is held. The file of a box holds the fence of whoever drove the box last.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    /// Takes the lock, waiting for whoever holds it.
    pub(super) fn take(path: &Path) -> io::Result<Self> {
        let deadline = Instant::now() + WAIT;
        loop {
            if let Some(lock) = Self::try_take(path)? {
                return Ok(lock);
            }
            if Instant::now() >= deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            std::thread::sleep(STEP);
        }
    }

    /// Takes the lock if nobody holds it.
    pub(super) fn try_take(path: &Path) -> io::Result<Option<Self>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        // Whoever held it may have removed the file: then this is a lock that nobody else will meet.
        let ours = file.metadata()?;
        let is_there = path
            .metadata()
            .is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino()));
        Ok(is_there.then(|| Self {
            file,
            path: path.to_owned(),
        }))
    }

    /// Returns the highest fence that was kept; 0 if none was.
    pub(super) fn fence(&mut self) -> io::Result<u64> {
        let mut text = String::new();
        self.file.rewind()?;
        (&self.file).take(32).read_to_string(&mut text)?;
        // A power loss may have cut it; it ends the process whose fence this was as well.
        Ok(text.trim().parse().unwrap_or(0))
    }

    pub(super) fn keep_fence(&mut self, fence: u64) -> io::Result<()> {
        self.file.rewind()?;
        self.file.set_len(0)?;
        write!(self.file, "{fence}")
    }

    /// Removes the file of a box that is no more.
    pub(super) fn remove(self) -> io::Result<()> {
        gone(std::fs::remove_file(&self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_also_when_the_file_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("b1");
        let mut first = Lock::take(&path).unwrap();
        assert_eq!(first.fence().unwrap(), 0);
        first.keep_fence(123).unwrap();
        first.keep_fence(7).unwrap();
        assert!(Lock::try_take(&path).unwrap().is_none());
        drop(first);
        let mut second = Lock::take(&path).unwrap();
        assert_eq!(second.fence().unwrap(), 7);
        second.remove().unwrap();
        assert_eq!(Lock::take(&path).unwrap().fence().unwrap(), 0);
    }
}
