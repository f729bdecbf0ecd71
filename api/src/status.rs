//! Errors to callers: standard gRPC codes with `google.rpc` details that a program can act on.

use std::{collections::HashMap, time::Duration};

use cocoonbox_events::{AppendError, Execute, OffsetKey, ReadError};
use cocoonbox_projections::ViewsError;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

/// `google.rpc.ErrorInfo.domain` of everything we say.
pub const DOMAIN: &str = "cocoonbox";

/// Asks a client to come back after this long where we cannot know better.
const RETRY: Duration = Duration::from_millis(500);
/// What a caller sent may be in an error, and an error travels in headers: clients drop the connection,
/// with every other call on it, when those are larger than about 16 KiB.
const TEXT_BYTES_MAX: usize = 400;

/// Makes a status with a machine-readable reason.
pub fn status(code: Code, reason: &str, message: impl Into<String>) -> Status {
    with(code, reason, message, &[])
}

/// Makes a status with a reason and metadata.
pub fn with(
    code: Code,
    reason: &str,
    message: impl Into<String>,
    metadata: &[(&str, &str)],
) -> Status {
    let metadata: HashMap<String, String> = metadata
        .iter()
        .map(|(key, value)| ((*key).to_owned(), bounded((*value).to_owned())))
        .collect();
    let message = bounded(message.into());
    let mut details = ErrorDetails::with_error_info(reason, DOMAIN, metadata);
    if matches!(
        code,
        Code::Unavailable | Code::ResourceExhausted | Code::Aborted
    ) {
        details.set_retry_info(Some(RETRY));
    }
    Status::with_error_details(code, message, details)
}

/// Names the field of the request that is wrong.
pub fn bad_field(field: &str, what: impl Into<String>) -> Status {
    let what = bounded(what.into());
    let mut details = ErrorDetails::with_error_info("BAD_REQUEST", DOMAIN, HashMap::new());
    details.add_bad_request_violation(field, what.clone());
    Status::with_error_details(Code::InvalidArgument, format!("{field}: {what}"), details)
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

/// A fault of ours: logged here with its causes, told without them. Views that are being built are none: the
/// caller is told how far they are.
pub fn internal(error: &(dyn std::error::Error + 'static)) -> Status {
    if let Some(ViewsError::Building { done, of, .. }) = error.downcast_ref() {
        return with(
            Code::Unavailable,
            "VIEWS_BUILDING",
            format!("what you asked for is being built: {done} of {of} events are taken in"),
            &[("done", &done.to_string()), ("of", &of.to_string())],
        );
    }
    tracing::error!(error = describe(error), "internal error");
    status(
        Code::Internal,
        "INTERNAL",
        "internal error; the server's log has it",
    )
}

/// Returns an error with everything that led to it, on one line.
pub fn describe(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

pub fn from_append(error: AppendError) -> Status {
    match error {
        AppendError::Conflict { .. } => {
            status(Code::Aborted, "CONFLICT", "others were faster; try again")
        }
        AppendError::CommandReused => status(
            Code::InvalidArgument,
            "COMMAND_REUSED",
            "this command id was used before for another request",
        ),
        AppendError::TooMany { .. } | AppendError::TooLarge { .. } => {
            status(Code::InvalidArgument, "TOO_LARGE", error.to_string())
        }
        AppendError::Overloaded => status(
            Code::ResourceExhausted,
            "OVERLOADED",
            "too much at once; try again",
        ),
        AppendError::DiskFull => status(
            Code::ResourceExhausted,
            "DISK_FULL",
            "the server's disk is full",
        ),
        AppendError::NoKey => status(Code::NotFound, "USER_DELETED", "this user was deleted"),
        AppendError::Unknown | AppendError::Stopped => status(
            Code::Unavailable,
            "OUTCOME_UNKNOWN",
            "whether it happened is not known; send the same command id again",
        ),
        // Whoever appends looks up the branch that is written first, and a rewind came in between.
        AppendError::Moved { .. } => status(
            Code::Aborted,
            "HISTORY_REWOUND",
            "the history was rewound just then; try again",
        ),
        AppendError::NoSuchLog { .. }
        | AppendError::OtherLog { .. }
        | AppendError::NoParent
        | AppendError::OtherHistory { .. }
        | AppendError::NoRandomness => internal(&error),
    }
}

pub fn from_read(error: ReadError) -> Status {
    match error {
        ReadError::NoSuchLog { .. } => status(
            Code::NotFound,
            "NO_SUCH_LOG",
            "this offset key names a log that is not here",
        ),
        ReadError::AheadOfTail { pos, tail } => with(
            Code::OutOfRange,
            "AHEAD_OF_TAIL",
            format!("position {pos} is ahead of the log's end {tail}"),
            &[("tail", &tail.to_string())],
        ),
        ReadError::Diverged { pos } => with(
            Code::DataLoss,
            "DIVERGED",
            format!("the history differs from this offset key's at position {pos}"),
            &[("pos", &pos.to_string())],
        ),
        ReadError::Moved { to, common } => with(
            Code::FailedPrecondition,
            "HISTORY_REWOUND",
            format!("the history was rewound to position {common} and goes on in log {to}"),
            &[("log", &to.to_string()), ("common", &common.to_string())],
        ),
        ReadError::OtherLog { .. } => status(
            Code::InvalidArgument,
            "OTHER_LOG",
            "this offset key is of another history",
        ),
        ReadError::Damaged { .. } | ReadError::Io(_) => internal(&error),
    }
}

/// Says that a key is of a branch that was left, and with which key to go on: what the client has seen
/// behind `resume` was undone.
pub fn rewound(resume: &OffsetKey) -> Status {
    with(
        Code::FailedPrecondition,
        "HISTORY_REWOUND",
        format!(
            "the history was rewound to position {}; what you saw behind it was undone; go on with `{resume}`",
            resume.pos
        ),
        &[
            ("log", &resume.log.to_string()),
            ("common", &resume.pos.to_string()),
            ("offset_key", &resume.to_string()),
        ],
    )
}

/// Maps what an aggregate's execution can say, leaving its rejections to `rejected`.
pub fn from_execute<R: std::error::Error + 'static>(
    error: Execute<R>,
    rejected: impl FnOnce(R) -> Status,
) -> Status {
    match error {
        Execute::Rejected(rejection) => rejected(rejection),
        Execute::Load(error) => internal(&error),
        Execute::Append(error) => from_append(error),
    }
}
