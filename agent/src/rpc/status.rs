//! Errors as callers see them: a code, a reason, and what to do.

use std::{collections::HashMap, time::Duration};

use cocoonbox_commands::{agent, exec};
use cocoonbox_events::{AppendError, DecodeError, ReadError};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::{
    blobs, credential, erase,
    exec::StartError,
    journal::{self, LineageError},
    turn::Fault,
};

const DOMAIN: &str = "cocoonbox";

/// When to ask again of a box that is being stopped: by then another process answers.
const RETRY_STOPPING: Duration = Duration::from_secs(2);
/// When to ask again of a box that has too much to do.
const RETRY_BUSY: Duration = Duration::from_millis(500);

/// Callers' own words come back in errors, and errors travel in headers, of which the other side takes a
/// few KiB: past that it gives up the whole connection, with everybody's calls on it.
const TEXT_BYTES_MAX: usize = 400;

/// Builds a status with a reason (upper case with underscores) and facts.
pub(super) fn status(
    code: Code,
    reason: &str,
    message: impl Into<String>,
    facts: &[(&str, String)],
) -> Status {
    let facts: HashMap<String, String> = facts
        .iter()
        .map(|(name, value)| ((*name).to_owned(), bounded(value.clone())))
        .collect();
    let details = ErrorDetails::with_error_info(reason, DOMAIN, facts);
    Status::with_error_details(code, bounded(message.into()), details)
}

pub(super) fn bad_field(field: &str, problem: impl Into<String>) -> Status {
    let problem = bounded(problem.into());
    let mut details = ErrorDetails::with_bad_request_violation(field, problem.clone());
    details.set_error_info(
        "BAD_FIELD",
        DOMAIN,
        HashMap::from([("field".into(), field.into())]),
    );
    Status::with_error_details(
        Code::InvalidArgument,
        format!("`{field}`: {problem}"),
        details,
    )
}

fn bounded(mut text: String) -> String {
    if text.len() > TEXT_BYTES_MAX {
        let end = (0..=TEXT_BYTES_MAX)
            .rev()
            .find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or_default());
        text.push('…');
    }
    text
}

fn retry(code: Code, reason: &str, message: &str, after: Duration) -> Status {
    let mut details = ErrorDetails::with_error_info(reason, DOMAIN, HashMap::new());
    details.set_retry_info(Some(after));
    Status::with_error_details(code, bounded(message.to_owned()), details)
}

pub(super) fn stopping() -> Status {
    retry(
        Code::Unavailable,
        "BOX_STOPPING",
        "the box is being stopped",
        RETRY_STOPPING,
    )
}

pub(super) fn not_released() -> Status {
    retry(
        Code::Unavailable,
        "BOX_NOT_RELEASED",
        "the box waits to be told which log it writes",
        RETRY_BUSY,
    )
}

pub(super) fn lineage(error: &LineageError) -> Status {
    let message = error.to_string();
    match error {
        LineageError::Length { .. } | LineageError::Torn { .. } => {
            status(Code::InvalidArgument, "BAD_LINEAGE", message, &[])
        }
        LineageError::Lost { .. } => status(Code::FailedPrecondition, "LOST", message, &[]),
        LineageError::Elsewhere { .. } => {
            retry(Code::Unavailable, "RESTARTING", &message, RETRY_BUSY)
        }
        LineageError::Released => status(Code::FailedPrecondition, "RELEASED", message, &[]),
        LineageError::Restore(source) => {
            tracing::warn!(error = %source, "events not taken back");
            let message = format!("{message}: {source}");
            status(Code::FailedPrecondition, "NOT_RESTORED", message, &[])
        }
        LineageError::Open { source, .. } => {
            tracing::error!(error = %source, "{message}");
            interrupted(&format!("{message}: {source}"))
        }
        LineageError::Mark(source) => {
            tracing::error!(error = %source, "{message}");
            interrupted(&format!("{message}: {source}"))
        }
        LineageError::Tail(source) => read_error(source),
    }
}

pub(super) fn credential(error: credential::Error) -> Status {
    status(
        Code::Unauthenticated,
        error.reason(),
        error.to_string(),
        &[],
    )
}

