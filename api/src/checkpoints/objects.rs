//! Where checkpoints go that the store cannot reach: today a folder, which can be another machine's.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use async_trait::async_trait;
use cocoonbox_events::{Ids as _, SystemIds};

/// Keeps objects that are made once and never replaced or removed. An object store with a retention
/// lock is the same thing, held against its own operator.
#[async_trait]
pub trait Objects: Send + Sync + 'static {
    /// Makes an object, durably, if there is none of this name; both or nothing, whoever else does the
    /// same. Names are paths of `[a-z0-9/]`.
    async fn put_new(&self, name: &str, bytes: Vec<u8>) -> Result<Put, ObjectError>;
}

/// What became of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    Made,
    /// It was there, with the same bytes.
    WasThere,
    /// It was there with other bytes, and still is.
    Other,
}

#[derive(Debug, thiserror::Error)]
#[error("writing the object `{name}`")]
pub struct ObjectError {
    name: String,
    #[source]
    source: io::Error,
}

/// Objects in a folder of this machine.
#[derive(Clone, Debug)]
pub struct Folder {
    root: PathBuf,
}

impl Folder {
    /// Keeps objects in `root`, which is made with the first of them.
    pub fn new(root: PathBuf) -> Self {
        Self { root }
    }
}

#[async_trait]
impl Objects for Folder {
    async fn put_new(&self, name: &str, bytes: Vec<u8>) -> Result<Put, ObjectError> {
        let path = self.root.join(name);
        let written = tokio::task::spawn_blocking(move || put_new(&path, &bytes)).await;
        let written = written.unwrap_or_else(|error| Err(io::Error::other(error)));
        written.map_err(|source| {
            let name = name.to_owned();
            ObjectError { name, source }
        })
    }
}

fn put_new(path: &Path, bytes: &[u8]) -> io::Result<Put> {
    match fs::read(path) {
        Ok(there) => return Ok(compared(&there, bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let folder = path.parent().unwrap_or(Path::new("."));
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    // A link to a whole file is made at once or not at all, and never over another.
    let draft = folder.join(format!(".{}", SystemIds.draw().simple()));
    let linked = write(&draft, bytes).and_then(|()| fs::hard_link(&draft, path));
    let removed = fs::remove_file(&draft);
    match linked {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Ok(compared(&fs::read(path)?, bytes));
        }
        Err(error) => return Err(error),
    }
    removed?;
    File::open(folder)?.sync_all()?;
    Ok(Put::Made)
}

fn compared(there: &[u8], bytes: &[u8]) -> Put {
    if there == bytes {
        Put::WasThere
    } else {
        Put::Other
    }
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn objects_are_made_once() {
        let dir = tempfile::TempDir::new().unwrap();
        let objects = Folder::new(dir.path().join("objects"));
        let put = async |bytes: &str| {
            let put = objects.put_new("checkpoints/a1/7", bytes.into());
            put.await.unwrap()
        };
        assert_eq!(put("one").await, Put::Made);
        assert_eq!(put("one").await, Put::WasThere);
        assert_eq!(put("two").await, Put::Other);
        let folder = dir.path().join("objects/checkpoints/a1");
        assert_eq!(fs::read(folder.join("7")).unwrap(), b"one");
        assert_eq!(fs::read_dir(folder).unwrap().count(), 1, "no draft is left");
    }

    #[tokio::test]
    async fn a_folder_that_cannot_be_made_is_an_error() {
        let dir = tempfile::TempDir::new().unwrap();
        fs::write(dir.path().join("objects"), "a file").unwrap();
        let objects = Folder::new(dir.path().join("objects"));
        assert!(
            objects
                .put_new("checkpoints/a/1", Vec::new())
                .await
                .is_err()
        );
    }
}
