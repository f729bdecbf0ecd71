//! Why control is not given, as callers see it.

use cocoonbox_commands::control::Rejection;
use time::OffsetDateTime;
use tonic::{Code, Status};

use crate::status;

pub(crate) fn rejected(rejection: Rejection) -> Status {
    let message = rejection.to_string();
    match rejection {
        Rejection::Held(lease) => {
            let until_ms = (lease.until_us / 1_000).to_string();
            let who = if lease.label.is_empty() {
                &lease.user_id
            } else {
                &lease.label
            };
            status::with(
                Code::FailedPrecondition,
                "CONTROL_HELD",
                format!(
                    "`{who}` has control of this display{}",
                    until(lease.until_us)
                ),
                &[
                    ("user_id", &lease.user_id),
                    ("label", &lease.label),
                    ("until_ms", &until_ms),
                ],
            )
        }
        Rejection::Over => over(),
        Rejection::BadLeaseId => status::bad_field("lease_id", message),
        Rejection::BadLabel => status::bad_field("label", message),
        Rejection::LongNote => status::bad_field("note", message),
        Rejection::BadIdle => status::bad_field("idle_ms", message),
    }
}

/// When a lease ends unless there is input, for people.
fn until(until_us: i64) -> String {
    let at = OffsetDateTime::from_unix_timestamp(until_us / 1_000_000);
    at.map_or_else(
        |_| String::new(),
        |at| {
            let (hour, minute, second) = at.to_hms();
            format!(" until {hour:02}:{minute:02}:{second:02} UTC, or longer if there is input")
        },
    )
}

pub(crate) fn over() -> Status {
    status::status(
        Code::FailedPrecondition,
        "LEASE_OVER",
        "this lease does not hold any more; take control again with another id",
    )
}

pub(crate) fn in_use() -> Status {
    status::status(
        Code::FailedPrecondition,
        "LEASE_IN_USE",
        "another viewer sends input under this lease",
    )
}

pub(super) fn unfenced() -> Status {
    status::status(
        Code::Unavailable,
        "BOX_UNREACHABLE",
        "the box does not say that its agents keep still; nothing was taken, try again with another lease id",
    )
}

pub(crate) fn closing() -> Status {
    status::status(
        Code::Unavailable,
        "BOX_LET_GO",
        "the box stops, or another api process drives it from now on; try again",
    )
}