/// A stream that cannot say how it goes on; the same request may be sent again.
pub(crate) fn interrupted(message: &str) -> Status {
    retry(Code::Unavailable, "INTERRUPTED", message, RETRY_BUSY)
}

pub(crate) fn damaged(error: &DecodeError) -> Status {
    tracing::error!(%error, "event not readable");
    status(Code::DataLoss, "EVENT_NOT_READABLE", error.to_string(), &[])
}

pub(crate) fn erase_error(error: &erase::Error) -> Status {
    use cocoonbox_events::erasure::PlanError;
    match error {
        erase::Error::Plan(PlanError::Read(error)) => read_error(error),
        erase::Error::Plan(error) => bad_field("positions", error.to_string()),
        erase::Error::Journal(journal::Error::Rejected(rejection)) => {
            bad_field("positions", rejection.to_string())
        }
        erase::Error::Journal(journal::Error::Closed) => stopping(),
        erase::Error::Journal(_) | erase::Error::Rows(_) => {
            tracing::error!(%error, "not erased");
            interrupted("the box could not erase; ask again")
        }
    }
}

pub(crate) fn read_error(error: &ReadError) -> Status {
    let message = error.to_string();
    match error {
        ReadError::NoSuchLog { .. } => status(Code::NotFound, "NO_SUCH_LOG", message, &[]),
        ReadError::AheadOfTail { pos, tail } => {
            let facts = [("pos", pos.to_string()), ("tail", tail.to_string())];
            status(Code::OutOfRange, "AHEAD_OF_TAIL", message, &facts)
        }
        ReadError::Diverged { pos } => status(
            Code::Aborted,
            "DIVERGED",
            message,
            &[("pos", pos.to_string())],
        ),
        ReadError::Moved { to, common } => {
            let facts = [("log", to.to_string()), ("common", common.to_string())];
            status(Code::FailedPrecondition, "HISTORY_REWOUND", message, &facts)
        }
        ReadError::OtherLog { .. } => status(Code::FailedPrecondition, "OTHER_LOG", message, &[]),
        error => {
            tracing::error!(%error, "log not read");
            status(Code::Internal, "LOG_NOT_READABLE", message, &[])
        }
    }
}

fn append_error(error: &AppendError) -> Status {
    let message = error.to_string();
    match error {
        AppendError::Conflict { .. } => status(Code::Aborted, "CONFLICT", message, &[]),
        AppendError::CommandReused => status(Code::AlreadyExists, "NONCE_REUSED", message, &[]),
        AppendError::TooMany { .. } | AppendError::TooLarge { .. } => {
            status(Code::InvalidArgument, "TOO_LARGE", message, &[])
        }
        AppendError::DiskFull => {
            let message = "the disk that the box's log is on is full";
            retry(Code::ResourceExhausted, "DISK_FULL", message, RETRY_BUSY)
        }
        error if error.is_retryable() => retry(Code::Unavailable, "LOG_BUSY", &message, RETRY_BUSY),
        error => {
            tracing::error!(%error, "log not written");
            status(Code::Internal, "LOG_NOT_WRITTEN", message, &[])
        }
    }
}

pub(super) fn exec_error(error: &StartError) -> Status {
    match error {
        StartError::BadId(_) => bad_field("exec_id", error.to_string()),
        StartError::Busy => retry(
            Code::ResourceExhausted,
            "TOO_MANY_EXECS",
            &error.to_string(),
            RETRY_BUSY,
        ),
        StartError::TooManyTerminals => status(
            Code::ResourceExhausted,
            "TOO_MANY_TERMINALS",
            error.to_string(),
            &[],
        ),
        StartError::Stopping => stopping(),
        StartError::PipeEnded(_) => status(
            Code::AlreadyExists,
            "PIPE_NOT_RESUMABLE",
            error.to_string(),
            &[],
        ),
        StartError::Rejected(rejection) => exec_rejection(rejection),
        StartError::Journal(error) => journal_error(error, exec_rejection),
    }
}

