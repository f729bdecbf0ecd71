//! What a caller is told who does not get what was asked for.

use cocoonbox_commands::routine::Rejection;
use tonic::{Code, Status};

use super::{ROUTINES_MAX, schedule::BadSchedule};
use crate::status;

pub(super) fn rejected(rejection: Rejection) -> Status {
    let message = rejection.to_string();
    match rejection {
        Rejection::NotFound | Rejection::Deleted => no_such(),
        Rejection::Exists => status::status(Code::AlreadyExists, "ROUTINE_EXISTS", message),
        Rejection::BadName(_) => status::bad_field("plan.name", message),
        Rejection::BadPrompt => status::bad_field("plan.prompt", message),
        Rejection::BadTime => status::bad_field("plan.cron", message),
        Rejection::BadLimit => status::bad_field("plan.run_ms_max", message),
        Rejection::OtherBox => status::bad_field("box_id", message),
        Rejection::NotDue => status::status(Code::Aborted, "NOT_DUE", message),
        Rejection::Running { .. } => {
            status::status(Code::FailedPrecondition, "ROUTINE_RUNNING", message)
        }
        Rejection::Erased => status::status(Code::FailedPrecondition, "PROMPT_ERASED", message),
    }
}

pub(super) fn bad_schedule(error: &BadSchedule) -> Status {
    let field = match error {
        BadSchedule::Cron(_) | BadSchedule::Never => "plan.cron",
        BadSchedule::Zone => "plan.zone",
        BadSchedule::Past => "plan.at_ms",
    };
    status::bad_field(field, error.to_string())
}

pub(super) fn no_such() -> Status {
    status::status(
        Code::NotFound,
        "NO_SUCH_ROUTINE",
        "you have no such routine",
    )
}

pub(super) fn too_many() -> Status {
    status::status(
        Code::ResourceExhausted,
        "TOO_MANY_ROUTINES",
        format!("a user has at most {ROUTINES_MAX} routines; delete one"),
    )
}

pub(super) fn name_taken(name: &str) -> Status {
    status::with(
        Code::AlreadyExists,
        "ROUTINE_EXISTS",
        "you have a routine of this name already",
        &[("name", name)],
    )
}
