//! Where machines are: a folder with an id of its own, of one installation.
//!
//! Processes that share the folder can take each other's boxes over, others cannot. And a machine that no log
//! knows of is removed, so a folder must never be taken for that of another installation.

use std::{
    io,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use cocoonbox_events::{Ids, LogId};
use serde::{Deserialize, Serialize};

const FILE: &str = "place.json";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    place: String,
    /// The system log of the installation.
    installation: String,
}

#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    #[error("file `{path}`")]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(
        "`{path}` is not what it should be; without it the boxes beside it are taken for our own"
    )]
    Malformed { path: PathBuf },
    #[error(
        "the boxes in `{folder}` are of another installation ({found}, not {ours}); give this one a machines \
         folder of its own, or remove `{FILE}` there to have these boxes removed"
    )]
    OtherInstallation {
        folder: PathBuf,
        found: String,
        ours: LogId,
    },
}

/// Returns the id of a folder, which is of this installation from here on if it was nobody's.
pub fn settle(folder: &Path, installation: LogId, ids: &dyn Ids) -> Result<String, PlaceError> {
    let path = folder.join(FILE);
    let failed = |source| PlaceError::Io {
        path: path.clone(),
        source,
    };
    std::fs::create_dir_all(folder).map_err(failed)?;
    let kept = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make(&path, installation, ids).map_err(failed)?;
            std::fs::read(&path).map_err(failed)?
        }
        Err(error) => return Err(failed(error)),
    };
    let kept: Kept =
        serde_json::from_slice(&kept).map_err(|_| PlaceError::Malformed { path: path.clone() })?;
    if kept.installation == installation.to_string() {
        Ok(kept.place)
    } else {
        Err(PlaceError::OtherInstallation {
            folder: folder.to_owned(),
            found: kept.installation,
            ours: installation,
        })
    }
}

/// Makes the file whole or not at all. Another process may be first: then its file counts.
fn make(path: &Path, installation: LogId, ids: &dyn Ids) -> io::Result<()> {
    let place = ids.draw().simple().to_string();
    let draft = path.with_extension(&place);
    let kept = Kept {
        place,
        installation: installation.to_string(),
    };
    let bytes = serde_json::to_vec(&kept)?;
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&draft)?;
    io::Write::write_all(&mut file, &bytes)?;
    file.sync_all()?;
    let linked = std::fs::hard_link(&draft, path);
    std::fs::remove_file(&draft)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use cocoonbox_events::SystemIds;

    use super::*;

    #[test]
    fn a_folder_is_of_one_installation() {
        let folder = tempfile::tempdir().unwrap();
        let (ours, other) = (LogId(SystemIds.draw()), LogId(SystemIds.draw()));
        let settle = |installation| settle(folder.path(), installation, &SystemIds);
        let place = settle(ours).unwrap();
        assert_eq!(settle(ours).unwrap(), place);
        let refused = settle(other).unwrap_err().to_string();
        assert!(refused.contains("of another installation"), "{refused}");
        std::fs::write(folder.path().join(FILE), "{").unwrap();
        assert!(matches!(settle(ours), Err(PlaceError::Malformed { .. })));
    }
}