fn exec_rejection(rejection: &exec::Rejection) -> Status {
    let message = rejection.to_string();
    match rejection {
        exec::Rejection::Empty { field } => bad_field(field, "is empty"),
        exec::Rejection::TooLarge { field, .. } => bad_field(field, message),
        exec::Rejection::OtherExec { .. } => {
            status(Code::AlreadyExists, "OTHER_EXEC", message, &[])
        }
        _ => status(Code::FailedPrecondition, "EXEC_STATE", message, &[]),
    }
}

pub(super) fn agent_error(error: &Fault) -> Status {
    match error {
        Fault::BadId(_) => bad_field("agent_id", error.to_string()),
        Fault::TooMany => status(
            Code::ResourceExhausted,
            "TOO_MANY_AGENTS",
            error.to_string(),
            &[],
        ),
        Fault::Journal(error) => journal_error(error, agent_rejection),
    }
}

pub(super) fn no_such_agent() -> Status {
    let message = agent::Rejection::NotFound.to_string();
    status(Code::NotFound, "AGENT_NOT_FOUND", message, &[])
}

pub(super) fn blob_error(error: &blobs::Error) -> Status {
    let message = error.to_string();
    match error {
        blobs::Error::BadName(_) => bad_field("name", message),
        blobs::Error::NotFound(_) => status(Code::NotFound, "NO_SUCH_BLOB", message, &[]),
        blobs::Error::Erased => status(Code::NotFound, "ERASED", message, &[]),
        blobs::Error::Behind { .. } => bad_field("offset", message),
        blobs::Error::Picture(_) => bad_field("images", message),
        blobs::Error::Store(error) => journal_error(error, |rejection| {
            status(
                Code::InvalidArgument,
                "BAD_BLOB",
                rejection.to_string(),
                &[],
            )
        }),
        blobs::Error::Read(error) => read_error(error),
    }
}

fn agent_rejection(rejection: &agent::Rejection) -> Status {
    use agent::Rejection;
    let message = rejection.to_string();
    match rejection {
        Rejection::NotFound => status(Code::NotFound, "AGENT_NOT_FOUND", message, &[]),
        Rejection::Closed => status(Code::FailedPrecondition, "AGENT_CLOSED", message, &[]),
        Rejection::QueueFull => retry(Code::ResourceExhausted, "QUEUE_FULL", &message, RETRY_BUSY),
        Rejection::UnknownApproval { .. } => {
            status(Code::NotFound, "APPROVAL_NOT_FOUND", message, &[])
        }
        Rejection::AlreadyDecided { .. } => {
            status(Code::FailedPrecondition, "APPROVAL_DECIDED", message, &[])
        }
        Rejection::ApprovalExpired { .. } => {
            status(Code::FailedPrecondition, "APPROVAL_EXPIRED", message, &[])
        }
        Rejection::UnknownQuestion { .. } => {
            status(Code::NotFound, "QUESTION_NOT_FOUND", message, &[])
        }
        Rejection::AlreadyAnswered { .. } => {
            status(Code::FailedPrecondition, "QUESTION_ANSWERED", message, &[])
        }
        Rejection::PromptNotQueued { .. } | Rejection::PromptNotTakenUp { .. } => {
            status(Code::NotFound, "PROMPT_NOT_FOUND", message, &[])
        }
        Rejection::UnknownBranch { .. } => status(Code::NotFound, "BRANCH_NOT_FOUND", message, &[]),
        Rejection::Empty { field } => bad_field(field, "is empty"),
        Rejection::TooLarge { field, .. } => bad_field(field, message),
        Rejection::BadName(_) => bad_field("name", message),
        _ => status(Code::FailedPrecondition, "AGENT_STATE", message, &[]),
    }
}

fn journal_error<R: std::error::Error + 'static>(
    error: &journal::Error<R>,
    rejection: impl Fn(&R) -> Status,
) -> Status {
    match error {
        journal::Error::Rejected(rejected) => rejection(rejected),
        journal::Error::Closed => stopping(),
        journal::Error::Load(error) => {
            status(Code::Internal, "LOG_NOT_READABLE", error.to_string(), &[])
        }
        journal::Error::Append(error) => append_error(error),
    }
}
