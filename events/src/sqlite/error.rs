//! Why a file does not open.

use std::{
    io,
    path::{Path, PathBuf},
};

use super::{rows::RowError, schema};

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("`{path}` is not a log database of this program")]
    NotOurs { path: PathBuf },
    #[error("`{path}` has format {found}; this build knows {known}")]
    NewerFormat {
        path: PathBuf,
        found: i64,
        known: i64,
    },
    #[error("`{path}` has an older format than {known}; start the program that writes it once")]
    OlderFormat { path: PathBuf, known: i64 },
    #[error("`{path}` is being written by another process")]
    Locked { path: PathBuf },
    #[error("`{path}` lies on a disk that cannot be written to")]
    ReadOnly { path: PathBuf },
    /// Reading the file without it would show a history that ends before what was acked.
    #[error(
        "`{path}` has a write-ahead log that cannot be read in a folder that cannot be written to; \
         copy both elsewhere"
    )]
    WalUnreadable { path: PathBuf },
    #[error("`{path}` is damaged: {what}")]
    Corrupt { path: PathBuf, what: String },
    #[error("pragma `{name}` is `{found}` after it was set to `{wanted}`")]
    Pragma {
        name: &'static str,
        found: String,
        wanted: &'static str,
    },
    #[error("file `{path}`")]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("opening log database `{path}`")]
    Sqlite {
        path: PathBuf,
        #[source]
        source: rusqlite::Error,
    },
}

impl OpenError {
    pub(super) fn io(path: PathBuf, source: io::Error) -> Self {
        if source.kind() == io::ErrorKind::ReadOnlyFilesystem {
            Self::ReadOnly { path }
        } else {
            Self::Io { path, source }
        }
    }

    pub(super) fn row(path: &Path, error: RowError) -> Self {
        match error {
            RowError::Sqlite(source) => schema::refuse(path, source),
            RowError::Damaged { pos, what } => Self::Corrupt {
                path: path.to_owned(),
                what: format!("position {pos}: {what}"),
            },
        }
    }
}
