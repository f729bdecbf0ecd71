//! The data folder: who may look into it, and that one process has it.

use std::{
    fs::{File, Permissions, TryLockError},
    io,
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
    time::Duration,
};

use tokio::net::UnixListener;

use super::StartError;
use crate::{capsules::Shelf, config::Config};

/// The process before us may need a moment to end. One that was killed may have children on their way into a
/// program, which hold its locks until they are there.
const LOCK_WAIT: Duration = Duration::from_secs(10);
const LOCK_STEP: Duration = Duration::from_millis(20);

/// Takes the data folder for this process.
pub(super) async fn lock(data: &Path) -> Result<File, StartError> {
    let path = data.join("run/api.lock");
    private_file(&path)?;
    let failed = |source| StartError::Io {
        doing: "locking",
        path: path.clone(),
        source,
    };
    let file = File::open(&path).map_err(failed)?;
    let deadline = tokio::time::Instant::now() + LOCK_WAIT;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if tokio::time::Instant::now() < deadline => {
                tokio::time::sleep(LOCK_STEP).await;
            }
            Err(TryLockError::WouldBlock) => return Err(StartError::Locked { data: data.into() }),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
    }
}

/// Makes a folder that only we may look into.
pub(super) fn private_dir(path: &Path) -> Result<(), StartError> {
    let failed = |source| StartError::Io {
        doing: "making",
        path: path.into(),
        source,
    };
    std::fs::create_dir_all(path).map_err(failed)?;
    // Boxes run as other users beneath this folder: they may pass through, not look around.
    std::fs::set_permissions(path, Permissions::from_mode(0o711)).map_err(failed)
}

/// Makes a file that only we may read, if it is absent.
pub(super) fn private_file(path: &Path) -> Result<(), StartError> {
    let failed = |source| StartError::Io {
        doing: "making",
        path: path.into(),
        source,
    };
    std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
        .and_then(|file| file.set_permissions(Permissions::from_mode(0o600)))
        .map_err(failed)
}

/// Where saved files lie; `None`: each of several processes would have a place of its own.
pub(super) fn capsule_shelf(config: &Config, is_shared: bool) -> Result<Option<Shelf>, StartError> {
    match config.file.capsule.shelf()? {
        None if is_shared => Ok(None),
        None => {
            let own = config.data.join("capsules");
            private_dir(&own)?;
            Ok(Some(Shelf::Folder(own)))
        }
        shelf => Ok(shelf),
    }
}

/// Binds the operator's socket. The store's lock has made sure that no other api uses this folder.
pub(super) fn unix_socket(path: &Path) -> Result<UnixListener, StartError> {
    let failed = |doing| {
        move |source| StartError::Io {
            doing,
            path: path.into(),
            source,
        }
    };
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(failed("removing the stale socket")(error));
        }
        _ => {}
    }
    let listener = UnixListener::bind(path).map_err(failed("listening on"))?;
    std::fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(failed("closing off"))?;
    Ok(listener)
}
