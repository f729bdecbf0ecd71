//! What a caller is told who does not get what was asked for.

use cocoonbox_commands::boxes;
use cocoonbox_projections::ViewsError;
use tonic::{Code, Status};

use crate::{lease::SectionError, status};

pub(super) fn not_now(error: &SectionError) -> Status {
    tracing::warn!(error = status::describe(error), "a box cannot be made now");
    status::status(
        Code::Unavailable,
        "UNAVAILABLE",
        "a box cannot be made right now; send the same command id again",
    )
}

pub(super) fn view(error: ViewsError) -> Status {
    status::internal(&error)
}

pub(super) fn rejected(rejection: boxes::Rejection) -> Status {
    use boxes::Rejection as R;
    let message = rejection.to_string();
    match rejection {
        R::NotFound | R::OtherBox { .. } => status::status(Code::NotFound, "NO_SUCH_BOX", message),
        R::BeingDeleted | R::Deleted => {
            status::status(Code::FailedPrecondition, "BOX_DELETED", message)
        }
        R::NotRunning { .. } => {
            status::status(Code::FailedPrecondition, "BOX_NOT_RUNNING", message)
        }
        R::BadName(error) => status::bad_field("name", error.to_string()),
        R::BadModels(error) => status::bad_field("models", error.to_string()),
        R::BadTime { .. } => status::bad_field("until_ms", message),
        R::Empty { field } => status::bad_field(field, "is empty"),
        R::Exists => status::status(Code::AlreadyExists, "BOX_EXISTS", message),
        // Only the reactor reports; a caller cannot get here.
        R::Stale { .. } | R::OtherLog { .. } | R::AnchorDiverged { .. } => {
            status::status(Code::Aborted, "STALE", message)
        }
    }
}
