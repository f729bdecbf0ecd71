//! Where logs are read from: a data folder, a copied database, an export.
//!
//! What a path holds is told by its content, not by its name. Everything is opened for reading only.

use std::{
    fmt,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

use cocoonbox_events::{
    KeyStore, Keyring, NoKeys, SqliteStore, Store, keys::KeyStoreError, sqlite,
};

use crate::export::{self, ExportStore};

/// The logs of a data folder.
const LOG_FILE: &str = "log.db";
/// The keys of a data folder.
const KEY_FILE: &str = "keys.db";
/// The rows of a data folder.
const VIEW_FILE: &str = "views.db";
/// How every SQLite file begins.
const SQLITE: &[u8] = b"SQLite format 3\0";
/// How every export begins.
const EXPORT: &[u8] = b"{\"header\":";
/// Enough to tell what a file is.
const HEAD_BYTES: usize = 16;

/// Logs that can be read, and where they come from.
pub struct Source {
    pub store: Arc<dyn Store>,
    pub origin: Origin,
    /// Payloads are not there, whatever keys there are.
    pub redacted: bool,
}

/// What a source is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A data folder, which a process may be writing.
    Folder(PathBuf),
    /// A database file, which may be a copy.
    Database(PathBuf),
    /// A file or folder that `export` wrote.
    Export(PathBuf),
    /// A PostgreSQL database. Its URL may have a password in it and is not kept.
    Postgres,
}

#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error("there is nothing at `{path}`")]
    Absent { path: PathBuf },
    #[error("there is no log in `{path}`")]
    NoLog { path: PathBuf },
    #[error("`{path}` is neither a log database nor an export")]
    Unknown { path: PathBuf },
    #[error("reading `{path}`")]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("opening the keys")]
    Keys(#[source] KeyStoreError),
    #[error("opening the log")]
    Database(#[source] sqlite::OpenError),
    #[error("opening the export")]
    Export(#[source] export::OpenError),
}

/// What lies at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    DataFolder,
    Database,
    Export,
}

impl Source {
    /// Opens what is at `path`. Keys are taken from `keys` or, without it, from the folder that the
    /// database is in; a database without keys is read without what is sealed in it.
    pub async fn open(path: &Path, keys: Option<&Path>) -> Result<Self, SourceError> {
        match content(path)? {
            Content::DataFolder => Self::database(&path.join(LOG_FILE), keys, |_| {
                Origin::Folder(path.to_owned())
            }),
            Content::Database => {
                Self::database(path, keys, |path| Origin::Database(path.to_owned()))
            }
            Content::Export => {
                let store = ExportStore::open(path).await.map_err(SourceError::Export)?;
                let redacted = store.is_redacted();
                Ok(Self {
                    store: Arc::new(store),
                    origin: Origin::Export(path.to_owned()),
                    redacted,
                })
            }
        }
    }

    fn database(
        path: &Path,
        keys: Option<&Path>,
        origin: impl FnOnce(&Path) -> Origin,
    ) -> Result<Self, SourceError> {
        let beside = path
            .parent()
            .filter(|folder| folder.join(KEY_FILE).exists());
        let keyring: Arc<dyn Keyring> = match keys.or(beside) {
            Some(folder) => Arc::new(KeyStore::open_read_only(folder).map_err(SourceError::Keys)?),
            None => Arc::new(NoKeys),
        };
        let store = SqliteStore::open_read_only(path, keyring).map_err(SourceError::Database)?;
        Ok(Self {
            store: Arc::new(store),
            origin: origin(path),
            redacted: false,
        })
    }

    /// Whether more may come.
    pub fn can_grow(&self) -> bool {
        !matches!(self.origin, Origin::Export(_))
    }

    /// The rows that belong to these logs, if there are any.
    pub fn views(&self) -> Option<PathBuf> {
        match &self.origin {
            Origin::Folder(folder) => Some(folder.join(VIEW_FILE)).filter(|path| path.exists()),
            Origin::Database(_) | Origin::Export(_) | Origin::Postgres => None,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) | Self::Database(path) | Self::Export(path) => {
                write!(f, "`{}`", path.display())
            }
            Self::Postgres => f.write_str("the PostgreSQL database"),
        }
    }
}

/// Tells what lies at a path.
pub fn content(path: &Path) -> Result<Content, SourceError> {
    let own = || path.to_owned();
    if !path.exists() {
        return Err(SourceError::Absent { path: own() });
    }
    if path.is_dir() {
        if path.join(LOG_FILE).exists() {
            return Ok(Content::DataFolder);
        }
        let read = std::fs::read_dir(path).map_err(|source| SourceError::Io {
            path: own(),
            source,
        })?;
        let is_export = read.flatten().any(|entry| {
            let name = entry.file_name();
            Path::new(&name)
                .extension()
                .is_some_and(|end| end == "jsonl")
        });
        return if is_export {
            Ok(Content::Export)
        } else {
            Err(SourceError::NoLog { path: own() })
        };
    }
    let mut head = Vec::with_capacity(HEAD_BYTES);
    File::open(path)
        .and_then(|file| file.take(HEAD_BYTES as u64).read_to_end(&mut head))
        .map_err(|source| SourceError::Io {
            path: own(),
            source,
        })?;
    if head.starts_with(SQLITE) {
        Ok(Content::Database)
    } else if head.starts_with(EXPORT) {
        Ok(Content::Export)
    } else {
        Err(SourceError::Unknown { path: own() })
    }
}
