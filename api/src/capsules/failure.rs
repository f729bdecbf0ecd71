//! What went wrong with a capsule, for logs and for callers.

use std::io;

use cocoonbox_capsule::{Error, store};
use cocoonbox_events::keys::NoKey;
use tonic::{Code, Status};

use super::PlaceError;
use crate::status;

/// The code of a failed save or restore, as in `google.rpc.ErrorInfo.reason`.
pub(crate) fn reason(error: &PlaceError) -> &'static str {
    match error {
        PlaceError::Key(NoKey::Destroyed) => "USER_DELETED",
        PlaceError::Key(NoKey::Unavailable) => "NO_KEY",
        PlaceError::NoFolder => "NO_CAPSULE_FOLDER",
        PlaceError::Quota(_) => "QUOTA_EXCEEDED",
        PlaceError::Capsule(Error::TargetFull) => "DISK_FULL",
        PlaceError::Capsule(error) if is_full(error) => "DISK_FULL",
        PlaceError::Capsule(error) if is_away(error) => "STORE_UNAVAILABLE",
        PlaceError::Capsule(Error::Damaged { .. } | Error::ChunkMissing { .. }) => {
            "SNAPSHOT_DAMAGED"
        }
        PlaceError::Capsule(Error::NoCapsule | Error::SnapshotNotFound(_)) => "SNAPSHOT_GONE",
        PlaceError::Capsule(Error::WrongKey) => "OTHER_KEY",
        PlaceError::Capsule(Error::PathNotFound { .. }) => "NO_SUCH_FILE",
        PlaceError::Capsule(Error::Files { .. }) => "FILES_UNUSABLE",
        PlaceError::User(_) | PlaceError::Capsule(_) => "FAILED",
    }
}

fn is_full(error: &Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(store_kind(error), Some(StorageFull | QuotaExceeded))
}

/// Whether the store, on another machine, did not answer or was in trouble until nobody asked it any more.
fn is_away(error: &Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ResourceBusy};
    matches!(store_kind(error), Some(ConnectionAborted | ResourceBusy))
}

fn store_kind(error: &Error) -> Option<io::ErrorKind> {
    match error {
        Error::Store(store::Error::Io { source, .. }) => Some(source.kind()),
        _ => None,
    }
}

/// What a caller is told who asked for something of a snapshot.
pub(super) fn answer(error: PlaceError) -> Status {
    match error {
        PlaceError::Key(NoKey::Destroyed) => {
            status::status(Code::NotFound, "USER_DELETED", "this user was deleted")
        }
        PlaceError::Key(NoKey::Unavailable) => status::status(
            Code::Unavailable,
            "NO_KEY",
            "the user's key cannot be read at this moment; try again",
        ),
        error @ PlaceError::NoFolder => status::status(
            Code::FailedPrecondition,
            "NO_CAPSULE_FOLDER",
            error.to_string(),
        ),
        // The log says that it is kept, so this process looks in the wrong place, or somebody removed it.
        PlaceError::Capsule(
            error @ (Error::NoCapsule | Error::SnapshotNotFound(_) | Error::WrongKey),
        ) => {
            tracing::error!(error = status::describe(&error), "a capsule is not there");
            status::status(
                Code::DataLoss,
                "SNAPSHOT_NOT_HERE",
                "the store of this process does not have the snapshot; the operator has to look",
            )
        }
        PlaceError::Capsule(error @ Error::PathNotFound { .. }) => {
            status::status(Code::NotFound, "NO_SUCH_FILE", error.to_string())
        }
        PlaceError::Capsule(error @ Error::WrongKind { .. }) => {
            status::status(Code::FailedPrecondition, "OTHER_KIND", error.to_string())
        }
        PlaceError::Capsule(error @ (Error::Damaged { .. } | Error::ChunkMissing { .. })) => {
            let error = status::describe(&error);
            tracing::error!(error, "a snapshot is damaged");
            status::status(
                Code::DataLoss,
                "SNAPSHOT_DAMAGED",
                format!("part of the snapshot is lost: {error}"),
            )
        }
        error @ PlaceError::Quota(_) => {
            status::status(Code::ResourceExhausted, "QUOTA_EXCEEDED", error.to_string())
        }
        PlaceError::Capsule(error) if is_away(&error) => {
            let told = status::describe(&error);
            tracing::error!(error = told, "the store of saved files does not answer");
            status::status(
                Code::Unavailable,
                "STORE_UNAVAILABLE",
                "the store of saved files does not answer at this moment; try again",
            )
        }
        error @ (PlaceError::User(_) | PlaceError::Capsule(_)) => status::internal(&error),
    }
}

pub(super) fn no_snapshot() -> Status {
    status::status(
        Code::NotFound,
        "NO_SUCH_SNAPSHOT",
        "the box has no such snapshot; list them with ListSnapshots",
    )
}

pub(super) fn no_snapshot_before() -> Status {
    status::status(
        Code::NotFound,
        "NO_SNAPSHOT_BEFORE",
        "no save of the box that is kept is that old; list them with ListSnapshots",
    )
}
